"""Distinct places of an access and of keys, counted in a table or sorted: both find the same."""

from __future__ import annotations

import numpy as np
import pytest

from convc.sanitizer.parts import DENSE, MARKED, _counted, _distinct, _last_of_each, _translated

CASES = [
    [5], [7, 3, 7, 4, 3, 3], list(range(9, 2, -1)), [0, 10_000, 0, 4], [12, 12 + 4 * DENSE, 12, 13],
    [12, 12 + 4 * MARKED, 12, 13], [12, 11 + 4 * MARKED, 12, 13],
]  # fmt: skip
"""Numbers near each other, and far apart."""


@pytest.mark.parametrize("numbers", CASES)
def test_numbers_are_counted(numbers):
    found, counts = _counted(np.array(numbers))
    assert found.tolist() == sorted(set(numbers))
    assert counts.tolist() == [numbers.count(number) for number in found]


@pytest.mark.parametrize("numbers", CASES)
def test_numbers_are_told_apart_and_translated(numbers):
    found = _distinct(np.array(numbers))
    assert found.tolist() == sorted(set(numbers))
    wanted = [100 + found.tolist().index(number) for number in numbers]
    translated = _translated(np.array(numbers), found, np.arange(100, 100 + len(found)))
    assert np.broadcast_to(translated, len(numbers)).tolist() == wanted


@pytest.mark.parametrize("numbers", CASES)
def test_the_last_owner_of_a_place_counts(numbers):
    owners = np.arange(len(numbers)) * 3
    single, last = _last_of_each(np.array(numbers), owners)
    assert dict(zip(single.tolist(), last.tolist(), strict=True)) == dict(zip(numbers, owners.tolist(), strict=True))
    assert single.tolist() == sorted(set(numbers))
    assert last.dtype == np.int64
