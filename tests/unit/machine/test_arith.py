"""Integer and floating semantics: plain ints, arrays and exact arithmetic must agree."""

from __future__ import annotations

import operator
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convc.machine.base.values import DTYPE, MASK, array, packed, signed
from convc.machine.isa.float import convert, floating, narrow_floats
from convc.machine.isa.scalar import integer

EDGES = [
    0,
    1,
    2,
    31,
    32,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    0x7FFFFFFFFFFFFFFF,
    0x8000000000000000,
    MASK[64],
]
word = st.one_of(st.sampled_from(EDGES), st.integers(0, MASK[64]))
bits_of = st.sampled_from([16, 32, 64])


def same(function, bits, result_bits, *operands):
    """Ints, arrays and a mixture give the same bits."""
    plain = function(*operands)
    arrays = [array(o, bits) for o in operands]
    for mixed in (arrays, [*arrays[:1], *operands[1:]], [*operands[:1], *arrays[1:]]):
        got = function(*mixed)
        assert int(np.asarray(got).reshape(-1)[0]) == plain
        if isinstance(got, np.ndarray) and result_bits > 1:
            assert got.dtype == DTYPE[result_bits]
    return plain


@given(bits_of, word, word, st.sampled_from(["add", "sub", "mul"]))
def test_wrapping(bits, a, b, name):
    a, b = a & MASK[bits], b & MASK[bits]
    op = getattr(operator, name)
    assert same(integer.wrapping(op, bits), bits, bits, a, b) == op(a, b) % (1 << bits)


@given(st.sampled_from([16, 32]), word, word, st.booleans())
def test_wide_and_high_products(bits, a, b, is_signed):
    a, b = a & MASK[bits], b & MASK[bits]
    x, y = (signed(a, bits), signed(b, bits)) if is_signed else (a, b)
    assert same(integer.multiply_wide(bits, is_signed), bits, 2 * bits, a, b) == (x * y) & MASK[2 * bits]
    assert same(integer.multiply_high(bits, is_signed), bits, bits, a, b) == ((x * y) >> bits) & MASK[bits]


@given(word, word, st.booleans())
def test_high_product_of_64_bits(a, b, is_signed):
    x, y = (signed(a, 64), signed(b, 64)) if is_signed else (a, b)
    assert same(integer.multiply_high(64, is_signed), 64, 64, a, b) == ((x * y) >> 64) & MASK[64]


@given(bits_of, word, word, st.booleans())
def test_division_truncates_toward_zero(bits, a, b, is_signed):
    a, b = a & MASK[bits], (b & MASK[bits]) or 3
    x, y = (signed(a, bits), signed(b, bits)) if is_signed else (a, b)
    quotient = int(Fraction(x, y)) if x * y >= 0 else -int(Fraction(-x, y))
    assert same(integer.divide(bits, is_signed, False, "ones"), bits, bits, a, b) == quotient & MASK[bits]
    assert same(integer.divide(bits, is_signed, True, "ones"), bits, bits, a, b) == (x - quotient * y) & MASK[bits]


@given(bits_of, word, st.integers(0, 80))
def test_shifts(bits, a, amount):
    a &= MASK[bits]
    for mixed in (
        (a, amount),
        (array(a, bits), amount),
        (array(a, bits), array(amount, 32)),
        (a, array(amount, 32)),
    ):
        assert int(np.asarray(integer.shift_left(bits)(*mixed)).reshape(-1)[0]) == (a << amount) & MASK[bits]
        assert int(np.asarray(integer.shift_right(bits, False)(*mixed)).reshape(-1)[0]) == (a >> amount)
        assert (
            int(np.asarray(integer.shift_right(bits, True)(*mixed)).reshape(-1)[0])
            == (signed(a, bits) >> amount) & MASK[bits]
        )


@given(bits_of, word, word, st.booleans(), st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]))
def test_comparisons_and_extremes(bits, a, b, is_signed, name):
    a, b = a & MASK[bits], b & MASK[bits]
    x, y = (signed(a, bits), signed(b, bits)) if is_signed else (a, b)
    assert bool(same(integer.compare(name, bits, is_signed), bits, 1, a, b)) == getattr(operator, name)(x, y)
    assert same(integer.extreme(bits, is_signed, True), bits, bits, a, b) == max(x, y) & MASK[bits]
    assert same(integer.extreme(bits, is_signed, False), bits, bits, a, b) == min(x, y) & MASK[bits]


@given(st.sampled_from([(16, 32), (32, 64), (64, 32), (32, 16)]), word, st.booleans())
def test_extension(widths, a, is_signed):
    bits, to = widths
    a &= MASK[bits]
    expected = (signed(a, bits) if is_signed else a) & MASK[to]
    assert integer.extend(a, bits, to, is_signed) == expected
    assert int(integer.extend(array(a, bits), bits, to, is_signed)[0, 0, 0]) == expected


def f32(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(finite, finite, finite)
def test_fma_rounds_once(a, b, c):
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    with np.errstate(over="ignore"):  # as the simulator has it for all instructions
        got = np.uint32(floating.arithmetic("fma", "f32")(f32(a), f32(b), f32(c))).view(np.float32)
    if not np.isfinite(got):
        assert abs(exact) > Fraction(float(np.finfo(np.float32).max))
        return
    error = abs(Fraction(float(got)) - exact)
    with np.errstate(over="ignore"):
        neighbours = [np.nextafter(got, np.float32(np.inf)), np.nextafter(got, np.float32(-np.inf))]
    for neighbour in neighbours:
        if np.isfinite(neighbour):
            assert error <= abs(Fraction(float(neighbour)) - exact)


@pytest.mark.parametrize(
    ("a", "b", "c", "want"),
    [
        (1 + 2**-12, 1 + 2**-12, 2**-60, 1 + 2**-11 + 2**-23),
        (1 + 2**-12, 1 + 2**-12, -(2**-60), 1 + 2**-11),
        (1 + 2**-12, 1 + 2**-12, 0, 1 + 2**-11),
        (2**-75 * (1 + 2**-23), 2**-75 * (1 - 2**-23), 2**-127 + 2**-149, 2**-127 + 2**-149),
    ],
)
def test_fma_rounds_once_next_to_half_of_the_last_bit(a, b, c, want):
    """The exact sum has bits behind those of float64; the last case is of numbers below the normal ones."""
    assert floating.arithmetic("fma", "f32")(f32(a), f32(b), f32(c)) == f32(want)


ALL = (3, 2, 32)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("shapes", [(ALL, ALL), (ALL, (1, 2, 1)), ((1, 1, 32), None), (None, ALL), (None, None)])
def test_a_pair_is_computed_as_its_elements_are(shapes, alike):
    """None: a number; ``alike``: both of its elements are the same."""
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal((*(shape or (1, 1, 1)), 2), np.float32) for shape in shapes)
    if alike:
        b[..., 1] = b[..., 0]
    held = [
        int(pair.view(np.uint64).item()) if shape is None else pair.view(np.uint64)[..., 0]
        for pair, shape in zip((a, b), shapes, strict=True)
    ]
    got = packed(floating.arithmetic("sub", "f32"), 32)(*held)
    assert isinstance(got, np.ndarray) == (shapes != (None, None))
    assert np.array_equal(np.asarray(got, np.uint64).reshape(*(a - b).shape[:3]), (a - b).view(np.uint64)[..., 0])


@given(st.lists(st.integers(0, 0xFFFFFFFF), min_size=1, max_size=16))
def test_packed_conversion_is_ieee(words):
    raw = np.array(words, np.uint32).reshape(1, 1, -1)
    value = raw.view(np.float32)
    nan = np.isnan(value)
    with np.errstate(all="ignore"):
        half, brain = (
            value.astype(np.float16).view(np.uint16),
            value.astype(ml_dtypes.bfloat16).view(np.uint16),
        )
    for kind, expected in (("f16x2", half), ("bf16x2", brain)):
        pair = narrow_floats.pack_halves(raw, f32(1.0), kind, False)
        one = 0x3C00 if kind == "f16x2" else 0x3F80
        assert (pair & 0xFFFF == one).all()
        assert (pair >> 16 == np.where(nan, 0x7FFF, expected)).all()


@given(st.integers(0, 0xFFFF))
def test_every_half_widens_exactly(bits):
    from convc.machine.tensor_core.formats import widen_bf16, widen_f16

    raw = np.full(4, bits, np.uint16)
    assert np.array_equal(widen_f16(raw), raw.view(np.float16).astype(np.float32), equal_nan=True)
    assert np.array_equal(widen_bf16(raw), raw.view(ml_dtypes.bfloat16).astype(np.float32), equal_nan=True)


@pytest.mark.parametrize(
    ("value", "rounding", "target", "expected"),
    [
        (2.5, "rni", "s32", 2),
        (-2.5, "rzi", "s32", -2),
        (-2.5, "rmi", "s32", -3),
        (2.1, "rpi", "u32", 3),
        (-1.0, "rzi", "u32", 0),
        (1e20, "rzi", "s32", 2**31 - 1),
    ],
)
def test_float_to_integer(value, rounding, target, expected):
    got = convert.float_to_integer("f32", target, convert.INTEGER_MODES[rounding])(f32(value))
    assert (signed(got, 32) if target[0] == "s" else got) == expected


def test_nan_is_canonical_and_comparisons_are_ordered():
    nan, one = 0x7FC00000, f32(1.0)
    assert floating.arithmetic("add", "f32")(nan, one) == 0x7FFFFFFF
    assert floating.compare("lt", "f32")(nan, one) is False
    assert floating.compare("ltu", "f32")(nan, one) is True
    assert floating.extreme(True, "f32")(nan, one) == one
    assert floating.extreme(True, "f32", {"NaN"})(nan, one) == 0x7FFFFFFF
    assert floating.extreme(True, "f32")(nan, nan) == 0x7FFFFFFF
    assert floating.extreme(False, "f32")(one, 0x7F800001) == one  # a signaling NaN


@pytest.mark.parametrize(("largest", "want"), [(True, 0), (False, 0x80000000)])
def test_minus_zero_is_below_zero(largest, want):
    for operands in ((0, 0x80000000), (0x80000000, 0)):
        assert floating.extreme(largest, "f32")(*operands) == want


@pytest.mark.parametrize("size", [narrow_floats.FEW, narrow_floats.BLOCK + narrow_floats.FEW + 1])
@pytest.mark.parametrize("largest", [1.0, 65503.9, 65504.0, np.inf])
def test_many_numbers_are_rounded_to_f16_as_numpy_rounds_each(size, largest):
    """Halfway between two, next to that, subnormal, zero; and a number that decides who rounds its block."""
    rng = np.random.default_rng(9)
    bits = rng.integers(0x32000000, 0x477FE000, size, np.uint32)  # 2^-27 to 65504
    bits[::3] = bits[::3] & 0xFFFFE000 | 0x1000
    bits[1::9] += rng.choice([0x1FFF, 1], bits[1::9].size).astype(np.uint32)
    bits[::11] = 0
    bits |= rng.integers(0, 2, size, np.uint32) << 31
    numbers = bits.view(np.float32)
    numbers[np.abs(numbers) > largest] = 1.0
    numbers[size // 2] = largest
    with np.errstate(over="ignore"):
        assert np.array_equal(narrow_floats.round_f16(numbers), numbers.astype(np.float16).view(np.uint16))


def test_a_predicate_is_negated_where_all_lanes_have_it_and_where_each_has_its_own():
    negated = integer.invert(1)
    assert [bool(negated(value)) for value in (False, True)] == [True, False]
    assert negated(np.array([True, False, True])).tolist() == [False, True, False]
