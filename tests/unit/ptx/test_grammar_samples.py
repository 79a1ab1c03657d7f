"""Every row of the table: it is well formed, and a sample of it is taken by the reader and by ptxas."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ptxas import around, judge

from convc.ptx import format_instr, parse
from convc.ptx.grammar import broken_rule, forms, in_order, match_head, walk
from convc.ptx.operands import SPACES, Spec, UpTo
from convc.ptx.syntax import TYPE_BITS
from convc.ptx.tables import FOLDER, Choice, Group, Row, choices, opcodes, rows_of

ROWS = [row for opcode in opcodes() for row in rows_of(opcode)]

REGISTERS = {
    "pred": "%p", "b8": "%c", "b16": "%h", "b32": "%r", "b64": "%rd", "b128": "%rq", "u16": "%uh", "u32": "%u",
    "s32": "%s", "u64": "%ud", "s64": "%sd", "f16": "%fh", "f16x2": "%fx", "f32": "%f", "f64": "%fd",
}  # fmt: skip

ADDRESSES = {
    "tmem": "[%r1]", "generic": "[%rd1+16]", "global": "[gvar+4]", "shared": "[svar+16]", "local": "[lvar]",
    "const": "[cvar]", "param": "[pa]",
}  # fmt: skip

NOT_IN_A_KERNEL = re.compile(r"param::func|^st\S*\.param|^call")
"""Spellings that ptxas takes only inside functions."""


WORDS = (
    "dest", "reg", "value", "imm", "vector", "parts", "label", "targets", "func", "prototype", "sink", "address",
    "tensor", "when", "step", "wider", "not", "special", "symbol", "some", "double", ".space",
)  # fmt: skip
"""What a description of an operand may say, besides types, numbers and names of sets."""


def heads(row: Row, rng: random.Random, wanted: int) -> Iterator[str]:
    """Different choices of modifiers that break no rule."""
    found = set()
    for _ in range(60 * wanted):
        chosen = []
        for item in row.items:
            if isinstance(item, Choice) or rng.random() < 0.5:
                each = item.items if isinstance(item, Group) else (item,)
                chosen += [(choice, rng.choice(list(choice.values))) for choice in each]
        if broken_rule(row, tuple(chosen)) is None:
            found.add(".".join((row.form.opcode, *(value for _, value in chosen))))
        if len(found) == wanted:
            break
    yield from sorted(found)


def operand(spec: Spec, rng: random.Random) -> str:
    match spec.kind:
        case "address":
            return ADDRESSES[spec.space]
        case "tensor":
            return f"[%rd1, {{{', '.join(rng.choice(('%r1', '%s2', '-3')) for _ in range(spec.length))}}}]"
        case "label":
            return "END"
        case "targets":
            return "LIST"
        case "sink":
            return "_"
        case "imm":
            return str(spec.numbers[-1] if spec.numbers else 4)
        case "parts":
            half = f"b{TYPE_BITS[spec.types[0]] // 2}"
            return f"{{{register(half, rng)}, {register(half, rng)}}}"
    if spec.length is not None:
        return f"{{{', '.join(register(spec.types[0], rng, number) for number in range(spec.length))}}}"
    if spec.second is not None:
        return f"{register(spec.types[0], rng)}|{register('pred', rng)}"
    if spec.kind == "value" and spec.numbers is not None and rng.random() < 0.5:
        return "0.5" if isinstance(spec.numbers, UpTo) else str(spec.numbers[-1])
    return register(spec.types[0], rng)


def register(kind: str, rng: random.Random, number: int | None = None) -> str:
    bits = f"b{TYPE_BITS[kind]}"
    name = REGISTERS[kind] if kind in REGISTERS and (kind == "pred" or rng.random() < 0.5) else REGISTERS[bits]
    if number is not None:
        return f"{REGISTERS[bits]}{number}"
    return f"{name}{rng.randrange(4)}"


def samples(row: Row, rng: random.Random, wanted: int) -> Iterator[str]:
    for head in heads(row, rng, wanted):
        matches = [match for match in match_head(head) if match.form.name == row.form.name]
        assert matches, head
        shape = rng.choice(rng.choice(matches).shapes)
        yield f"{head} {', '.join(operand(spec, rng) for spec in shape)};".replace(" ;", ";")


def statements(seed: int, wanted: int) -> list[str]:
    rng = random.Random(seed)
    found = {sample for row in ROWS if row.form.opcode != "call" for sample in samples(row, rng, wanted)}
    return sorted(each for each in found if not NOT_IN_A_KERNEL.search(each))


def test_every_row_has_a_sample_that_ptxas_takes(tmp_path):
    texts = statements(seed=1, wanted=2)
    assert len(texts) > 400
    names = {instr.form.name for text in texts for instr in parse(around(text)).kernels[0].body}
    assert names == {row.form.name for row in ROWS} - {"call", "call.indirect"} | {"ret"}
    verdicts = judge(texts, tmp_path)
    refused = [(text, said) for text, said in zip(texts, verdicts, strict=True) if said is not None]
    assert not refused


def test_printing_a_sample_gives_it_back():
    everything = [text for text in statements(seed=2, wanted=1) if "cta_group::2" not in text]
    warpgroups = [text for text in everything if text.startswith("wgmma.")]
    for texts in (warpgroups, [text for text in everything if text not in warpgroups]):
        body = parse(around("\n".join(texts))).kernels[0].body
        again = parse(around("\n".join(map(format_instr, body[:-1])))).kernels[0].body
        assert again == body


def test_the_short_way_through_a_row_finds_the_first_of_all_ways():
    rng = random.Random(2)
    found = 0
    for row in ROWS:
        for head in heads(row, rng, 4):
            opcode, *mods = head.split(".")
            for other in rows_of(opcode):
                for said in (mods, mods[1:], [*mods, *mods[:1]]):
                    chosen = in_order(other, said)
                    assert chosen == next(walk(other.items, said, 0), None), (head, other.form.pattern)
                    found += chosen is not None
    assert found > 2000


def test_forms_are_well_described():
    for form in forms():
        assert re.fullmatch(r"[a-z0-9]+(\.[A-Za-z0-9_]+)*", form.name), form
        assert form.pattern.startswith(form.opcode), form
        assert re.match(r"9\.7\.\d+(\.\d+)* \w", form.section), form
        assert re.fullmatch(r"sm_\d+a?", form.target), form
        assert (1, 0) <= form.ptx <= (9, 0), form


@pytest.mark.one_of(4)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.form.name)
def test_rows_name_only_what_they_have(row):
    slots = {choice.slot for choice in choices(row.items)} - {None}
    everywhere = {choice.slot for other in rows_of(row.form.opcode) for choice in choices(other.items)}
    values = {
        choice.slot: set(choice.values) | {"none"}
        for other in rows_of(row.form.opcode)
        for choice in choices(other.items)
    }
    assert "" not in {value for choice in choices(row.items) for value in choice.values}
    for when, then in row.rules:
        for slot, wanted in (*when, *then):
            assert slot in everywhere, f"{row.form.name}: no slot {slot}"
            assert set(wanted) <= values[slot] | {v for c in choices(row.items) if c.slot == slot for v in c.values}, (
                slot,
                wanted,
            )
    known = SPACES | slots | set(WORDS)
    for place in row.places:
        for word in place.words:
            parts = re.split(r"[*|]|(?<!\|)-", word.removeprefix("."))
            assert word in known or all(
                part in everywhere or part in TYPE_BITS or re.fullmatch(r"-?\d+(<?\.\.\d+)?", part) for part in parts
            ), f"{row.form.name}: {word}"


def test_sets_are_used():
    for path in sorted(Path(FOLDER).glob("*.txt")):
        text = path.read_text(encoding="ascii")
        patterns = " ".join(re.findall(r"(?m)^[a-z][\w.]*: (.*)$", text.replace("\\\n", "")))
        for name, line in re.findall(r"(?m)^ *\.(\w+) = (.*)$", text):
            used = re.search(rf"\.{name}\b", patterns) or re.search(rf"= \.{name}\b", text)
            assert used, f"{path.name}: .{name} = {line} is not used"
