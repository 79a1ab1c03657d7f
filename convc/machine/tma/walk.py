"""The walk of a tensor copy: which position of the tensor each row of shared memory comes from.

A copy fills rows of shared memory. Dimension 0 runs inside a row; a row is one position along the *outer*
dimensions (1 and up, in the map's order: W {H {D}} N for im2col). A walk is a function from the start
coordinates to these positions; filter offsets are added when reading and never move it. Modes:

* tile: the lines of the box, dimension 1 fastest; dimension d visits ceil(box / stride) positions.
* rows4 (the instructions' tile::gather4 and tile::scatter4): four lines of a 2-D tile map, each named by a coordinate.
* im2col: W advances by its stride; on leaving the bounding box (size + upper) it returns to lower and H
  advances, and so on to D and N. N is not bounded: positions past the last image are filled.
* im2col_w, im2col_w128: only W and N move, so a walk runs along one image row and then jumps to the same row
  of the next image. Halo rows continue it: after the last pixel (w), or after each group of 32 of the 128
  pixels (w128), stored in row 128 + 4*h + group.

Sources: tile and im2col are recorded on an H200 (``tests/recordings``), faults included. The wide modes: PTX
manual, tensor im2col::w and im2col::w::128 modes; placement of the halo rows: an independent model tested
on SM100. rows4: PTX manual, tile::gather4 and tile::scatter4 modes; box of one line: as public kernels encode it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convc.errors import MachineFault
from convc.ir.tensormap import CORNER_BITS, TensorMap

HALO_LIMIT = {"im2col_w": 512, "im2col_w128": 32}
WIDE_OFFSET_LIMIT = 32
ROWS4 = "rows4"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRows:
    """What the offset operands of an instruction make of its map.

    Attributes:
        steps: (rows,) number of the walk position that each row of shared memory holds.
        taps: offset along each outer dimension, added when reading.
    """

    steps: np.ndarray
    taps: tuple[int, ...]


def copy_rows(tmap: TensorMap, offsets: tuple[int, ...], mode: str | None = None) -> CopyRows:
    """Check and resolve the mode and the offset operands of a copy.

    Args:
        tmap: the tensor map.
        offsets: tile: none; im2col: one per spatial dimension, W first; wide modes: (wHalo, wOffset).
        mode: what the instruction says: a map's mode or `ROWS4`; None: the map's.
    """
    outer = tmap.rank - 1
    if mode == ROWS4 and tmap.mode == "tile":
        if tmap.rank != 2 or tmap.box[1] != 1:
            raise MachineFault(
                f"tile::gather4 and tile::scatter4 take a map of rank 2 whose box is one line, got box {tmap.box}",
                hint="the four coordinates name the lines; encode the map with boxDim[1] = 1",
            )
        return CopyRows(steps=np.arange(4), taps=(0,))
    if mode is not None and mode != tmap.mode:
        raise MachineFault(f"the instruction copies in mode {mode}, its tensor map is of mode {tmap.mode}")
    expected = {"tile": 0, "im2col": outer - 1}.get(tmap.mode, 2)
    if len(offsets) != expected:
        raise MachineFault(
            f"a copy in mode {tmap.mode} with a map of rank {tmap.rank} takes {expected} offset operand(s), "
            f"got {len(offsets)}"
        )
    if tmap.mode == "tile":
        return CopyRows(steps=np.arange(tmap.rows), taps=(0,) * outer)
    if tmap.mode == "im2col":
        limit = 1 << CORNER_BITS[tmap.rank]
        for name, offset in zip("WHD", offsets, strict=False):
            _check_range(f"im2col offset along {name}", offset, limit, f"a map of rank {tmap.rank}")
        return CopyRows(steps=np.arange(tmap.rows), taps=(*offsets, 0))
    halo, shift = offsets
    _check_range("wHalo", halo, HALO_LIMIT[tmap.mode], f"mode {tmap.mode}")
    _check_range("wOffset", shift, WIDE_OFFSET_LIMIT, f"mode {tmap.mode}")
    if tmap.mode == "im2col_w":
        steps = np.arange(tmap.rows + halo)
    else:
        extra = np.arange(halo)[:, None] + 32 * np.arange(1, 5)
        steps = np.concatenate([np.arange(128), extra.reshape(-1)])
    return CopyRows(steps=steps, taps=(shift,) + (0,) * (outer - 1))


def positions(tmap: TensorMap, start: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Positions of a walk.

    Args:
        tmap: the tensor map.
        start: int32 (outer, copies): start coordinates along the outer dimensions.
        steps: (rows,) walk positions wanted, see `CopyRows`.

    Returns:
        int32 (outer, copies, rows), taps not added. Faults where a start lies outside the bounding box.
    """
    found = np.empty((*start.shape, steps.size), np.int32)
    count = steps.astype(np.int32)
    if tmap.mode == "tile":
        for axis, (box, stride) in enumerate(zip(tmap.box[1:], tmap.element_strides[1:], strict=True)):
            visits = -(-box // stride)
            found[axis] = start[axis, :, None] + count % visits * stride
            count = count // visits
        return found
    moving = tmap.rank - 2 if tmap.mode == "im2col" else 1
    for axis in range(moving):
        found[axis], count = _bounded(tmap, axis, start[axis, :, None], count)
    for axis in range(moving, tmap.rank - 2):
        found[axis] = start[axis, :, None]
    found[-1] = start[-1, :, None] + count * tmap.element_strides[-1]
    return found


def _bounded(tmap: TensorMap, axis: int, start: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One bounded dimension: its positions after ``count`` advances, and how often it passed its end."""
    low = tmap.lower[axis]
    high = min(tmap.dims[axis + 1] + tmap.upper[axis], (1 << 31) - 1)
    outside = start >= high if tmap.mode != "im2col" else (start < low) | (start >= high)
    if outside.any():
        bound = f"{low} <= start < {high}" if tmap.mode == "im2col" else f"start < {high}"
        raise MachineFault(
            f"{tmap.mode} copy starts outside its bounding box: coordinate {int(start[outside][0])} along "
            f"{'WHD'[axis]}, expected {bound} (lower {low}, dims + upper {high})",
            hint="the coordinates are the pixel of the filter's first tap; other taps are the offset operands",
        )
    stride = tmap.element_strides[axis + 1]
    first = (-((start.astype(np.int64) - high) // stride)).astype(np.int32)
    period = -((low - high) // stride)
    beyond = count - first
    line, along = np.divmod(beyond, np.int32(period))
    inside = beyond < 0
    where = np.where(inside, start + count * stride, low + along * stride)
    return where, np.where(inside, 0, line + 1)


def _check_range(name: str, value: int, limit: int, of: str) -> None:
    if not 0 <= value < limit:
        raise MachineFault(
            f"{name} must be in 0..{limit - 1} for {of}, got {value}",
            hint="the hardware ignores the upper bits and reads another pixel",
        )
