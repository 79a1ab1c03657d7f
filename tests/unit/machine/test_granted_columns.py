"""Columns of tensor memory that some warps and CTAs get while others still wait."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from convc.errors import MachineFault
from convc.machine.isa.tcgen05.alloc import _columns
from convc.machine.tensor_core.tensor_memory import TensorMemory


def cohort(ctas: int = 4) -> SimpleNamespace:
    return SimpleNamespace(tensor=TensorMemory(ctas), core=SimpleNamespace(seal=lambda: None), ctas=ctas)


def ask(of: SimpleNamespace, rows: list[int], warp: int, count: int, pair: bool = False) -> list[int]:
    return _columns(of, np.array(rows), warp, count, pair).tolist()


def test_a_ctas_columns_are_free_or_it_waits_for_itself():
    own = cohort()
    assert ask(own, [1], 0, 512) == [0]
    assert ask(own, [0, 1, 2], 3, 256) == [0, -1, 0]
    assert own.tensor.free(0, 512, np.array([1]))
    assert ask(own, [1], 3, 256) == [0]


def test_what_was_granted_is_taken_once():
    """Then the warp asks again, and gets other columns."""
    own = cohort(1)
    own.tensor.allocate(128, np.array([0]), False)
    own.tensor.granted[0, 2] = 0
    assert ask(own, [0], 2, 128) == [0]
    assert ask(own, [0], 2, 128) == [128]


def test_the_ctas_of_a_pair_get_the_same_columns_when_both_have_asked():
    own = cohort()
    own.tensor.allocate(64, np.array([2]), False)
    assert ask(own, [2], 1, 32, pair=True) == [-1]
    assert ask(own, [2], 1, 32, pair=True) == [-1]
    assert ask(own, [3], 0, 32, pair=True) == [64]
    assert own.tensor.asked == {}
    assert ask(own, [2], 1, 32, pair=True) == [64]
    assert own.tensor.granted == {}
    assert ask(own, [2], 1, 32, pair=True) == [-1]
    assert ask(own, [3], 0, 32, pair=True) == [96]


def test_of_several_warps_the_one_that_asked_first_is_served_first():
    own = cohort(2)
    assert [ask(own, [0], warp, 32, pair=True) for warp in (3, 1, 3)] == [[-1]] * 3
    assert ask(own, [1], 2, 32, pair=True) == [0]
    assert list(own.tensor.asked) == [0]
    assert ask(own, [0], 1, 32, pair=True) == [-1]
    assert ask(own, [1], 2, 32, pair=True) == [32]
    assert [ask(own, [0], warp, 32, pair=True) for warp in (3, 1)] == [[0], [32]]


@pytest.mark.parametrize(("even", "odd"), [(32, 64), (64, 32)])
def test_the_ctas_of_a_pair_must_ask_for_as_many(even, odd):
    own = cohort(2)
    ask(own, [0], 0, even, pair=True)
    with pytest.raises(MachineFault, match=f"the even CTA of a pair asks for {even} columns, the odd one for {odd}"):
        ask(own, [1], 0, odd, pair=True)
