"""Results of packs where a guard holds, and what was there elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from convc.machine.execute.pack_operands import merged

SHAPE = (3, 4, 32, 8)


@pytest.mark.parametrize("mask", [(3, 4, 32), (1, 4, 32), (3, 1, 1), (1, 1, 1)])
@pytest.mark.parametrize("block", [SHAPE, (1, 4, 1, 8), (1, 1, 1, 8)])
@pytest.mark.parametrize("old", [SHAPE, (3, 1, 1, 8), (1, 1, 1, 1), (1, 1, 1)])
def test_old_elements_stay_where_the_guard_fails(mask, block, old):
    rng = np.random.default_rng(5)
    taken = rng.random(mask) < 0.7
    new = rng.integers(0, 1 << 32, block, np.uint32)
    before = rng.integers(0, 1 << 32, old, np.uint32)
    kept = new.copy()
    assert np.array_equal(merged(taken, new, before), np.where(taken[..., None], new, before))
    assert np.array_equal(new, kept)
