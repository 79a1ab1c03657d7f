"""The choice of a rasterization order among those that a large grid may have."""

from __future__ import annotations

import pytest

from convc.compiler.index.order_names import COLUMNS, GROUPED, OrderName
from convc.compiler.index.traffic import Bytes
from convc.compiler.plan.tile_order import choose_order

L2 = 1 << 20
TILES = 1 << 18


def bytes_of(tiles: int) -> Bytes:
    """Buffers that L2 does not hold."""
    return Bytes(activation=tiles * L2, filter=L2, residual=0, output=tiles, l2=1024 * L2)


def test_an_order_of_a_grid_of_any_size_is_looked_for_and_proved():
    order = choose_order((TILES, 4), 1, 148, bytes_of(TILES), None)
    assert order.name != "rows"
    assert "visits each of 262144 x 4 tiles once" in order.proof


@pytest.mark.parametrize("name", [COLUMNS, GROUPED])
def test_an_order_that_is_asked_for_is_made(name: OrderName):
    order = choose_order((TILES + 1, 2), 1, 148, bytes_of(TILES), name)
    assert order.name == name
    assert order.proof
