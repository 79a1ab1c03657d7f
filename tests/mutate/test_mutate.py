"""The mutation tool: it finds what weak tests leave, kills what they see, and leaves the checkout as it is."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mutate.__main__ import main
from mutate.mutants import Source
from mutate.reach import Reach, Reaching, lines_then
from mutate.swap import imported_lines, swapped
from mutate.trial import rounds

TESTS = Path(__file__).parents[1]
TEXT = '''"""A module of 1 + 1."""

from __future__ import annotations


def clamped(x: int = 3, *, most: "1 < 2" = 10) -> int:
    """At most 4."""
    if x < 0 or x is None:
        raise ValueError(f"{x + 1}")
    note(most, x, loud=True)
    return min(x, most)
'''
DRAWN = {
    "constant": {"3 -> 4", "10 -> 11", "0 -> 1", "True -> False"},
    "condition": {"x < 0 or x is None -> (True)", "x < 0 or x is None -> (False)"},
    "operator": {"x < 0 -> (x <= 0)", "x is None -> (x is not None)", "x < 0 or x is None -> (x < 0 and x is None)"},
    "argument": {
        "note(most, x, loud=True) -> (note(x, most, loud=True))", "note(most, x, loud=True) -> (note(most, x))",
    },
    "call": {'raise ValueError(f"{x + 1}") -> pass', "note(most, x, loud=True) -> pass", "min -> max"},
}  # fmt: skip


def test_mutants_of_a_text():
    mutants = Source(path="m.py", text=TEXT).mutants
    found = {kind: {m.name.partition(": ")[2] for m in mutants if m.kind == kind} for kind in DRAWN}
    assert found == DRAWN
    for mutant in mutants:
        ast.parse(mutant.text(TEXT))
        assert mutant.line == mutant.statement


def test_the_length_that_is_left_is_any_negative_number():
    found = {mutant.name.partition(": ")[2] for mutant in Source(path="m.py", text="x.reshape(y, -1, 2)[-1]\n").mutants}
    assert found == {"x.reshape(y, -1, 2) -> (x.reshape(-1, y, 2))", "-1 -> (1)", "2 -> 3", "1 -> 2"}


@pytest.mark.parametrize("path", ["convc/errors.py", "convc/ir/findings.py"])
def test_mutants_of_a_real_file_can_be_read(path):
    text = (TESTS.parent / path).read_text(encoding="utf-8")
    for mutant in Source(path=path, text=text).mutants[::7]:
        assert ast.unparse(ast.parse(mutant.text(text))) != ast.unparse(ast.parse(text))


def test_lines_of_a_text_that_has_changed_are_found_in_the_old_one():
    then = "a\nb\nc\nd\n"
    now = "new\na\nb\nc2\nd\n"
    assert lines_then(then, now, (1, 2, 3, 4, 5)) == (1, 1, 2, 2, 4)
    assert lines_then(then, then, (4,)) == (4,)


def test_the_package_comes_first_and_the_rest_in_a_round_of_its_own():
    def tests(file: str, *seconds: float) -> list[Reaching]:
        return [Reaching(name=f"{file}::t{i}", seconds=s) for i, s in enumerate(seconds)]

    reached = {
        file: tests(file, *seconds)
        for file, seconds in {
            "tests/kernel/test_a.py": (0.1,),
            "tests/unit/ptx/test_b.py": (6.0, 0.5),
            "tests/unit/ptx/test_c.py": (3.0,),
            "tests/docs/test_d.py": (50.0,),
        }.items()
    }
    first, second = rounds("convc/ptx/lexer.py", reached, 20)
    assert [test.name for test in second] == ["tests/unit/ptx/test_b.py::t0", "tests/kernel/test_a.py::t0"]
    assert sum(test.seconds for test in (*first, *second)) <= 20
    assert {test.file for test in first} == {"tests/unit/ptx/test_b.py", "tests/unit/ptx/test_c.py"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--source", "tests"], "mutants are drawn from convc and what is in it, not from tests"),
        (["--source", "convc/nothing"], "there is no convc/nothing in "),
        (["--tests", "tests/nothing"], "there is no tests/nothing in "),
    ],
)
def test_paths_that_are_not_there_are_refused(given, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(given)
    assert said in capsys.readouterr().err


TWO = """LIMIT = 3
DOUBLES = [2 * i for i in range(4)]


def plain(x, most=LIMIT):
    return min(x, most)


class Kept:
    SIZE = 4

    def size(self):
        return self.SIZE + 1


def maker(step):
    def made(x):
        return x + step
    return made


PAIR = (lambda x: x + 1), (lambda x: x + 2)
made = maker(5)
"""


@pytest.mark.parametrize(
    ("before", "after", "called", "now"),
    [
        ("min(x, most)", "max(x, most)", "plain(7)", 7),
        ("self.SIZE + 1", "self.SIZE - 1", "Kept().size()", 3),
        ("x + step", "x - step", "made(7)", 2),
        ("return x + step", "return x", "made(7)", None),
        ("LIMIT = 3", "LIMIT = 4", "plain(7)", None),
        ("most=LIMIT", "most=2", "plain(7)", None),
        ("2 * i", "3 * i", "DOUBLES[1]", None),
        ("SIZE = 4", "SIZE = 5", "Kept().size()", None),
        ("x + 2", "x + 3", "PAIR[1](0)", None),
    ],
)
def test_functions_change_where_they_stand_and_what_an_import_has_run_does_not(before, after, called, now, tmp_path):
    """``now`` is None where a process has to import the file anew."""
    path = str(tmp_path / "two.py")
    package: dict[str, Any] = {}
    exec(compile(TWO, path, "exec"), package)
    then = eval(called, package)
    assert swapped(path, TWO, TWO.replace(before, after)) == (now is not None)
    assert eval(called, package) == (then if now is None else now)


def test_the_lines_of_an_import_are_those_outside_of_functions():
    numbers = imported_lines(TWO)
    found = {line for number, line in enumerate(TWO.splitlines(), 1) if number in numbers}
    assert found >= {"LIMIT = 3", "DOUBLES = [2 * i for i in range(4)]", "    SIZE = 4", "made = maker(5)"}
    assert not found & {"    return min(x, most)", "        return self.SIZE + 1", "        return x + step"}


def test_a_line_that_came_from_elsewhere_is_tried_by_all_that_reach_its_file(tmp_path):
    (tmp_path / "m.py").write_text("def f():\n    return 1\n\n\ndef g():\n    return 2\n")
    answer = tmp_path / "answer.json"
    lines = {"m.py": [[[], [1, 5]], [[0], [2]], [[1], [6]]]}
    answer.write_text(json.dumps({"seconds": {"t::f": 1.0, "t::g": 2.0, "t::h": 3.0}, "lines": lines}))
    reach = Reach(tmp_path / "map.sqlite")
    reach.add("t", "text", answer, tmp_path)
    then = (tmp_path / "m.py").read_text()
    now = then.replace("def g", "def new():\n    x = 3\n    return x\n\n\ndef g")

    def found(text: str, line: int) -> set[str]:
        return {test.name for tests in reach.tests("m.py", text, (line,)).values() for test in tests}

    assert found(then, 2) == {"t::f"}
    assert found(now, 11) == {"t::g"}
    assert found(then.replace("return 1", "return 1\n    return 4"), 3) == {"t::f"}
    assert found(then, 3) == set()
    assert found(now, 6) == {"t::f", "t::g"}


ROOM = '''"""A package."""

LIMIT = 3


def counted(n):
    found = 0
    while found < n:
        found += 1
    return found


def limited(n):
    if n > LIMIT:
        return LIMIT
    return n


def nobody():
    return -LIMIT


from functools import cache


@cache
def kept(n):
    return n + 1
'''
ROOM_TESTS = """from convc.package import counted, kept, limited


def test_counted():
    assert counted(2) == 2


def test_limited():
    assert limited(1) == 1


def test_broken():
    assert False


def test_that_fills_a_cache():
    kept(1)


def test_that_finds_it_full():
    assert kept(1) == 2
"""
SCRIPT = """import sys
from pathlib import Path
from mutate import campaign, copies, warm

warm.SLACK_S = 2
warm.TEST_SLACK_S = 1
copies.IMPORTED = ("_pytest.assertion.rewrite", "pytest", "coverage")
copies.prepare()
root = Path(sys.argv[1])
made = campaign.Campaign(root=root, folder=root / "build", source="convc", tests=("tests",))
made.trace()
print(made.summary(made.judge(made.drawn(0, 99), root / "build" / "seed-0.jsonl")))
"""


@pytest.mark.slow
def test_a_campaign_on_a_small_checkout(tmp_path):
    root = tmp_path / "checkout"
    files = {"convc/package.py": ROOM, "tests/unit/package/test_package.py": ROOM_TESTS, ".gitignore": "build\n"}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)

    said = run(root)
    assert "map: 1 of 1 test files are traced" in said
    journal = root / "build" / "seed-0.jsonl"
    verdicts = {v["name"].partition("package.py:")[2]: v for v in map(json.loads, journal.read_text().splitlines())}
    assert {name: v["said"] for name, v in verdicts.items()} == {
        "3: 3 -> 4": "survived",
        "7: 0 -> 1": "survived",
        "8: found < n -> (found <= n)": "killed",
        "8: found < n -> (False)": "killed",
        "9: found += 1 -> pass": "late",
        "9: 1 -> 2": "survived",
        "14: n > LIMIT -> (n >= LIMIT)": "survived",
        "14: n > LIMIT -> (True)": "killed",
        "14: n > LIMIT -> (False)": "survived",
        "20: -LIMIT -> (LIMIT)": "unreached",
        "28: n + 1 -> (n - 1)": "killed",
        "28: 1 -> 2": "killed",
    }
    assert verdicts["14: n > LIMIT -> (True)"]["by"] == "tests/unit/package/test_package.py::test_limited"
    assert verdicts["14: n > LIMIT -> (False)"]["by"] == "1 of 1 tests"
    assert "+    if (False):" in verdicts["14: n > LIMIT -> (False)"]["diff"]
    assert {name: (root / name).read_text() for name in files} == files

    strong = ROOM_TESTS.replace("limited(1) == 1", "(limited(1), limited(9)) == (1, 3)")
    (root / "tests/unit/package/test_package.py").write_text(strong)
    count = len(journal.read_text().splitlines())
    again = run(root)
    assert "14: n > LIMIT -> (False)" not in again
    assert "14: n > LIMIT -> (n >= LIMIT)" in again
    tried = [json.loads(line)["said"] for line in journal.read_text().splitlines()[count:]]
    assert sorted(tried) == ["killed"] * 2 + ["survived"] * 3 + ["unreached"]


def run(root: Path) -> str:
    path = {**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(root)], env=path, capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout
