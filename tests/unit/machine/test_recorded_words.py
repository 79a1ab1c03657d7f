"""Sums that a B200 gave, as others published them: the exact arithmetic of the simulator gives the same words.

Each case of `words_b200.json` is one element of D. Cases of one instruction share a kernel: case i is row i of A, row i
of B, and element (i, i) of D.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensor_kernels
from tensor_kernels import BASE, k_major, mma_text, run_tensor

from convc.machine import RunOptions
from convc.machine.base.switches import Switches
from convc.machine.tensor_core import numerics
from convc.ptx.descriptors import (
    BlockScaledDescriptor,
    InstructionDescriptor,
    SharedDescriptor,
    encode_block_scaled,
    encode_instruction,
    encode_shared,
)

FILE = Path(__file__).parents[2] / "recordings/words_b200.json"
RECORD = json.loads(FILE.read_text(encoding="utf-8"))
Case = dict[str, Any]

BITS = {"tf32": 32, "bf16": 16, "f16": 16, "e2m3": 6, "e3m2": 6, "e2m1": 4}
"""Bits of an element; others have 8."""

N = 8
SFA, SFB, D = 0, 8, 16
"""Columns of tensor memory."""


def instruction(case: Case) -> tuple[object, ...]:
    """What cases of one kernel have in common."""
    keys = ("kind", "a_type", "b_type", "d_type", "saturate", "scale_type")
    return (*(case.get(key, "") for key in keys), len(numbers(case.get("scale_a", ""))))


def numbers(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def operand(texts: list[str], element: str, kind: str, rows: int) -> np.ndarray:
    """Bytes of a K-major operand, 32 a row: whole bytes, two of 4 bits in each, or 16 elements to 16 bytes."""
    bits = BITS.get(element, 8)
    unit = 16 if bits < 8 and kind in ("f8f6f4", "mxf8f6f4") else 128 // bits
    out = np.zeros((rows, 32), np.uint8)
    for row, text in enumerate(texts):
        codes = numbers(text)
        for half, first in enumerate(range(0, len(codes), unit)):
            word = sum(code << bits * place for place, code in enumerate(codes[first : first + unit]))
            out[row, 16 * half : 16 * half + 16] = np.frombuffer(word.to_bytes(16, "little"), np.uint8)
    return k_major(out)


def factors(cells: np.ndarray, column: int, texts: list[str]) -> None:
    """Write scale factors, byte by byte from the first on, into a copy for each 32 lanes."""
    data = cells.view(np.uint8).reshape(128, -1, 4)
    for row, text in enumerate(texts):
        codes = numbers(text)
        data[row::32, column, : len(codes)] = codes


def plain(rows: int, start: int) -> int:
    return encode_shared(SharedDescriptor(start=BASE + start, lbo=16 * rows, sbo=128, swizzle="none"))


def computed(cases: list[Case]) -> list[int]:
    """The words that the simulator gives for cases of one instruction."""
    first = cases[0]
    kind, a_type, b_type, d_type = (first[key] for key in ("kind", "a_type", "b_type", "d_type"))
    image = np.concatenate(
        [
            operand([case["b"] for case in cases], b_type, kind, N),
            operand([case["a"] for case in cases], a_type, kind, 128),
        ]
    )
    cells = np.zeros((128, D + N), np.uint32)
    for i, case in enumerate(cases):
        cells[i, D + i] = int(case["c"], 16)
    start = ""
    form: dict[str, str] = {}
    if "scale_type" in first:
        factors(cells, SFA, [case["scale_a"] for case in cases])
        factors(cells, SFB, [case["scale_b"] for case in cases])
        scale = first["scale_type"]
        word = encode_block_scaled(
            BlockScaledDescriptor(kind=kind, a_type=a_type, b_type=b_type, scale_type=scale, m=128, n=N)
        )
        count = len(numbers(first["scale_a"]))
        start = f"add.u32 %x6, %c, {SFA}; add.u32 %x7, %c, {SFB};\n"
        form = {"mods": f".block_scale.scale_vec::{count}X", "scales": ", [%x6], [%x7]"}
    else:
        saturate = first.get("saturate", False)
        word = encode_instruction(
            InstructionDescriptor(kind=kind, d_type=d_type, a_type=a_type, b_type=b_type, m=128, n=N, saturate=saturate)
        )
    text = start + mma_text(str(plain(128, 32 * N)), plain(N, 0), word, d=D, kind=kind, add=True, **form)
    got, result = run_tensor(text, image=image, cells=cells, shown=D + N)
    assert result.findings == ()
    return [int(got[i, D + i]) for i in range(len(cases))]


def different() -> set[str]:
    """Names of the cases for which the simulator gives another word."""
    found = set()
    for _, group in itertools.groupby(sorted(RECORD["words"], key=lambda case: str(instruction(case))), instruction):
        cases = list(group)
        words = computed(cases)
        found |= {case["name"] for case, word in zip(cases, words, strict=True) if word != int(case["d"], 16)}
    return found


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    monkeypatch.setattr(tensor_kernels, "OPTIONS", RunOptions(switches=Switches(numerics="exact")))


def test_a_b200_gave_the_same_words():
    assert RECORD["source"]["commit"] == "8fce64d82eea9d1f4bae1a42b979aae851210810"
    assert len({case["name"] for case in RECORD["words"]}) == len(RECORD["words"]) == 68
    assert different() == set()


def test_no_word_settles_the_exponent_of_a_subnormal_e2m1(read_as):
    read_as(e2m1_exponent="format")
    assert different() == set()


def test_words_that_need_the_exact_sum(monkeypatch):
    """Finite ones: those where the order or the rounding of a plain float32 sum shows."""
    monkeypatch.setattr(tensor_kernels, "OPTIONS", RunOptions())
    finite = {name for name in different() if "NaN" not in name and "infinity" not in name}
    assert finite >= {"e4m3 random 1", "e5m2 random 0", "e5m2 random 1", "nvfp4 random 1", "tf32 random 1"}


def nearest(value: np.ndarray, d_type: str) -> np.ndarray:
    """Round to nearest, not towards zero."""
    kind, bits = (np.float16, np.uint16) if d_type == "f16" else (np.float32, np.uint32)
    with np.errstate(all="ignore"):
        return np.where(np.isnan(value), numerics.NAN_BITS[d_type], (value.astype(kind) + kind(0)).view(bits))


@pytest.mark.parametrize(
    ("rule", "other", "names"),
    [
        ("to_bits", nearest, {"e4m3 random 1", "mxf4, 2 factors", "nvfp4 random 1", "tf32 random 1"}),
        ("NAN_BITS", {"f32": 0x7FC00000, "f16": 0x7FFF}, {"f16 NaN", "nvfp4 NaN factor", "mxf8f6f4 NaN factor"}),
        ("NAN_BITS", {"f32": 0x7FFFFFFF, "f16": 0x7E00}, {"e2m1 x e4m3, f16 sum, NaN addend"}),
        ("GROUP", 2, {"nvfp4 carry between products"}),
    ],
)
def test_the_words_settle_a_rule(rule, other, names, monkeypatch):
    monkeypatch.setattr(numerics, rule, other)
    assert different() >= names


@pytest.mark.parametrize(("bits", "name"), [(24, "tf32 random 1"), (26, "e5m2 random 1")])
def test_the_words_settle_the_bits_of_a_sum(bits, name, monkeypatch):
    monkeypatch.setattr(numerics.fused, "__defaults__", (bits,))
    assert different() == {name}
