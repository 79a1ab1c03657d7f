"""The two ways to treat lanes whose pixel is padding; `convc.compiler.index.row_walk` says what they mean."""

from __future__ import annotations

from typing import Literal

Border = Literal["mask", "zero"]
BORDERS: tuple[Border, ...] = ("mask", "zero")
