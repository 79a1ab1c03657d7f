"""Places that observers are told of: the CTAs of a cluster that access the same ones give the very same array."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from convc.machine.isa.observe import lane_accesses

STRAND: Any = SimpleNamespace(rows=None, row_count=2, warps=np.array([1]), mask=None, cohort=SimpleNamespace(watched=2))
"""Warp 1 of both CTAs of a cluster, all lanes."""

STARTS = 64 * np.arange(32, dtype=np.uint32).reshape(1, 1, 32)


def test_ctas_that_access_the_same_places_give_one_array():
    first, second = lane_accesses(STRAND, STARTS, 4)
    assert first.places is second.places
    assert first.places[3].tolist() == [192, 193, 194, 195]
    with pytest.raises(ValueError, match="read-only"):
        first.places[0] = 0


def test_lanes_that_reach_one_cta_are_one_access():
    homes = np.array([1, 0]).reshape(2, 1, 1)
    found = lane_accesses(STRAND, STARTS, 4, homes)
    assert [(access.row, access.home) for access in found] == [(0, 1), (1, 0)]
    assert found[0].places is found[1].places


def test_lanes_that_reach_several_ctas_are_told_apart():
    homes = (np.arange(32) % 2).reshape(1, 1, 32)
    found = lane_accesses(STRAND, STARTS, 4, homes)
    assert [(access.row, access.home) for access in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert found[1].lanes.tolist() == list(range(1, 32, 2))
    assert found[1].places[:, 0].tolist() == [64 * lane for lane in range(1, 32, 2)]
