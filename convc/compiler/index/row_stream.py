"""The stream of pixels that tiles are cut from: output rows one after another, and which of them follow each other.

A copy in im2col::w mode goes from the end of an image row to the same row of the next "image", the outermost dimension
of its tensor map. There are two ways to use that, and one for
targets without the mode:

* **outer**: the map is (C, W, H, N). A stream is one output row p of all images; the loop over p is outside, and a tile
  holds pixels (n, q). Rows above and below the image are filled with zeros by the copy.
* **merged**: the map is (C, W, N*H), so the "next image" is u_h rows further down. One stream holds all output pixels
  (n, p, q), and small images fill whole tiles. Past the last row of an image comes the next image, where padding
  belongs: with several images those lanes are masked, filter row by filter row.

* **boxed**: a plain im2col map has the output rows in its bounding box, (W, H) with the strides of both. One stream
  holds all output pixels (n, p, q) in the order in which such a copy walks; a filter row is an offset of the whole box,
  and rows above and below each image are filled with zeros. Only the width of the box differs from that of a copy for
  one filter tap.

Merging needs image and output rows to keep step: u_h*Y = H for the Y rows of the stream that an image gets, Y >= P. One
image alone always merges, and what lies above and below it is filled with zeros.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from convc.derived.record import Sizes, derived
from convc.derived.solved import all_hold, limits
from convc.ir.arch import SM_100A

WINDOW = SM_100A.limits.tmem_part_lanes
"""Lanes of a sub-partition of tensor memory: rows shift inside it and never across."""
STEP = ("N", "P", "H", "R", "u_h", "d_h", "pad_h")
"""The sizes that the step of images and streams depends on."""
INSIDE = "rows inside of their image"
"""The fact that no lane of a stream of several images has to be masked because of its row (`convc.derive.results`)."""


class LaneTile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How the lanes of a tile are dealt out to the stream.

    Attributes:
        lanes: lanes of a tile: rows of the MMA, or columns where activations are its second operand.
        windows: copies that fill the tile: 1, or one for each 32 lanes.
        useful: lanes of a window that belong to outputs; the rest only hold what is shifted into those.
    """

    lanes: int
    windows: int
    useful: int

    @property
    def outputs(self) -> int:
        """Places of the stream that a tile covers."""
        return self.windows * self.useful


class RowStream(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which rows follow each other.

    Attributes:
        merged: whether all output rows are in one stream.
        streams: how many streams there are: P, or 1 where merged.
        rows: rows of a stream: N, or N*Y where merged.
        image_rows: rows of the stream per image: 1, or Y where merged.
        outputs: how many of those hold outputs: 1, or P where merged.
        step: input rows, or images, from one row of the stream to the next: the map's stride along its last dimension.
        boxed: whether rows are those of the box of an im2col map, so that each lies in its own image.
        masked: whether lanes have to be masked because a filter row leaves their image.
    """

    merged: bool
    streams: int
    rows: int
    image_rows: int
    outputs: int
    step: int
    masked: bool
    boxed: bool = False

    @property
    def last_row(self) -> int:
        """Number of the last row that holds an output."""
        return self.rows - self.image_rows + self.outputs - 1


def outer_stream(sizes: Sizes) -> RowStream:
    """One stream per output row."""
    return RowStream(merged=False, streams=sizes["P"], rows=sizes["N"], image_rows=1, outputs=1, step=1, masked=False)


def boxed_stream(sizes: Sizes) -> RowStream:
    """One stream for all output rows, in the box of an im2col map."""
    outputs = sizes["P"]
    return RowStream(
        merged=True,
        streams=1,
        rows=sizes["N"] * outputs,
        image_rows=outputs,
        outputs=outputs,
        step=sizes["u_h"],
        masked=False,
        boxed=True,
    )


def merged_stream(sizes: Sizes, form: str) -> RowStream | str:
    """One stream for all output rows, or the condition that fails, with its numbers.

    sizes: of the problem. form: of the schedule.
    """
    height, outputs, stride = (sizes[name] for name in ("H", "P", "u_h"))
    about = tuple((name, sizes[name]) for name in STEP)
    rows, most, masked = _steps(derived().forms[form].solved["Y"], about)
    if most is not None and rows > most:
        if height % stride:
            return f"stride {stride} does not divide the {height} rows of an image, so images would not keep step"
        return f"an image has {outputs} output rows, but only {most} steps of {stride} rows in its {height} rows"
    return RowStream(
        merged=True,
        streams=1,
        rows=sizes["N"] * rows,
        image_rows=rows,
        outputs=outputs,
        step=stride,
        masked=masked,
    )


@lru_cache(maxsize=256)
def _steps(number: int, about: tuple[tuple[str, int], ...]) -> tuple[int, int | None, bool]:
    """The least and the most rows of the stream that an image may have, and whether lanes have to be masked by rows.

    number: of what the rows are solved for, which forms have in common. about: the sizes that it reads.
    """
    sizes = dict(about)
    least, most = limits(derived().numbers[number], sizes)
    return least, most, not all_hold(derived().facts[INSIDE].conditions, sizes)
