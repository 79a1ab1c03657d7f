"""Swizzle functions: the XOR tables of the PTX manual, as written there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convc.machine.base.swizzle import chunk_xor, pitch, swizzle

FORMULAS = {
    "none": lambda p: p,
    "32B": lambda p: p ^ (((p >> 7) & 1) << 4),
    "64B": lambda p: p ^ (((p >> 7) & 3) << 4),
    "128B": lambda p: p ^ (((p >> 7) & 7) << 4),
    "128B_atom32": lambda p: p ^ (((p >> 7) & 3) << 5),
    "128B_atom32_flip8": lambda p: p ^ (((p >> 7) & 3) << 5) ^ (8 if p >> 7 & 1 else 0),
    "128B_atom64": lambda p: p ^ (((p >> 7) & 1) << 6),
}


@pytest.mark.parametrize("mode", FORMULAS)
def test_swizzle_is_the_manuals_formula(mode):
    addresses = np.arange(4096)
    expected = [FORMULAS[mode](p) for p in range(4096)]
    assert swizzle(mode, addresses).tolist() == expected
    assert swizzle(mode, 1234) == expected[1234]


@given(st.sampled_from(sorted(FORMULAS)), st.integers(0, 2**18 - 1))
def test_swizzle_is_its_own_inverse_and_stays_in_its_line(mode, address):
    moved = swizzle(mode, address)
    assert swizzle(mode, moved) == address
    assert moved >> 7 == address >> 7


@pytest.mark.parametrize(("mode", "expected"), [("none", 16), ("32B", 32), ("64B", 64), ("128B", 128)])
def test_a_row_and_its_neighbours_cover_different_chunks(mode, expected):
    assert pitch(mode) == expected
    rows = swizzle(mode, np.arange(8) * max(pitch(mode), 16))
    assert len(set((rows >> 4 & 7).tolist())) == 8


def test_base_offset_moves_the_start_of_the_pattern():
    assert chunk_xor("128B", 9, base=1) == 0
    assert chunk_xor("128B", 9, base=0) == 1
    assert swizzle("128B", 9 * 128, base=2) == 9 * 128 + 7 * 16
