"""The ways to lay out operands besides the usual one: `convc.host_layout.columns` and `convc.host_layout.summed`."""

from __future__ import annotations

from typing import Literal

Columns = Literal["off", "overlap", "host", "summed"]
COLUMNS: tuple[Columns, ...] = ("off", "overlap", "host")
