"""The exact sum of the tensor core, against the same rule in rational numbers, through whole kernels."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import tensor_kernels
from sum_oracle import SMALLEST, expected, exponent, joined, rounded
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

N = 8
RNG = np.random.default_rng(67)


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    monkeypatch.setattr(tensor_kernels, "OPTIONS", RunOptions(switches=Switches(numerics="exact")))


def plain(rows: int, start: int = 0) -> int:
    return encode_shared(SharedDescriptor(start=BASE + start, lbo=16 * rows, sbo=128, swizzle="none"))


DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


def operand(kind: str, rows: int, depth: int, spread: float) -> np.ndarray:
    """Numbers of very different sizes, some zero, some subnormal."""
    values = RNG.standard_normal((rows, depth)) * 2.0 ** RNG.uniform(-spread, spread / 4, (rows, depth))
    values[RNG.random((rows, depth)) < 0.1] = 0
    raw = values.astype(DTYPES[kind])
    if kind == "tf32":
        raw = (raw.view(np.uint32) & 0xFFFFE000).view(np.float32)
    return raw


CASES = [
    ("f16", "f16", "f16", "f32", 20), ("f16", "f16", "f16", "f16", 8), ("f16", "bf16", "bf16", "f32", 30),
    ("f16", "bf16", "bf16", "f32", 140), ("tf32", "tf32", "tf32", "f32", 25), ("f8f6f4", "e4m3", "e5m2", "f32", 12),
    ("f8f6f4", "e5m2", "e4m3", "f16", 8),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "a_type", "b_type", "d_type", "spread"), CASES)
def test_one_instruction_is_one_truncated_sum(kind, a_type, b_type, d_type, spread):
    depth = {"f16": 16, "tf32": 8, "f8f6f4": 32}[kind]
    a, b = operand(a_type, 128, depth, spread), operand(b_type, N, depth, spread)
    c = (RNG.standard_normal((128, N)) * 2.0 ** RNG.uniform(-spread, 2, (128, N))).astype(
        np.float32 if d_type == "f32" else np.float16
    )
    c[:5] = 0
    image = np.concatenate([k_major(b.view(np.uint8)), k_major(a.view(np.uint8))])
    word = encode_instruction(
        InstructionDescriptor(kind=kind, d_type=d_type, a_type=a_type, b_type=b_type, m=128, n=N, negate_b=True)
    )
    cells = c.view(np.uint32 if d_type == "f32" else np.uint16).astype(np.uint32)
    text = mma_text(str(plain(128, b.nbytes)), plain(N), word, kind=kind, add=True)
    got, result = run_tensor(text, image=image, cells=cells, shown=N)
    want = expected(a.astype(np.float64), -b.astype(np.float64), c, (a_type, b_type), d_type)
    assert result.findings == ()
    out = got.view(np.float32) if d_type == "f32" else got.astype(np.uint16).view(np.float16)
    assert np.array_equal(out.astype(np.float64), want)


def test_the_sum_is_neither_rounded_nor_exact():
    """1 + 32 terms of 2^-26 and less: each is cut to nothing. An f32 sum of the exact products would be larger."""
    a, b = np.ones((128, 16), np.float16), np.full((N, 16), 2.0**-14, np.float16)
    a[:, 1:] = 2.0**-12
    b[:, 0] = 1
    image = np.concatenate([k_major(b.view(np.uint8)), k_major(a.view(np.uint8))])
    word = encode_instruction(InstructionDescriptor(kind="f16", d_type="f32", a_type="f16", b_type="f16", m=128, n=N))
    text = mma_text(str(plain(128, b.nbytes)), plain(N), word)
    got, _ = run_tensor(text, image=image, shown=N)
    assert (got.view(np.float32) == 1).all()


def test_many_instructions_are_many_sums():
    """Each of two instructions adds 2^-24: one cut per instruction leaves nothing, a joint sum would show it."""
    a, b = np.full((128, 32), 2.0**-12, np.float16), np.zeros((N, 32), np.float16)
    b[:, 0] = b[:, 16] = 2.0**-12
    image = np.concatenate([k_major(b.view(np.uint8)), k_major(a.view(np.uint8))])
    word = encode_instruction(InstructionDescriptor(kind="f16", d_type="f32", a_type="f16", b_type="f16", m=128, n=N))
    text = "".join(mma_text(str(plain(128, b.nbytes + 4096 * i)), plain(N, 256 * i), word, add=True) for i in range(2))
    ones = np.full((128, N), np.float32(1).view(np.uint32), np.uint32)
    got, _ = run_tensor(text, image=image, cells=ones, shown=N)
    assert (got.view(np.float32) == 1).all()


def test_a_zero_counts_with_the_smallest_normal_exponent():
    """Three products of 1.5 * 2^-151: each is cut to 2^-151 under a zero addend, so that no 2^-149 comes together."""
    a, b = np.zeros((128, 16), ml_dtypes.bfloat16), np.zeros((N, 16), ml_dtypes.bfloat16)
    a[:, :3], b[:, :3] = 1.5 * 2.0**-75, 2.0**-76
    a[64:, 3], b[:, 3] = 2.0**-76, 2.0**-75
    image = np.concatenate([k_major(b.view(np.uint8)), k_major(a.view(np.uint8))])
    word = encode_instruction(InstructionDescriptor(kind="f16", d_type="f32", a_type="bf16", b_type="bf16", m=128, n=N))
    got, _ = run_tensor(mma_text(str(plain(128, b.nbytes)), plain(N), word), image=image, shown=N)
    assert (got[:64] == 0).all()
    assert (got[64:] == 1).all()


def test_special_values():
    a, b = np.zeros((128, 16), np.float16), np.ones((N, 16), np.float16)
    a[0, 0], a[1, :2], a[2, 0], a[3, 0] = np.inf, (np.inf, -np.inf), np.nan, -np.inf
    a[4, 0], b[7, 0] = np.inf, 0
    image = np.concatenate([k_major(b.view(np.uint8)), k_major(a.view(np.uint8))])
    cells = np.zeros((128, N), np.uint32)
    cells[5], cells[6] = 0x7F800000, 0xFFC12345
    word = encode_instruction(InstructionDescriptor(kind="f16", d_type="f32", a_type="f16", b_type="f16", m=128, n=N))
    got, _ = run_tensor(
        mma_text(str(plain(128, b.nbytes)), plain(N), word, add=True), image=image, cells=cells, shown=N
    )
    assert (got[0, :7] == 0x7F800000).all()
    assert (got[[1, 2, 6]] == 0x7FFFFFFF).all()
    assert (got[3, :7] == 0xFF800000).all()
    assert got[4, 7] == 0x7FFFFFFF  # infinity times zero
    assert (got[5] == 0x7F800000).all()
    assert (got[7:] == 0).all()


def test_rounding_of_a_result():
    values = np.array([2.0**128, np.nextafter(2.0**128, 0), -1 - 2.0**-24, 2.0**-149 * 1.5, -(2.0**-150), np.nan])
    assert numerics.to_bits(values, "f32").tolist() == [0x7F800000, 0x7F7FFFFF, 0xBF800000, 1, 0, 0x7FFFFFFF]
    values = np.array([65519.0, 65520.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11, -(2.0**-26), np.nan])
    assert numerics.to_bits(values, "f16").tolist() == [0x7BFF, 0x7C00, 0x3C00, 0x3C02, 0, 0x7FFF]


def scale_cells(sa: np.ndarray, sb: np.ndarray) -> np.ndarray:
    cells = np.zeros((128, 16), np.uint32)
    data = cells.view(np.uint8).reshape(128, 16, 4)
    for column, table in ((0, sa), (8, sb)):
        for row, line in enumerate(table):
            for part in range(4):
                data[32 * part + row % 32, column + row // 32, : len(line)] = line
    return cells


def scaled_text(kind: str, size: str, word: int, start: int) -> str:
    return "add.u32 %x6, %c, 0; add.u32 %x7, %c, 8;\n" + mma_text(
        str(plain(128, start)),
        plain(N),
        word,
        d=16,
        kind=kind,
        mods=f".block_scale{size}",
        scales=", [%x6], [%x7]",
        add=True,
    )


def test_mxf8f6f4_adds_the_exponents_of_its_factors():
    a, b = operand("e4m3", 128, 32, 8), operand("e4m3", N, 32, 8)
    sa, sb = (RNG.integers(100, 150, (rows, 1)).astype(np.uint8) for rows in (128, N))
    c = (RNG.standard_normal((128, N)) * 2.0 ** RNG.uniform(-30, 20, (128, N))).astype(np.float32)
    image = np.concatenate([k_major(b.view(np.uint8)), k_major(a.view(np.uint8))])
    word = encode_block_scaled(
        BlockScaledDescriptor(kind="mxf8f6f4", a_type="e4m3", b_type="e4m3", scale_type="ue8m0", m=128, n=N)
    )
    cells = np.concatenate([scale_cells(sa, sb), c.view(np.uint32)], axis=1)
    got, result = run_tensor(scaled_text("mxf8f6f4", "", word, b.nbytes), image=image, cells=cells, shown=16 + N)
    factors = [2.0 ** (s[:, 0].astype(np.float64) - 127) for s in (sa, sb)]
    want = expected(a.astype(np.float64), b.astype(np.float64), c, ("e4m3", "e4m3"), "f32", factors)
    assert result.findings == ()
    assert np.array_equal(np.ascontiguousarray(got[:, 16:]).view(np.float32).astype(np.float64), want)


E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6]


@pytest.mark.parametrize(("setting", "word"), [("value", 0x3DFFFFFE), ("format", 0x3E000000)])
@pytest.mark.parametrize("kind", ["f8f6f4", "mxf8f6f4"])
def test_a_subnormal_of_e2m1_is_aligned_by_its_value_or_by_its_format(kind, setting, word, read_as, monkeypatch):
    """0.5 * 0.5 - 0.125 * (1 + 2^-23): the last bit of the addend is cut off or not. Other rows are random."""
    read_as(e2m1_exponent=setting)
    monkeypatch.setitem(SMALLEST, "e2m1", -1 if setting == "value" else 0)
    a, b = (RNG.choice([0, 1, 2, 9], (rows, 32), p=[0.9, 0.05, 0.02, 0.03]) for rows in (128, N))
    a[0], b[0] = np.arange(32) == 5, np.arange(32) == 5
    c = (-0.125 * (1 + RNG.integers(1, 1 << 20, (128, N)) * 2.0**-23)).astype(np.float32)
    c[0, 0] = np.uint32(0xBE000001).view(np.float32)
    padded = [np.zeros((len(x), 2, 16), np.uint8) for x in (b, a)]
    for data, x in zip(padded, (b, a), strict=True):
        data[..., :8] = (x[:, 0::2] | x[:, 1::2] << 4).reshape(len(x), 2, 8)
    image = np.concatenate([k_major(data.reshape(-1, 32)) for data in padded])
    sa, sb = (np.full((rows, 1), 127, np.uint8) for rows in (128, N))
    cells = np.concatenate([scale_cells(sa, sb), c.view(np.uint32)], axis=1)
    common = {"kind": kind, "a_type": "e2m1", "b_type": "e2m1", "m": 128, "n": N}
    if kind == "f8f6f4":
        text = mma_text(
            str(plain(128, 32 * N)),
            plain(N),
            encode_instruction(InstructionDescriptor(d_type="f32", **common)),
            d=16,
            kind=kind,
            add=True,
        )
    else:
        text = scaled_text(kind, "", encode_block_scaled(BlockScaledDescriptor(scale_type="ue8m0", **common)), 32 * N)
    got, _ = run_tensor(text, image=image, cells=cells, shown=16 + N)
    out = np.ascontiguousarray(got[:, 16:])
    assert out[0, 0] == word
    want = expected(np.array(E2M1)[a], np.array(E2M1)[b], c, ("e2m1", "e2m1"), "f32")
    assert np.array_equal(out.view(np.float32).astype(np.float64), want)


@pytest.mark.parametrize(("scale", "size", "count"), [("ue4m3", ".scale_vec::4X", 4), ("ue8m0", ".scale_vec::2X", 2)])
def test_4_bit_kinds_add_sixteen_products_exactly_and_cut_at_35_bits(scale, size, count):
    a, b = RNG.integers(0, 16, (128, 64)), RNG.integers(0, 16, (N, 64))
    low, high = (0, 127) if scale == "ue4m3" else (90, 160)
    sa, sb = (RNG.integers(low, high, (rows, count)).astype(np.uint8) for rows in (128, N))
    sa[0] = 0
    if scale == "ue4m3":
        sa[1] |= 0x80  # the sign has no effect
        real = [(s & 0x7F).astype(np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64) for s in (sa, sb)]
    else:
        real = [2.0 ** (s.astype(np.float64) - 127) for s in (sa, sb)]
    c = (RNG.standard_normal((128, N)) * 2.0 ** RNG.uniform(-30, 30, (128, N))).astype(np.float32)
    bytes_a, bytes_b = ((x[:, 0::2] | x[:, 1::2] << 4).astype(np.uint8) for x in (a, b))
    image = np.concatenate([k_major(bytes_b), k_major(bytes_a)])
    word = encode_block_scaled(
        BlockScaledDescriptor(kind="mxf4nvf4", a_type="e2m1", b_type="e2m1", scale_type=scale, m=128, n=N)
    )
    cells = np.concatenate([scale_cells(sa, sb), c.view(np.uint32)], axis=1)
    got, _ = run_tensor(scaled_text("mxf4nvf4", size, word, N * 32), image=image, cells=cells, shown=16 + N)
    out = np.ascontiguousarray(got[:, 16:]).view(np.float32)
    for i in range(128):
        for j in range(N):
            terms = [(Fraction(float(c[i, j])), exponent(float(c[i, j]), "f32"))]
            for group in range(4):
                span = range(16 * group, 16 * group + 16)
                exact = sum(Fraction(E2M1[a[i, k]]) * Fraction(E2M1[b[j, k]]) for k in span)
                x, y = (float(s[r, group * count // 4]) for s, r in zip(real, (i, j), strict=True))
                terms.append((exact * Fraction(x) * Fraction(y), exponent(x, scale) + exponent(y, scale)))
            assert float(out[i, j]) == rounded(joined(terms, 35), "f32"), (i, j)
