"""The bounding box in which an im2col copy walks over an image.

In im2col mode the tensor memory accelerator does not copy a box: it copies a *sequence of pixels*. The
sequence starts at given coordinates and moves by the convolution's stride inside a bounding box, which the
tensor map gives by its corners, one pair per spatial axis: positions lower, lower + stride, ... below
``size + upper``. After each pixel W advances; past the end of the box it returns to ``lower`` and H advances;
past the end of H, N does. (PTX manual, tensor im2col mode; confirmed pixel by pixel on sm_90a hardware.) The
filter offsets of an instruction are added when a pixel is read and never move the walk.

For a convolution the corners are ``lower = -pad_lo`` and ``upper = pad_hi - (S - 1)*dilation``: the box then
holds the positions of the filter window's first tap, as many as there are outputs: the walk counts the pixels of a
tile (`convc.derive.kernels`, `walk_theorem`).
"""

from __future__ import annotations

import msgspec

from convc.ir.problem import ConvProblem


class Im2colBox(msgspec.Struct, frozen=True, kw_only=True):
    """The bounding box of an im2col tensor map; pairs are (W, H), as in the tensor map.

    Attributes:
        size: extent of the tensor.
        lower: first position along each axis.
        upper: the box ends before ``size + upper``.
        stride: step from one position to the next (the tensor map's element strides).
    """

    size: tuple[int, int]
    lower: tuple[int, int]
    upper: tuple[int, int]
    stride: tuple[int, int]

    @property
    def positions(self) -> tuple[int, int]:
        """(positions per row, rows per image): floor((size + upper - lower - 1) / stride) + 1, at least 0."""
        columns, rows = (
            max(0, (size + upper - lower - 1) // stride + 1)
            for size, lower, upper, stride in zip(self.size, self.lower, self.upper, self.stride, strict=True)
        )
        return columns, rows

    @property
    def last(self) -> tuple[int, int]:
        """Last coordinate inside the box, along W and H."""
        return self.size[0] + self.upper[0] - 1, self.size[1] + self.upper[1] - 1


def im2col_box(problem: ConvProblem) -> Im2colBox:
    """The box of a convolution: lower = -pad_lo, upper = pad_hi - (taps - 1)*dilation, the same stride."""
    height, width = problem.in_extent
    top, left = problem.pad_lo
    bottom, right = problem.pad_hi
    span_h, span_w = problem.span
    down, across = problem.stride
    return Im2colBox(
        size=(width, height),
        lower=(-left, -top),
        upper=(right - span_w + 1, bottom - span_h + 1),
        stride=(across, down),
    )
