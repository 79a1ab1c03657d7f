"""Integers against two oracles; floats are tested with whole networks."""

from __future__ import annotations

import numpy as np
import pytest

from convc.errors import InputError
from convc.verification.node import compare_integers

EXPECTED = np.arange(-8, 8, dtype=np.int8).reshape(2, 2, 4)


@pytest.mark.parametrize(("off", "slack", "right"), [(0, 0, True), (1, 0, False), (1, 1, True), (-2, 1, False)])
def test_integers(off, slack, right):
    y = EXPECTED.copy()
    y[1, 0, 2] += off
    found = compare_integers(y, EXPECTED, slack)
    assert found.ok is right
    assert found.first == (None if right else (1, 0, 2))
    assert found.worst_error == abs(off)
    assert found.count_wrong == (not right)
    assert (found.worst_ratio <= 1) == right
    assert right or (found.got, found.expected, found.limit) == (2 + off, 2, slack)


def test_integers_do_not_wrap_around():
    assert compare_integers(np.array([127], np.int8), np.array([-128], np.int8), 1).worst_error == 255


def test_shapes_must_agree():
    with pytest.raises(InputError, match="the result has shape"):
        compare_integers(EXPECTED, EXPECTED[0], 0)
