"""mma.sync against A B + C in exact arithmetic, with the fragments that the manual's formulas give."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from sum_oracle import expected
from support.recorded import assemble_all, recorded
from warp_kernels import STORED, Mma, data, multiply

from convc.errors import MachineFault
from convc.machine.isa.warp import mma_sums


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(texts)


FLOAT_HEADS = [
    *[f"m16n8k{k}.row.col.{d}.f16.f16.{d}" for k in (8, 16) for d in ("f32", "f16")],
    *[f"m16n8k{k}.row.col.f32.bf16.bf16.f32" for k in (8, 16)],
    *[f"m16n8k{k}.row.col.f32.tf32.tf32.f32" for k in (4, 8)],
    *[f"m16n8k{k}.row.col.{d}.{a}.{b}.{d}" for k in (16, 32) for d in ("f32", "f16")
      for a, b in (("e4m3", "e5m2"), ("e5m2", "e4m3"))],
    "m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32",
    *[f"m8n8k4.{a}.{b}.{d}.f16.f16.{c}" for a in ("row", "col") for b in ("row", "col")
      for d, c in (("f32", "f32"), ("f32", "f16"), ("f16", "f16"))],
]  # fmt: skip
DOUBLE_HEADS = [*[f"m16n8k{k}.row.col.f64.f64.f64.f64" for k in (4, 8, 16)], "m8n8k4.row.col.rz.f64.f64.f64.f64"]
INTEGER_HEADS = [
    *[f"{shape}.row.col{sat}.s32.{a}.{b}.s32" for shape in ("m8n8k16", "m16n8k16", "m16n8k32")
      for a, b, sat in (("s8", "u8", ""), ("u8", "s8", ".satfinite"))],
    *[f"{shape}.row.col{sat}.s32.{a}.{b}.s32" for shape in ("m8n8k32", "m16n8k32", "m16n8k64")
      for a, b, sat in (("s4", "u4", ".satfinite"), ("u4", "s4", ""))],
]  # fmt: skip


@pytest.mark.parametrize("numerics", ["float32", "exact"])
@pytest.mark.parametrize("head", FLOAT_HEADS + DOUBLE_HEADS + INTEGER_HEADS)
def test_products_of_small_numbers(head, numerics):
    mma = Mma(head)
    a, b, c = data(mma)
    got, result = multiply(mma, a, b, c, numerics=numerics)
    assert np.array_equal(got.astype(np.float64), a @ b + c)
    assert result.findings == ()
    m, n, k = mma.shape
    multiply_adds = m * n * k * (4 if mma.quads else 1)
    assert (result.counters.warp_mma, result.counters.warp_multiply_adds) == (1, multiply_adds)


@pytest.mark.parametrize("exact", [False, True])
def test_matrices_that_ctas_or_warps_share_are_taken_for_each(exact):
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((3, 1, 1, 16, 16), (1, 2, 1, 8, 16)))
    found = mma_sums.float_sum("f16", "f16", "f32", exact)(a, b, np.zeros((1, 1, 1, 16, 8), np.uint32))
    assert np.array_equal(found.view(np.float32), a @ b.swapaxes(-1, -2))


@pytest.mark.parametrize("shape", ["m8n8k128", "m16n8k128", "m16n8k256"])
@pytest.mark.parametrize("operation", ["and", "xor"])
def test_bits_are_counted(shape, operation):
    mma = Mma(f"{shape}.row.col.s32.b1.b1.s32.{operation}.popc")
    a, b, c = data(mma)
    x, y = a.astype(bool)[0, :, :, None], b.astype(bool)[0, None]
    set_bits = (x & y if operation == "and" else x ^ y).sum(1)
    assert np.array_equal(multiply(mma, a, b, c)[0][0], set_bits + c[0])


@pytest.mark.parametrize("saturate", [False, True])
def test_integer_sums_wrap_or_saturate(saturate):
    mma = Mma(f"m16n8k32.row.col{'.satfinite' if saturate else ''}.s32.u8.s8.s32")
    a, b, c = data(mma)
    c[0, :8], c[0, 8:] = 2**31 - 100, -(2**31) + 100
    exact = (a @ b + c).astype(np.int64)
    limits = np.iinfo(np.int32)
    assert (exact > limits.max).any()
    assert (exact < limits.min).any()
    want = np.clip(exact, limits.min, limits.max) if saturate else exact.astype(np.int32)
    assert np.array_equal(multiply(mma, a, b, c)[0], want)


def test_a_parted_warp_is_a_fault():
    mma = Mma("m16n8k16.row.col.f32.f16.f16.f32")
    with pytest.raises(MachineFault, match=r"mma\.sync must be executed by all 32 lanes of a warp"):
        multiply(mma, *data(mma), guard="@%g ")


def test_a_warp_that_is_left_out_keeps_its_registers():
    mma = Mma("m16n8k8.row.col.f32.f16.f16.f32")
    got, result = multiply(mma, *data(mma), guard="setp.gt.u32 %g, %id, 32; @%g ")
    assert not got.any()
    assert result.counters.warp_mma == 0


def spread(mma: Mma, name: str, low: float, high: float, seed: int) -> np.ndarray:
    """Numbers of very different sizes as their type has them, some zero."""
    rng = np.random.default_rng([seed, ord(name)])
    shape, kind = mma.matrix(name), mma.types[name]
    values = rng.standard_normal(shape) * 2.0 ** rng.uniform(low, high, shape)
    values[rng.random(shape) < 0.1] = 0
    raw = values.astype(STORED[kind])
    if kind == "tf32":
        raw = (raw.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return raw.astype(np.float64)


@pytest.mark.parametrize(
    ("head", "low", "high"),
    [
        ("m16n8k16.row.col.f32.f16.f16.f32", -20, 5), ("m16n8k8.row.col.f16.f16.f16.f16", -8, 2),
        ("m16n8k16.row.col.f32.bf16.bf16.f32", -60, 20), ("m16n8k8.row.col.f32.tf32.tf32.f32", -25, 6),
    ],
)  # fmt: skip
def test_exact_sums_are_cut_once(head, low, high):
    mma = Mma(head)
    kinds = mma.types
    a, b, c = (spread(mma, name, low, high, 1) for name in "abc")
    want = expected(a[0], b[0].T, c[0], (kinds["a"], kinds["b"]), kinds["d"])
    assert np.array_equal(multiply(mma, a, b, c, numerics="exact")[0][0].astype(np.float64), want)


@pytest.mark.parametrize("kinds", ["f32.e4m3.e5m2.f32", "f16.e4m3.e4m3.f16"])
@pytest.mark.parametrize("depth", [16, 32])
def test_exact_sums_of_eight_bit_floats_have_three_steps(depth, kinds):
    """Elements 0, 1 of every four, then elements 2, 3, as sums of f16 numbers; then C, rounded to nearest."""
    mma = Mma(f"m16n8k{depth}.row.col.{kinds}")
    kind = mma.types["d"]
    a, b = (spread(mma, name, -6, 4, 2) for name in "ab")
    c = spread(mma, "c", -4, 8, 2)
    total = np.zeros((16, 8))
    for part in (0, 2):
        chosen = [k for k in range(depth) if k % 4 in (part, part + 1)]
        total = expected(a[0][:, chosen], b[0][chosen].T, total, ("f16", "f16"), kind)
    want = (c[0] + total).astype(STORED[kind])
    assert np.array_equal(multiply(mma, a, b, c, numerics="exact")[0][0], want)
    whole = expected(a[0], b[0].T, c[0], ("f16", "f16"), kind)
    assert not np.array_equal(want, whole.astype(want.dtype)), "one sum would give the same: the data prove nothing"


def nearest(value: Fraction, kind: str) -> Fraction:
    """A number rounded to nearest even in f32 or f16 (no subnormals here)."""
    if value == 0:
        return value
    unit = Fraction(2) ** (math.frexp(float(value))[1] - (24 if kind == "f32" else 11))
    return round(value / unit) * unit


@pytest.mark.parametrize("types", ["f32.f16.f16.f32", "f32.f16.f16.f16", "f16.f16.f16.f16"])
def test_sums_of_m8n8k4_round_every_step(types):
    mma = Mma(f"m8n8k4.row.col.{types}")
    a, b, c = (spread(mma, name, -6, 3, 3) for name in "abc")
    got = multiply(mma, a, b, c)[0]
    for place in np.ndindex(got.shape):
        q, i, j = place
        x = [Fraction(value) for value in a[q, i].tolist()]
        y = [Fraction(value) for value in b[q, :, j].tolist()]
        start = Fraction(float(c[place]))
        if mma.types["d"] == "f32":
            chain = Fraction(0)
            for k in range(4):
                chain = nearest(chain + x[k] * y[k], "f32")
            want = nearest(start + chain, "f32")
        else:
            for k in (0, 2):
                start = nearest(start + nearest(x[k] * y[k] + x[k + 1] * y[k + 1], "f32"), "f32")
            want = nearest(start, "f16")
        assert float(got[place]) == float(want), place


@pytest.mark.parametrize(("mode", "toward"), [("", None), (".rz", 0.0), (".rm", -math.inf), (".rp", math.inf)])
def test_double_sums_are_fused_in_order(mode, toward):
    mma = Mma(f"m16n8k8.row.col{mode}.f64.f64.f64.f64")
    a, b, c = (spread(mma, name, -30, 30, 4) for name in "abc")
    got = multiply(mma, a, b, c)[0][0]

    def rounded(exact: Fraction) -> float:
        near = float(exact)
        beyond = toward is not None and near != exact and (near > exact) != (toward > exact)
        return math.nextafter(near, toward) if beyond else near

    for i, j in np.ndindex(got.shape):
        total = float(c[0, i, j])
        for k in range(8):
            total = rounded(Fraction(float(a[0, i, k])) * Fraction(float(b[0, k, j])) + Fraction(total))
        assert got[i, j] == total


@pytest.mark.parametrize("numerics", ["float32", "exact"])
def test_special_values(numerics):
    mma = Mma("m16n8k16.row.col.f32.f16.f16.f32")
    a, b, c = data(mma)
    a[0, :4], b[0] = 0, 1
    a[0, 0, 3], a[0, 1, 2], c[0, 2, 0], a[0, 3, 0], c[0, 3, 1] = np.inf, np.nan, np.inf, -np.inf, np.inf
    got = multiply(mma, a, b, c, numerics=numerics)[0][0]
    assert (got[0] == np.inf).all()
    assert (got[1].view(np.uint32) == 0x7FFFFFFF).all()
    assert got[2, 0] == np.inf
    assert got[3, 0] == -np.inf
    assert got[3, 1].view(np.uint32) == 0x7FFFFFFF
