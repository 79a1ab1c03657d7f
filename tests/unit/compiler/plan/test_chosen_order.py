"""The choice of an order of tiles: which grids are looked at, and what is said of those that are not."""

from __future__ import annotations

import convc.compiler.plan.tile_order as chosen
from convc.compiler.index.order_names import COLUMNS
from convc.compiler.index.traffic import Bytes
from convc.compiler.plan.tile_order import MOST_TILES, choose_order

L2 = 1 << 20


def bytes_of(tiles: int) -> Bytes:
    """Buffers that L2 does not hold."""
    return Bytes(activation=tiles * L2, filter=L2, residual=0, output=tiles, l2=L2)


def test_no_order_is_looked_for_among_more_tiles_than_can_be_computed_in_no_time(monkeypatch):
    looked = []
    look = chosen._looked_at
    monkeypatch.setattr(chosen, "_looked_at", lambda *args: looked.append(args) or look(*args))
    order = choose_order((MOST_TILES, 4), 1, 148, bytes_of(MOST_TILES), None)
    assert order.places is None
    assert f"more than {MOST_TILES} tiles" in order.why
    assert not looked
    choose_order((MOST_TILES >> 9, 4), 1, 148, bytes_of(MOST_TILES >> 9), None)
    assert looked


def test_an_order_that_is_asked_for_is_made_whatever_the_number_of_tiles():
    order = choose_order((MOST_TILES + 1, 1 + 1), 1, 148, bytes_of(MOST_TILES), COLUMNS)
    assert order.name == COLUMNS
    assert order.proof
