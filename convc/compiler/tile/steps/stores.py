"""Steps on rows and pixels of global memory: where a lane stores results, and where it reads a residual.

A lane that has an output pixel moves 16 bytes of channels at a time, one that has a channel moves one pixel at a time;
either way a piece is guarded by its row, by its channel, by both, or by nothing, as the plan left it.
"""

from __future__ import annotations

import itertools
from typing import Literal

from convc.compiler.plan.names import Number, PointerName
from convc.compiler.tile.steps.epilogue import ValueStep
from convc.compiler.tile.steps.spelling import Names, RoleContext, braces
from convc.ir import dtypes

Use = Literal["add", "mask by"]
ADD: Use = "add"
MASK: Use = "mask by"
"""A residual is added, or values become zero where it is not above zero."""

PIECE_BYTES = 16
"""Bytes that one lane moves with one instruction."""


class RowAccess(ValueStep, frozen=True, kw_only=True):
    """A step on rows of global memory, where a lane has an output pixel: 16 bytes at a time.

    Attributes:
        buffer: where from, or where to.
        at: number with the byte offset of the first value.
        out: type name of the values in memory.
        row, row_limit: the row counts only where the number `row` is below the limit; None: always.
        channel, channel_limit: a 16-byte piece counts only where its first channel is below the limit; None: always.
    """

    buffer: PointerName
    at: Number
    out: str
    row: Number
    row_limit: int | None
    channel: Number
    channel_limit: int | None

    @property
    def guards(self) -> str:
        """The conditions in words, behind what they guard."""
        limits = ((self.row, self.row_limit), (self.channel, self.channel_limit))
        tests = [f"{name} < {limit}" for name, limit in limits if limit is not None]
        return f" where {' and '.join(tests)}" if tests else ""

    def _pieces(self) -> list[tuple[str, str, int]]:
        """(test, guard, byte offset) of each 16 bytes of the lane's row; the test is "" where the guard needs none."""
        per_piece = PIECE_BYTES // dtypes.BY_NAME[self.out].bytes
        row = self.row_limit is not None
        pieces: list[tuple[str, str, int]] = []
        for index in range(self.columns // per_piece):
            test = ""
            guard = "@%row_in " if row else ""
            if self.channel_limit is not None:
                limit = self.channel_limit - per_piece * index
                both, also = (".and", ", %row_in") if row else ("", "")
                test = f"setp.lt{both}.s32 %in, %{self.channel}, {limit}{also};"
                guard = "@%in "
            pieces.append((test, guard, PIECE_BYTES * index))
        return pieces

    def _names(self, bits: int) -> Names:
        """The names that templates around pieces of a row take; `bits` is the width of the row's number."""
        return {
            "buffer": self.buffer,
            "at": self.at,
            "row": self.row,
            "row_bits": bits,
            "row_guarded": self.row_limit is not None,
            "row_limit": self.row_limit or 0,
            "channel_guarded": self.channel_limit is not None,
        }


class RowResidual(RowAccess, frozen=True, kw_only=True):
    """Join the residual of this lane's output pixel; where nothing would be stored none is read, and it counts as zero.

    Attributes:
        use: what is done with it.
        in_place: whether results may be written to the same buffer.
    """

    use: Use
    in_place: bool

    def describe(self) -> str:
        return f"{self.use} {self.columns} values of {self.buffer} + {self.at}{self.guards}"

    def spelling(self, context: RoleContext) -> Names:
        """Sixteen bytes a piece, each with the registers that take them, and what is done with those.

        ``.nc`` is for what is not written while the kernel runs (PTX manual, "ld.global.nc").
        """
        per_piece = PIECE_BYTES // dtypes.BY_NAME[self.out].bytes
        words = [f"%res{i}" for i in range(4)]
        pieces = [
            (*piece, braces(words), joined(self.use, self.out, words, per_piece * index))
            for index, piece in enumerate(self._pieces())
        ]
        return self._names(context.numbers[self.row].bits) | {
            "guarded": self.row_limit is not None or self.channel_limit is not None,
            "packed": self.out != "f32",
            "masks": self.use == MASK,
            "words": words,
            "pieces": pieces,
            "constant": "" if context.dependent or self.in_place else ".nc",
        }


class GlobalStore(RowAccess, frozen=True, kw_only=True):
    """Write the packed values of this lane's row to global memory."""

    def describe(self) -> str:
        return f"write {self.columns} values to {self.buffer} + {self.at}{self.guards}"

    def spelling(self, context: RoleContext) -> Names:
        """Sixteen bytes a piece, each with the registers that hold them."""
        register = "v" if dtypes.BY_NAME[self.out].bits == 32 else "h"
        words = (braces(f"%{register}{4 * index + word}" for word in range(4)) for index in itertools.count())
        return self._names(context.numbers[self.row].bits) | {
            "pieces": [(*piece, held) for piece, held in zip(self._pieces(), words, strict=False)]
        }


class LaneAccess(ValueStep, frozen=True, kw_only=True):
    """A step on pixels of global memory, where a lane has a channel.

    Neighbouring lanes access neighbouring channels, one output pixel a column.

    Attributes:
        buffer, out: where from or to, and the type name of the values there.
        rows: number of the output pixel of each column; it counts only below `row_limit` (None: always).
        row_bytes: bytes from one output pixel to the next.
        channel, channel_limit: number of the lane's channel; it counts only below the limit (None: always).
    """

    buffer: PointerName
    out: str
    rows: tuple[Number, ...]
    row_limit: int | None
    row_bytes: int
    channel: Number
    channel_limit: int | None

    def _pieces(self, bits: int) -> list[tuple[str, str, str]]:
        """(number of the row, test, guard) of each column; the numbers are `bits` wide."""
        guard = ""
        if self.row_limit is not None:
            guard = "@%in "
        elif self.channel_limit is not None:
            guard = "@%channel_in "
        pieces: list[tuple[str, str, str]] = []
        for name in self.rows:
            both = f", %{name}, {self.row_limit}"
            test = f"setp.lt.s{bits} %in{both};"
            if self.channel_limit is not None:
                test = f"setp.lt.and.s{bits} %in{both}, %channel_in;"
            pieces.append((name, test, guard))
        return pieces

    def _names(self, bits: int) -> Names:
        """The names that templates around elements of a lane take; `bits` is the width of the rows' numbers."""
        element = dtypes.BY_NAME[self.out].bytes
        return {
            "buffer": self.buffer,
            "packed": element < 4,
            "bits": 8 * element,
            "element_bytes": element,
            "row_bytes": self.row_bytes,
            "row_product": "mul.wide.s32" if bits == 32 else "mul.lo.s64",
            "k": self.channel,
            "channel_guarded": self.channel_limit is not None,
            "channel_limit": self.channel_limit or 0,
            "row_guarded": self.row_limit is not None,
        }

    def _row_bits(self, context: RoleContext) -> int:
        """Width of the numbers of the columns' output pixels."""
        return max(context.numbers[row].bits for row in self.rows)


class LaneResidual(LaneAccess, frozen=True, kw_only=True):
    """Join the residual of this lane's channel; attributes and edges as of `RowResidual`."""

    use: Use
    in_place: bool

    def describe(self) -> str:
        return f"{self.use} {self.columns} values of {self.buffer}, one a pixel"

    def spelling(self, context: RoleContext) -> Names:
        """One value a column."""
        names = self._names(self._row_bits(context))
        return names | {
            "type": self.out,
            "guarded": self.row_limit is not None or self.channel_limit is not None,
            "read": "%half" if names["packed"] else "%wide",
            "constant": "" if context.dependent or self.in_place else ".nc",
            "masks": self.use == MASK,
            "pieces": [
                (*piece, _joined(self.use, f"%v{index}", "%wide"))
                for index, piece in enumerate(self._pieces(self._row_bits(context)))
            ],
        }


class PixelStore(LaneAccess, frozen=True, kw_only=True):
    """Write the value of each column to global memory, one by one."""

    def describe(self) -> str:
        return f"write {self.columns} values to {self.buffer}, one a pixel"

    def spelling(self, context: RoleContext) -> Names:
        """One value a column, converted where it is not stored as it is."""
        stored = dtypes.BY_NAME[self.out]
        conversion = f"cvt.sat.{self.out}.s32" if stored.integer else f"cvt.rn.{self.out}.f32"
        pieces = [
            (*piece, f"{conversion} %half, %v{index};", f"%v{index}" if stored.bits == 32 else "%half")
            for index, piece in enumerate(self._pieces(self._row_bits(context)))
        ]
        return self._names(self._row_bits(context)) | {"pieces": pieces}


def joined(use: Use, out: str, words: list[str], first: int) -> list[str]:
    """The lines that join words of residual with the values from a column on."""
    lines: list[str] = []
    if out == "f32":
        for i, word in enumerate(words):
            lines += _joined(use, f"%v{first + i}", word)
        return lines
    for i, word in enumerate(words):
        lines.append(f"mov.b32 {{%low, %high}}, {word};")
        for half, value in (("%low", f"%v{first + 2 * i}"), ("%high", f"%v{first + 2 * i + 1}")):
            lines += [f"cvt.f32.{out} %wide, {half};", *_joined(use, value, "%wide")]
    return lines


def _joined(use: Use, value: str, other: str) -> list[str]:
    """The lines that join a value with a float32 number of the residual."""
    if use == ADD:
        return [f"add.rn.f32 {value}, {value}, {other};"]
    return [f"setp.gt.f32 %above, {other}, 0f00000000;", f"selp.f32 {value}, {value}, 0f00000000, %above;"]
