"""Every bit pattern of the formats of at most 8 bits, by the definition of the format (OCP formats)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from convc.machine.base.narrow_formats import table
from convc.machine.isa.float import rounding
from convc.machine.tensor_core.formats import widen

FIELDS = {"e4m3": (4, 3), "e5m2": (5, 2), "e2m3": (2, 3), "e3m2": (3, 2), "e2m1": (2, 1)}
"""Exponent and mantissa bits."""


def defined(name: str, code: int) -> float:
    """Sign, exponent and mantissa of a code, put together."""
    exponent_bits, mantissa_bits = FIELDS[name]
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1)
    mantissa = code & ((1 << mantissa_bits) - 1)
    top = exponent == (1 << exponent_bits) - 1
    if name == "e4m3" and top and mantissa == 7:
        return math.nan
    if name == "e5m2" and top:
        return math.nan if mantissa else sign * math.inf
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (mantissa + (1 << mantissa_bits)) * 2.0 ** (exponent - bias - mantissa_bits)


def same(got: float, want: float) -> bool:
    """Equal with the sign of a zero, or both NaN."""
    return (math.isnan(got) and math.isnan(want)) or (got == want and math.copysign(1, got) == math.copysign(1, want))


@pytest.mark.parametrize("name", FIELDS)
def test_every_code_is_what_its_fields_say(name):
    values = table(name)
    assert values.dtype == np.float32
    assert values.size == 1 << (1 + sum(FIELDS[name]))
    for code, value in enumerate(values.tolist()):
        assert same(value, defined(name, code)), (name, code)
        decoded = rounding.decode(np.array([code], np.uint8), name)
        assert same(float(decoded[0]), defined(name, code)), (name, code)


@pytest.mark.parametrize("name", FIELDS)
def test_codes_come_back(name):
    """Encoding a value gives its code; of NaN, the one that results have."""
    for code, value in enumerate(table(name).tolist()):
        want = rounding.FORMATS[name].nan if math.isnan(value) else code
        assert rounding.encode(np.array([value]), name)[0] == want, (name, code)


def test_scale_factors_and_integers():
    codes = np.arange(256)
    powers = table("ue8m0")
    assert powers[:255].tolist() == [2.0 ** (int(code) - 127) for code in codes[:255]]
    assert np.isnan(powers[255])
    magnitudes = [abs(defined("e4m3", code & 0x7F)) for code in range(256)]
    assert all(same(got, want) for got, want in zip(table("ue4m3").tolist(), magnitudes, strict=True))
    assert table("u8").tolist() == codes.tolist()
    assert table("s8").tolist() == np.where(codes < 128, codes, codes - 256).tolist()


@pytest.mark.parametrize(
    ("name", "packed_as"),
    [*itertools.product(("e2m1", "e2m3", "e3m2"), ("padded", "spread")), ("e2m1", "packed")],
)
def test_units_of_a_row_are_widened_one_by_one(name, packed_as):
    """Rows of three units of 16 bytes."""
    rows = np.random.default_rng(1).integers(0, 64, (2, 4, 48), np.uint8)
    whole = widen(rows, name, packed_as)
    units = [widen(np.ascontiguousarray(rows[..., at : at + 16]), name, packed_as) for at in (0, 16, 32)]
    np.testing.assert_array_equal(whole, np.concatenate(units, axis=2))
    assert whole.shape == (2, 4, 96 if packed_as == "packed" else 48)
