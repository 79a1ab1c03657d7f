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

import functools
from typing import NamedTuple

import msgspec

from convc.compiler.index.border import BORDERS as BORDERS
from convc.compiler.index.border import Border as Border
from convc.derived.numbers import across
from convc.derived.record import derived
from convc.derived.solved import chosen

BUFFER = "buffer"
HALO = "HALO"
"""What conditions are about that ask something of each buffer."""


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

    @property
    def sizes(self) -> dict[str, int]:
        """The numbers, by the names of sizes in `convc.derive.symbols`."""
        found = {"W": self.width, "Q": self.outputs, "S": self.taps, "pad_w": self.pad}
        return found | across(self.stride, self.dilation)

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


OUTER = "read further on, rows outer, border {border}, contiguous"
"""A form that walks so; what a walk is solved for is the same in those that cut the output otherwise."""


def row_walk(problem: RowProblem, border: Border, form: str = "") -> RowWalk:
    """Solve for the walk: the shortest one, if every filter column meets the image somewhere.

    form: of the schedule, whose nest says what is asked for (`convc.derive.solve`).
    """
    found = _formulas(form or OUTER.format(border=border))
    return _walk(problem, border, _buffers(problem, found.columns), found.lead, found.period)


class _Columns(NamedTuple):
    """What buffers are made of: numbers that are solved for, and formulas, by their places in the record."""

    buffers: int
    last: int
    first_q: int
    last_q: int
    s: int
    lanes: int
    offset: int


class _Formulas(NamedTuple):
    """What a walk is made of; forms have most of it in common, so that walks are found again by it."""

    columns: _Columns
    lead: int
    period: int


@functools.cache
def _formulas(form: str) -> _Formulas:
    record = derived().forms[form]
    numbers = (record.solved[name] for name in ("BUFFERS", "LAST", "FIRST_Q", "LAST_Q"))
    maps = (("s", "s"), ("turned", "lanes"), ("offset", "w"))
    formulas = (dict(record.maps[name].results)[result] for name, result in maps)
    return _Formulas(_Columns(*numbers, *formulas), record.solved["lead"], record.solved["T"])


@functools.lru_cache(maxsize=256)
def _walk(problem: RowProblem, border: Border, buffers: tuple[Buffer, ...], lead: int, period: int) -> RowWalk:
    cases = [{**problem.sizes, BUFFER: number, HALO: buffer.halo} for number, buffer in enumerate(buffers)]
    numbers = derived().numbers
    left = chosen(numbers[lead], *cases)
    length = chosen(numbers[period], *({**case, "lead": left} for case in cases))
    return RowWalk(problem=problem, border=border, lead=left, period=length, buffers=buffers)


@functools.lru_cache(maxsize=256)
def _buffers(problem: RowProblem, columns: _Columns) -> tuple[Buffer, ...]:
    """Filter columns that need the same pixels, in order of their first column."""
    numbers = derived().numbers
    formulas = derived().expressions
    found: list[Buffer] = []
    for buffer in range(chosen(numbers[columns.buffers], problem.sizes)):
        sizes = {**problem.sizes, BUFFER: buffer}
        taps: list[Tap] = []
        for tap in range(chosen(numbers[columns.last], sizes) + 1):
            s = formulas[columns.s].number({**sizes, "tap": tap})
            at = {**sizes, "tap": tap, "s": s}
            inside = chosen(numbers[columns.first_q], at), chosen(numbers[columns.last_q], at)
            lanes = formulas[columns.lanes].number(at)
            taps.append(Tap(s=s, lanes=lanes, inside=inside if inside[0] <= inside[1] else (0, -1)))
        found.append(Buffer(offset=formulas[columns.offset].number(sizes), taps=tuple(taps)))
    return tuple(found)


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
