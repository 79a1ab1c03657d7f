"""The lanes of one tile that a filter tap masks, by the expressions that the kernel's masks are computed with."""

from __future__ import annotations

import numpy as np

from convc.compiler.index.lane_masks import column_mask, line_mask
from convc.compiler.index.reuse import ReuseMaps
from convc.ir import expr


def tile_mask(maps: ReuseMaps, tile_m: int, r: int, s: int) -> np.ndarray:
    """Bool (lanes,): the lanes of one tile that tap (r, s) does not write."""
    lanes = np.arange(maps.tile.lanes)
    found = np.zeros(lanes.shape, bool)
    for masked, made in ((maps.walk.border == "mask", column_mask), (maps.stream.masked, line_mask)):
        if masked:
            found |= np.asarray(expr.evaluate(made(maps), {"tile_m": tile_m, "lane": lanes, "r": r, "s": s}), bool)
    return found
