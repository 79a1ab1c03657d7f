"""The ways to lay out the columns of a filter; `convc.host_layout.columns` says what they mean."""

from __future__ import annotations

from typing import Literal

Columns = Literal["off", "overlap", "host"]
COLUMNS: tuple[Columns, ...] = ("off", "overlap", "host")
