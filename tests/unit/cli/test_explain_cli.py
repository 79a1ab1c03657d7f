"""``convc explain`` knows every code that a command prints: they are collected from the sources, not from a list."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import convc as package
from convc import errors
from convc.auditor.rules import RULES
from convc.cli.explain import codes
from convc.errors import ConvcError
from convc.ir.findings import Verdict
from convc.machine.base.switches import OPEN
from convc.report import network, verify

PACKAGE = Path(package.__file__).parent
SPACES = ("shared", "tensor", "global")
REPORTS = {"report", "_report", "finding", "_finding", "warp_finding", "Finding", "Cause"}
"""Functions and records that make a finding; each takes its rule as ``rule``, or in the place where this name is."""
DOCS = PACKAGE / "docs"


def trees(*rooms: str) -> Iterator[ast.AST]:
    for room in rooms:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            yield ast.parse(path.read_text("utf-8"))


def texts_in(node: ast.AST) -> Iterator[str]:
    """Texts that an expression can be; ``{space}`` in one is each space of memory."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*texts_in(body), *texts_in(orelse))
        case ast.JoinedStr(values=parts):
            for space in SPACES:
                yield "".join(part.value if isinstance(part, ast.Constant) else space for part in parts)


def name_of(function: ast.expr) -> str:
    return getattr(function, "id", getattr(function, "attr", ""))


def place_of_rule(tree: ast.AST) -> dict[str, int]:
    """Where functions and records of a file take their ``rule``, not counting ``self``."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            fields = [name_of(each.target) for each in node.body if isinstance(each, ast.AnnAssign)]
            if "rule" in fields:
                found[node.name] = fields.index("rule")
        if isinstance(node, ast.FunctionDef):
            names = [arg.arg for arg in node.args.args if arg.arg != "self"]
            if "rule" in names:
                found[node.name] = names.index("rule")
    return found


def rules_in(tree: ast.AST, places: dict[str, int]) -> Iterator[str]:
    """Rules that a file gives to findings: as an argument, or through a variable called ``rule``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) in REPORTS:
            yield from (text for word in node.keywords if word.arg == "rule" for text in texts_in(word.value))
            place = places.get(name_of(node.func))
            if place is not None and place < len(node.args):
                yield from texts_in(node.args[place])
        if isinstance(node, ast.Assign) and any(name_of(target) == "rule" for target in node.targets):
            yield from texts_in(node.value)
        if isinstance(node, ast.For) and isinstance(node.target, ast.Tuple) and isinstance(node.iter, ast.Tuple):
            names = [name_of(each) for each in node.target.elts]
            if "rule" in names:
                for row in node.iter.elts:
                    yield from texts_in(row.elts[names.index("rule")])


def finding_rules() -> set[str]:
    shared = {}
    for tree in trees("machine/base", "sanitizer"):
        shared |= place_of_rule(tree)
    return {rule for tree in trees("machine", "sanitizer") for rule in rules_in(tree, shared | place_of_rule(tree))}


def rejection_rules() -> set[str]:
    found = set()
    for tree in trees("compiler"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and name_of(node.func) == "Rejection":
                found |= {text for word in node.keywords if word.arg == "rule" for text in texts_in(word.value)}
            if isinstance(node, ast.Call) and name_of(node.func) == "_turned_down":
                found |= set(texts_in(node.args[1]))
            if isinstance(node, ast.FunctionDef) and node.returns is not None:
                first = node.args.args[0].annotation if node.args.args else None
                judges = name_of(first) in ("TiledProblem", "DeviceLayout") if first is not None else False
                if judges and ast.unparse(node.returns) == "str | None" and not node.name.startswith("_"):
                    found.add(node.name)
    return found


def verdict_words() -> set[str]:
    """Words with which verify judges: what its function for a verdict gives, and words in capitals beside a number."""
    words = set()
    judging = (verify.verdict, verify.verdicts)
    for function in (*judging, network._row, network.output_line):
        for node in ast.walk(ast.parse(inspect.getsource(function))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.endswith("."):
                text = node.value.strip(" :")
                words |= {text} if function in judging else {word for word in text.split() if word.isupper()}
    known = {"", ",", "integer", "-", "RMS"}
    return {word for word in words if word not in known and "`" not in word} | {verdict.name for verdict in Verdict}


def error_codes() -> set[str]:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ConvcError)]
    own = [kind for kind in kinds if "code" in vars(kind) and kind is not ConvcError]
    assert len({kind.code for kind in own}) == len(own), "codes are unique"
    return {kind.code for kind in own}


@pytest.mark.parametrize(
    ("kind", "printed_by", "sample"),
    [
        ("error", error_codes, {"M100", "M200", "P100"}),
        (
            "finding",
            finding_rules,
            {"race-tensor-memory", "hang", "fault", "bulk-group-unwaited", "printf", "writer"},
        ),
        ("verdict", verdict_words, {"exact", "in bound", "WRONG", "stopped", "incomplete"}),
        ("rule", rejection_rules, {"grid", "ws_shape", "proof", "reuse", "spatial_axes"}),
        ("audit", lambda: set(RULES), {"pair-rendezvous", "transaction-bytes"}),
        ("switch", lambda: set(OPEN), {"elect"}),
    ],
    ids=["error", "finding", "verdict", "rule", "audit", "switch"],
)
def test_every_code_is_explained_and_no_other(kind, printed_by, sample):
    printed = printed_by()
    assert sample <= printed, "the search finds what there is"
    explained = {each.code: each for each in codes().values() if each.kind == kind}
    assert set(explained) == printed
    for each in explained.values():
        assert len(each.explanation) > 20
        assert each.explanation.endswith((".", ".)"))


def test_no_code_means_two_things():
    known = codes()
    assert len({name.lower() for name in known}) == len(known)
    assert ConvcError.code not in known, "what no error has is not listed"


def test_each_is_printed_and_listed(convc):
    listed = convc.good("explain")
    for each in codes().values():
        assert f"  {each.code} " in listed
        if each.kind in ("error", "verdict"):
            said = convc.good("explain", *each.code.split())
            assert each.explanation in said
    assert "DeadlockError (exit code 1)" in convc.good("explain", "M200")


@pytest.mark.parametrize(
    ("spelling", "code"),
    [
        ("P100", "P100"),
        ("p100", "P100"),
        ("[P100]", "P100"),
        ("error[P100]", "P100"),
        ("error[P100]:", "P100"),
        ("review[race-global-memory]:", "race-global-memory"),
        ("error[hang]", "hang"),
        ("in bound", "in bound"),
        ("wrong", "WRONG"),
        ("elect", "elect"),
        ("[grid]", "grid"),
    ],
)
def test_a_code_is_taken_as_it_was_printed(convc, spelling, code):
    assert convc.good("explain", spelling).startswith(f"{code}: ")


@pytest.mark.parametrize(
    ("spelling", "guess"),
    [("P10", "P100"), ("race-tensr-memory", "race-tensor-memory"), ("electt", "elect"), ("in bond", "in bound")],
)
def test_a_code_that_is_nearly_right_is_guessed(convc, spelling, guess):
    said = convc.refused("explain", spelling)
    assert f"there is no code '{spelling}'" in said
    assert "did you mean" in said
    assert guess in said


def test_several_codes_are_explained_one_after_the_other(convc):
    said = convc.good("explain", "P100", "elect")
    assert said == convc.good("explain", "P100") + "\n" + convc.good("explain", "elect")


def test_nothing_near_says_where_the_list_is(convc):
    assert "hint: `convc explain` lists all codes" in convc.refused("explain", "quux!")


def test_the_json_has_kinds(convc):
    listed = json.loads(convc.good("explain", "--json", "-"))["codes"]
    assert {each["kind"] for each in listed} == {"error", "finding", "verdict", "audit", "switch", "rule"}
    (one,) = json.loads(convc.good("explain", "M100", "--json", "-"))["codes"]
    assert (one["name"], one["exit_code"]) == ("MachineFault", 1)


@pytest.mark.parametrize("heading", ["## What is checked", "## The same mistakes in the manual and in other tools"])
def test_the_page_lists_every_finding_of_a_check(heading):
    """Each once, in a table; a note of the simulator is no finding of a check."""
    page = (DOCS / "checking.md").read_text("utf-8")
    part = page.partition(f"{heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[a-z0-9-]+`(?:, `[a-z0-9-]+`)*) \|", part, re.MULTILINE)
    listed = [name.strip("`") for row in rows for name in row.split(", ")]
    assert sorted(listed) == sorted(finding_rules() - {"printf", "writer"})
