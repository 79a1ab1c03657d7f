"""Which tensor maps name a byte of memory twice, against a list of all their bytes."""

from __future__ import annotations

import itertools

import pytest

from convc.ir.tensormap import TensorMap
from convc.machine.tma.store import overlaps

CASES = [
    ("u8", (16,), ()),
    ("u32", (4, 3), (16,)),
    ("u32", (5, 3), (16,)),  # a line of 20 bytes each 16
    ("u32", (4, 3, 2), (16, 48)),
    ("u32", (4, 3, 2), (16, 32)),  # planes of three lines each two lines
    ("u32", (4, 3, 2), (16, 16)),
    ("u16", (8, 1, 3), (0, 16)),  # the extent of 1 counts for nothing
    ("u32", (4, 4, 3), (48, 16)),  # the strides descend
    ("u32", (4, 4, 4), (48, 16)),
    ("u32", (4, 2, 2, 2), (32, 16, 64)),
    ("u32", (4, 2, 2, 3), (64, 16, 32)),
]


@pytest.mark.parametrize(("dtype", "dims", "strides"), CASES)
def test_a_map_overlaps_where_two_positions_share_a_byte(dtype, dims, strides):
    ones = (1,) * len(dims)
    tmap = TensorMap(
        mode="tile", buffer="x", dtype=dtype, dims=dims, strides=strides, element_strides=ones, box=ones
    )  # fmt: skip
    size = tmap.shared_bits // 8
    starts = [
        sum(i * s for i, s in zip(at, (size, *strides), strict=True)) for at in itertools.product(*map(range, dims))
    ]
    named = [start + byte for start in starts for byte in range(size)]
    assert overlaps(tmap) == (len(set(named)) < len(named))
