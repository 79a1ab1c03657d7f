"""The bytes that observers are told a tensor copy reaches are those that it really reads or writes."""

from __future__ import annotations

import random

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some
from test_tma import SHARED, make_coords, make_map, make_offsets

from convc.ir.tensormap import TensorMap
from convc.machine.isa.copies.lines import tensor_reach
from convc.machine.tma.load import TensorLoader
from convc.machine.tma.store import store

PLAIN = ("tile", "im2col")


def reached(reach, ctas: int) -> list[set[int]]:
    """Bytes of the buffer, CTA by CTA."""
    found: list[set[int]] = [set() for _ in range(ctas)]
    for which, starts, size in reach.lines(np.arange(ctas)):
        for cta, lines in zip(which.tolist(), starts, strict=True):
            for start in lines[lines >= 0].tolist():
                found[cta] |= set(range(start, start + size))
    return found


def columns(rng: random.Random, tmap: TensorMap, ctas: int, low: int = -99) -> tuple:
    """Coordinates of some CTAs: an array, or one number where they all have it."""
    chosen = [tuple(max(low, c) for c in make_coords(rng, tmap)) for _ in range(ctas)]
    found = [np.array(column, np.int64) for column in zip(*chosen, strict=True)]
    return tuple(int(c[0]) if (c == c[0]).all() else c for c in found)


@settings(max_examples=some(120), deadline=None)
@given(st.integers(0, 10**9))
def test_a_load_reads_the_lines_that_are_told(seed):
    """Every byte of memory says where it is, a digit a load, and fill says nowhere."""
    rng = random.Random(seed)
    tmap = msgspec.structs.replace(make_map(rng), fill="zero")
    ctas, offsets = rng.randint(1, 4), make_offsets(rng, tmap)
    coords = columns(rng, tmap, ctas)
    number = np.arange(1, tmap.offset + tmap.tensor_bytes + 17)
    digits = []
    for part in (number & 0xFF, number >> 8 & 0xFF, number >> 16 & 0xFF):
        smem = np.zeros((ctas, SHARED), np.uint8)
        loader = TensorLoader(tmap, part.astype(np.uint8))
        loader.load(smem, 0, coords, offsets)
        digits.append(smem.astype(np.int64))
    origin = (digits[2] << 16 | digits[1] << 8 | digits[0]) - 1
    want = [set(line[line >= 0].tolist()) for line in origin]
    assert reached(tensor_reach(loader, "x", "ld", coords, offsets, None), ctas) == want


@settings(max_examples=some(120), deadline=None)
@given(st.integers(0, 10**9))
def test_a_store_writes_the_lines_that_are_told(seed):
    rng = random.Random(seed)
    tmap = make_map(rng)
    while tmap.mode not in PLAIN:
        tmap = make_map(rng)
    tmap = msgspec.structs.replace(tmap, lower=(0,) * len(tmap.lower), upper=(0,) * len(tmap.upper))
    ctas = rng.randint(1, 4)
    coords = columns(rng, tmap, ctas, low=0)
    want = []
    for cta in range(ctas):
        memory = np.zeros(-(-(tmap.offset + tmap.tensor_bytes) // 16) * 16 + 16, np.uint8)
        own = tuple(int(c[cta]) if isinstance(c, np.ndarray) else c for c in coords)
        store(TensorLoader(tmap, memory), np.full((1, SHARED), 0xFF, np.uint8), 0, own, mode=tmap.mode)
        want.append(set(np.flatnonzero(memory).tolist()))
    reach = tensor_reach(TensorLoader(tmap, memory), "x", "st", coords, None, tmap.mode)
    assert reached(reach, ctas) == want


def test_a_multicast_has_coordinates_for_every_destination():
    tmap = TensorMap(
        mode="tile", buffer="x", dtype="u32", dims=(8, 8), strides=(32,), element_strides=(1, 1), box=(8, 1)
    )
    loader = TensorLoader(tmap, np.zeros(256, np.uint8))
    rows = np.repeat(np.array([3, 5]), 2)
    assert reached(tensor_reach(loader, "x", "ld", (0, rows), (), "tile", 2), 2) == [
        set(range(96, 128)),
        set(range(160, 192)),
    ]
