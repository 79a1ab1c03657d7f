"""Descriptors bit by bit, from the tables of the manual: words that are right, and each with one field that is not."""

from __future__ import annotations

import pytest

from convc.auditor.descriptors import (
    Instruction,
    Matrix,
    end_of,
    faults,
    faults_of_tcgen05,
    faults_of_wgmma,
    matrix_of,
    shape_of,
    unversioned,
)

F16 = Instruction(kind="f16", group=1)
PAIR = Instruction(kind="f16", group=2)
STATIONARY = Instruction(kind="f16", group=1, stationary=True)
SPARSE = Instruction(kind="f16", group=1, sparse=True)
TF32 = Instruction(kind="tf32", group=1)
F8 = Instruction(kind="f8f6f4", group=1)
I8 = Instruction(kind="i8", group=1)
MXF8 = Instruction(kind="mxf8f6f4", group=1, size="scale_vec::1X")
NVF4 = Instruction(kind="mxf4nvf4", group=1, size="scale_vec::4X")


def word(m: int, n: int, *, d: int = 1, a: int = 0, b: int = 0, more: int = 0) -> int:
    """An instruction descriptor: D in bits 4-5, A in 7-9, B in 10-12, N >> 3 in 17-22, M >> 4 in 24-28."""
    return d << 4 | a << 7 | b << 10 | n >> 3 << 17 | m >> 4 << 24 | more


RIGHT = [
    (Instruction(kind="i8", group=1), word(128, 48, d=2)),
    (Instruction(kind="i8", group=2), word(256, 64, d=2)),
    (F16, word(128, 256)),
    (F16, word(64, 8, d=0)),
    (F16, word(128, 48, a=1, b=1)),
    (PAIR, word(256, 256)),
    (PAIR, word(128, 16)),
    (STATIONARY, word(32, 64, more=3 << 30)),
    (SPARSE, word(128, 64, more=4 | 1)),
    (TF32, word(128, 32, a=2, b=2)),
    (F8, word(128, 128, a=0, b=5)),
    (I8, word(128, 24, d=2, a=1, b=0, more=8)),
    (MXF8, word(128, 40, d=0, a=4, b=3, more=1 << 23 | 2 << 29)),
    (NVF4, word(128, 48, d=0, a=1, b=1)),
    (Instruction(kind="f16", group=1, a_in_tensor=True), word(128, 64, more=1 << 16)),
]

WRONG = [
    (F16, word(96, 64), "M is 96"),
    (F16, word(128, 0), "N is 0"),
    (F16, word(256, 64), "M is 256"),
    (PAIR, word(64, 64), "M is 64"),
    (PAIR, word(256, 24), "N is 24"),
    (STATIONARY, word(64, 32), "no shape of .ws"),
    (F16, word(128, 64, more=1 << 30), ".ws alone"),
    (F16, word(128, 64, more=4), "sparse"),
    (SPARSE, word(128, 64), "sparse"),
    (F16, word(128, 64, more=1), "bits 0-1"),
    (F16, word(128, 64, more=8), "saturate"),
    (F16, word(128, 64, more=1 << 6), "bit 6"),
    (F16, word(128, 64, more=1 << 23), "bit 6, 23"),
    (F16, word(128, 64, more=1 << 29), "29 is not 0"),
    (F16, word(128, 64, a=1), "f16 and bf16"),
    (F16, word(128, 64, d=0, a=1, b=1), "operands are bf16"),
    (F16, word(128, 64, d=2), "D has type 2"),
    (F16, word(128, 64, a=2, b=2), "A has type 2"),
    (TF32, word(128, 64, d=0, a=2, b=2), "D has type 0"),
    (F8, word(128, 64, a=2), "A has type 2"),
    (I8, word(128, 40, d=2), "N is 40"),
    (Instruction(kind="i8", group=2), word(256, 48, d=2), "N is 48 with cta_group::2"),
    (I8, word(128, 64, d=1), "D has type 1"),
    (I8, word(128, 64, d=2, more=1 << 13), "negation"),
    (MXF8, word(64, 64, d=0, more=1 << 23), "bits 24-26"),
    (MXF8, word(128, 64, d=0), "bit 23"),
    (MXF8, word(128, 64, d=0, more=1 << 23 | 1 << 31), "bit 31"),
    (NVF4, word(128, 64, d=0, a=0, b=1), "A has type 0"),
    (NVF4, word(128, 64, d=0, a=1, b=1, more=1 << 15), "transposed"),
    (Instruction(kind="f16", group=1, a_in_tensor=True), word(128, 64, more=1 << 15), "transposed"),
]


@pytest.mark.parametrize(("form", "bits"), RIGHT)
def test_a_right_descriptor_has_no_fault(form, bits):
    assert faults(bits, form) == []


@pytest.mark.parametrize(("form", "bits", "said"), WRONG)
def test_a_wrong_field_is_named(form, bits, said):
    assert any(said in fault for fault in faults(bits, form)), faults(bits, form)
    assert all(fault.startswith(f"descriptor 0x{bits:08x} of kind::{form.kind}: ") for fault in faults(bits, form))


def test_the_shape_is_read():
    shape = shape_of(word(128, 48, more=1 << 16), F16)
    assert (shape.m, shape.n, shape.a_transposed, shape.b_transposed) == (128, 48, False, True)


SWIZZLED = 2 << 61 | 1 << 46 | (1024 >> 4) << 32 | 1 << 16 | 0x2000 >> 4
"""128 bytes, 1024 from 8 rows to the next 8, at byte 8192."""


def test_a_matrix_descriptor_is_read():
    assert faults_of_tcgen05(SWIZZLED) == []
    assert matrix_of(SWIZZLED, warpgroup=False) == Matrix(start=8192, leading=16, stride=1024, swizzle="128B")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (1 << 47, "bits 46-48"), (3 << 46, "bits 46-48"), (1 << 48, "bits 46-48"), (1 << 52, "bit 52"),
        (1 << 53, "bits 53-60"), (1 << 60, "bits 53-60"), (1 << 14, "bits 14-15"), (1 << 31, "30-31"),
        (1 << 61, "no swizzle"),
    ],
)  # fmt: skip
def test_a_wrong_bit_of_a_matrix_is_named(change, said):
    assert any(said in fault for fault in faults_of_tcgen05(SWIZZLED ^ change))


def test_a_descriptor_without_its_version_is_told_apart():
    assert unversioned(SWIZZLED ^ 1 << 46)
    assert faults_of_tcgen05(SWIZZLED ^ 1 << 46) == []
    assert not any(unversioned(SWIZZLED ^ change) for change in (0, 1 << 47, 3 << 46, 1 << 48))


def test_a_matrix_of_wgmma():
    bits = 1 << 62 | (1024 >> 4) << 32 | 1 << 16 | 0x2000 >> 4
    assert faults_of_wgmma(bits) == []
    assert matrix_of(bits, warpgroup=True).swizzle == "128B"
    assert faults_of_wgmma(bits | 1 << 46)


@pytest.mark.parametrize(
    ("swizzle", "stride", "leading", "rows", "end"),
    [
        ("128B", 1024, 16, 128, 15 * 1024 + 7 * 128 + 16),
        ("64B", 512, 16, 8, 7 * 64 + 16),
        ("none", 128, 2048, 16, 128 + 7 * 16 + 2048 + 16),
        ("none", 128, 2048, 1, 2048 + 16),
    ],
)
def test_the_end_that_is_sure(swizzle, stride, leading, rows, end):
    assert end_of(Matrix(start=4096, leading=leading, stride=stride, swizzle=swizzle), rows, 32) == 4096 + end
