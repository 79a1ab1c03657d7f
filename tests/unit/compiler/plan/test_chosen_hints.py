"""Cache hints: what is read again stays in L2, what is read once may go first."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from convc.compiler.plan.cache_hints import Readers, choose_hints

MIB = 1 << 20


class Size(NamedTuple):
    """Bytes of a launch, as `convc.compiler.index.traffic.Bytes` has them."""

    activation: int
    filter: int
    l2: int = 100 * MIB

    @property
    def all(self) -> int:
        return self.activation + self.filter + MIB


BOTH, LITTLE_X, LITTLE_W, NEITHER = (
    Size(50 * MIB, 50 * MIB), Size(60 * MIB, 70 * MIB), Size(80 * MIB, 60 * MIB), Size(150 * MIB, 120 * MIB),
)  # fmt: skip


def stays(size: Size, activations: int, filters: int, order: str = "hilbert", taps: bool = False):
    readers = Readers(activations=activations, filters=filters, taps=taps, residual=False, order=order, size=size)
    found = choose_hints("on", readers)
    return found.activations, found.filters


FIRST, LAST = "evict_first", "evict_last"


@pytest.mark.parametrize(
    ("size", "activations", "filters", "order", "expected"),
    [
        (BOTH, 2, 2, "hilbert", (LAST, LAST)),
        (LITTLE_X, 2, 2, "hilbert", (LAST, None)),
        (LITTLE_W, 2, 2, "hilbert", (None, LAST)),
        (LITTLE_X, 1, 2, "hilbert", (FIRST, LAST)),
        (LITTLE_W, 2, 1, "hilbert", (LAST, FIRST)),
        (NEITHER, 1, 1, "hilbert", (FIRST, FIRST)),
        (LITTLE_W, 2, 2, "rows", (LAST, None)),
        (LITTLE_X, 2, 2, "columns", (None, LAST)),
        (NEITHER, 2, 2, "rows", (None, LAST)),
        (NEITHER._replace(activation=110 * MIB), 2, 2, "columns", (LAST, None)),
    ],
)
def test_what_is_read_again_stays_as_far_as_l2_holds_it(size, activations, filters, order, expected):
    assert stays(size, activations, filters, order) == expected


def test_pixels_that_the_taps_of_one_tile_read_again_have_no_hint():
    assert stays(BOTH, 1, 2, taps=True) == (None, LAST)


def test_hints_are_not_worth_a_try_where_l2_holds_all():
    readers = Readers(activations=2, filters=2, taps=False, residual=True, order="rows", size=Size(50 * MIB, 49 * MIB))
    assert choose_hints("estimate", readers).why == (f"no cache hints: L2 holds all {100 * MIB} bytes",)
    assert not choose_hints("off", readers).any
    assert choose_hints("on", readers).residual == FIRST
    more = Readers(activations=2, filters=2, taps=False, residual=True, order="rows", size=Size(50 * MIB, 50 * MIB))
    assert choose_hints("estimate", more).any
