"""The names of the orders in which tiles are made; what they are: `convc.compiler.index.tile_order`."""

from __future__ import annotations

from typing import Literal

OrderName = Literal["rows", "columns", "grouped", "boustrophedon", "hilbert"]
ROWS: OrderName = "rows"
COLUMNS: OrderName = "columns"
GROUPED: OrderName = "grouped"
BOUSTROPHEDON: OrderName = "boustrophedon"
HILBERT: OrderName = "hilbert"
ORDERS: tuple[OrderName, ...] = (ROWS, COLUMNS, GROUPED, BOUSTROPHEDON, HILBERT)
