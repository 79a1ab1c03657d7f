"""wmma: the reader takes what ptxas takes for sm_100a, of every shape, type, layout and number of registers."""

from __future__ import annotations

import itertools
import re

import pytest
from support.ptxas import DECLARATIONS, END, judge

from convc.errors import ConvcError
from convc.ptx import parse

SHAPES = ("m16n16k16", "m8n32k16", "m32n8k16", "m16n16k8", "m8n8k4", "m8n8k32", "m8n8k128")
TYPES = ("f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "s4", "u4", "b1", "s32", "e4m3")
NAMES = {"f32": "f", "f64": "fd"}


def vector(kind: str, count: int) -> str:
    name = NAMES.get(kind, "r")
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


def moves() -> list[str]:
    """Loads of A, B and C and stores of D: each kind of matrix with every type, and 1 to 8 registers."""
    found = []
    for (matrix, shape), (kind, count), layout in itertools.product(
        itertools.product("abcd", SHAPES), itertools.product(TYPES, (1, 2, 4, 8)), ("row", "col")
    ):
        values = vector(kind, count)
        if matrix == "d":
            found.append(f"wmma.store.d.sync.aligned.{layout}.{shape}.global.{kind} [%rd1], {values}, %r9;")
        else:
            found.append(f"wmma.load.{matrix}.sync.aligned.{layout}.{shape}.{kind} {values}, [%rd1];")
    return found


def counts(shape: str, kind: str) -> list[tuple[int, int]]:
    """Registers of A and B that a shape might have."""
    if kind in ("f16", "tf32"):
        return [(8, 8), (4, 4)]
    few = {"m16n16k16": (4, 4), "m8n32k16": (2, 8), "m32n8k16": (8, 2)}.get(shape, (2, 2))
    return [few, (few[0] // 2, few[1] // 2), (1, 1)]


def products() -> list[str]:
    """Products of one type, and of two that differ in sign; with and without modifiers."""
    found = []
    pairs = [(kind, kind) for kind in TYPES] + [("s8", "u8"), ("u4", "s4")]
    for shape, (a, b), layouts in itertools.product(SHAPES, pairs, ("row.col", "col.row", "col.col")):
        sums = {"f64": ["f64"], "f16": ["f16", "f32"]}.get(a, ["f32"] if "f" in a else ["s32"])
        for d, c, ends in itertools.product(sums, sums, ("", ".satfinite", ".rz")):
            types = f"{d}.{c}" if a == "f16" else f"{d}.{a}.{b}.{c}"
            total = {"f16": 4, "f64": 2}.get(c, 2 if shape in ("m8n8k32", "m8n8k128") else 8)
            other = {"f16": 4}.get(d, total if c != "f16" else 8)
            head = f"wmma.mma{'.xor.popc' if a == 'b1' else ''}.sync.aligned.{layouts}.{shape}"
            head += f"{ends}.{types}" if ends == ".rz" else f".{types}{ends}"
            for first, second in counts(shape, a):
                operands = (vector(d, other), vector(a, first), vector(b, second), vector(c, total))
                found.append(f"{head} {', '.join(operands)};")
    return found


def reads(statement: str) -> bool:
    """Whether our reader takes it."""
    try:
        parse(f"{DECLARATIONS}{statement}\n{END}")
    except ConvcError:
        return False
    return True


PASSED_BY = re.compile(r"wmma\.(load\.c|store\.d)\.\S*\.m8n8k(32|128)\.\S*f32 ")
"""Forms that ptxas takes and the manual does not have: sums of products of few bits are s32 (PTX, wmma.load)."""


@pytest.mark.parametrize("every", [47, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("make", "least"), [(moves, 100), (products, 50)])
def test_the_reader_takes_what_ptxas_takes(make, least, every, tmp_path):
    statements = sorted(set(make()))[::every]
    ours = [statement for statement in statements if reads(statement)]
    others = [each for each in statements if each not in set(ours) and not PASSED_BY.match(each)]
    assert len(ours) >= least // every
    refused = [pair for pair in zip(ours, judge(ours, tmp_path), strict=True) if pair[1] is not None]
    assert not refused, "we read it, ptxas does not"
    # ptxas loses its way in the text after many errors.
    for start in range(0, len(others), 4):
        chunk = others[start : start + 4]
        taken = [statement for statement, said in zip(chunk, judge(chunk, tmp_path), strict=True) if said is None]
        assert not taken, "ptxas takes it, we do not read it"


SHAPE = re.compile(r"m\d+n\d+k\d+")


def test_heads_of_the_table_are_all_tried():
    tried = {(*SHAPE.findall(each), each.split(".")[1]) for each in [*moves(), *products()]}
    assert len(tried) == 3 * len(SHAPES)
