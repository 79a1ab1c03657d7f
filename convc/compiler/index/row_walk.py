"""How an im2col::w copy walks along image rows, and which filter columns can share what it fetched.

Fix one input row per image. The copy visits its pixels in steps of the stride u, from left to right, and then goes on
with the next row of the stream (the same row of the next image; PTX manual, tensor im2col::w mode). Output pixels of
one output row count the same way: t = row*P + q. Filter column s needs in lane t the pixel ``u*q + s*d - left``, so

* two filter columns can share a *buffer* exactly if their offsets s*d differ by a multiple of u; inside a buffer, whose
  first column has offset o, column s is ``j = (s*d - o)/u`` lanes further on. That is the whole idea: what lane i needs
  next, lane i + 1 has now.
* the walk must have as many pixels per row, P, as the accumulator has lanes per output row: both count in the same
  mixed radix. P is the smallest number for which every lane that holds a pixel of another row than its own needs
  padding instead; such a lane is *masked* (border ``mask``), or P is so large that it holds a zero (border ``zero``).

Pixels of a row are numbered by x: pixel ``u*x + o - left``. The walk has x = lead .. lead + P - 1: `lead` pixels of the
left padding are not walked over at all, since the end of the row before stands where they would be.
"""

from __future__ import annotations

import msgspec

from convc.compiler.index.border import BORDERS as BORDERS
from convc.compiler.index.border import Border as Border


class RowProblem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A convolution along W.

    Attributes:
        width, outputs: W and Q.
        taps: S.
        stride, dilation, pad: u, d and the padding on the left, in pixels.
    """

    width: int
    outputs: int
    taps: int
    stride: int
    dilation: int
    pad: int

    def pixel(self, q: int, s: int) -> int:
        """The pixel that output q needs at tap s; outside 0..W-1 it is padding."""
        return self.stride * q + self.dilation * s - self.pad


class Tap(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A filter column of a buffer.

    Attributes:
        s: the filter column.
        lanes: by how many lanes the buffer has to move before it multiplies (j).
        inside: first and last q whose pixel lies in the image; (0, -1): none.
    """

    s: int
    lanes: int
    inside: tuple[int, int]


class Buffer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Pixels that are fetched once and multiplied by several filter columns.

    Attributes:
        offset: s*d of the first of them (o), the wOffset of the copy.
        taps: in order; `step` lanes apart.
    """

    offset: int
    taps: tuple[Tap, ...]

    @property
    def halo(self) -> int:
        """Pixels needed behind those of the first tap (wHalo)."""
        return self.taps[-1].lanes

    @property
    def step(self) -> int:
        """Lanes from one tap to the next; 0 where there is only one."""
        return self.taps[1].lanes if len(self.taps) > 1 else 0


class RowWalk(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A walk that serves all filter columns.

    Attributes:
        problem: what it serves.
        border: how lanes whose pixel is padding get their zero.
        lead: positions of the left padding that the walk leaves out.
        period: pixels per row of the walk, and accumulator lanes per output row (P).
        buffers: one copy each.
    """

    problem: RowProblem
    border: Border
    lead: int
    period: int
    buffers: tuple[Buffer, ...]

    @property
    def lower(self) -> int:
        """Lower corner of the box: the first pixel of a row, for offset 0."""
        return self.problem.stride * self.lead - self.problem.pad

    @property
    def upper(self) -> int:
        """Upper corner: the box ends before pixel ``width + upper``."""
        return self.lower + self.problem.stride * self.period - self.problem.width

    @property
    def waste(self) -> int:
        """Lanes of every output row that belong to no output pixel."""
        return self.period - self.problem.outputs


def row_walk(problem: RowProblem, border: Border) -> RowWalk:
    """Derive the walk: the shortest one, if every filter column meets the image somewhere.

    With X(o) = ceil((left - o)/u) positions of buffer o left of the image and E(o) = ceil((W + left - o)/u) the first
    one right of it, a lane with a foreign pixel stands at x < lead or x >= lead + P. It needs padding exactly if
    lead <= X(o) and lead + P >= E(o), unless no tap reaches so far (x <= Q - 1 + halo). For border ``zero`` it must
    *hold* padding as well: nothing is left out on the left, and a row's end wraps only into the X(o) zeros of the next.
    """
    buffers = _buffers(problem)
    u = problem.stride
    width = problem.width
    pad = problem.pad
    outputs = problem.outputs
    left = [max(0, -((buffer.offset - pad) // u)) for buffer in buffers]
    end = [-((buffer.offset - width - pad) // u) for buffer in buffers]
    lead = min(left) if border == "mask" else 0
    period = outputs
    for buffer, zeros, first_right in zip(buffers, left, end, strict=True):
        reach = outputs + buffer.halo
        wrapping = first_right if border == "mask" else max(first_right, reach - zeros)
        period = max(period, min(reach, wrapping) - lead)
    return RowWalk(problem=problem, border=border, lead=lead, period=period, buffers=buffers)


def _buffers(problem: RowProblem) -> tuple[Buffer, ...]:
    """Filter columns by the remainder of s*d after division by u, in order of their first column."""
    u = problem.stride
    d = problem.dilation
    classes: dict[int, list[int]] = {}
    for s in range(problem.taps):
        classes.setdefault(s * d % u, []).append(s)
    return tuple(
        Buffer(
            offset=members[0] * d,
            taps=tuple(Tap(s=s, lanes=(s - members[0]) * d // u, inside=_inside(problem, s)) for s in members),
        )
        for members in classes.values()
    )


def _inside(problem: RowProblem, s: int) -> tuple[int, int]:
    """First and last output whose pixel at tap s lies in the image: 0 <= u*q + s*d - left < W."""
    shift = problem.dilation * s - problem.pad
    first = max(0, -(shift // problem.stride))
    last = min(problem.outputs - 1, (problem.width - 1 - shift) // problem.stride)
    return (first, last) if first <= last else (0, -1)


def padding_run(walk: RowWalk, tap: Tap) -> tuple[int, int]:
    """(first column, how many) of the columns q of a row that need padding at a tap; the run may go over the row's end.

    Padding on the right and on the left of the next row are one run, columns without an output between them included.
    """
    first, last = tap.inside
    outputs = walk.problem.outputs
    period = walk.period
    if first > last:
        return 0, period
    if last < outputs - 1:
        return last + 1, (period - last - 1 + first) if first else outputs - last - 1
    return 0, first
