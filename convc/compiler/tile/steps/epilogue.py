"""Steps on the values that the lanes of the accumulator hold: read, finish (`convc.ir.epilogue`), round.

A lane has one output pixel and its columns are channels, or it has one output channel and its columns are pixels
(schedule stationary). Steps that look at one value at a time serve both; bias, multipliers, residual and store come in
two kinds (`convc.compiler.tile.steps.channels`, `convc.compiler.tile.steps.stores`).
"""

from __future__ import annotations

import math
import struct

from convc.compiler.plan.names import Number, TmemName
from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.steps.spelling import Names, RoleContext, acc_address, register_rows, values_per_word


class ValueStep(Step, frozen=True, kw_only=True):
    """A step on the values of a lane: `columns` of the accumulator."""

    columns: int

    @property
    def registers(self) -> list[str]:
        """The registers of the lane's values."""
        return [f"%v{i}" for i in range(self.columns)]


class ReadValues(ValueStep, frozen=True, kw_only=True):
    """Bring `columns` columns to the lanes' registers, from the column `first` on."""

    first: Number


class ReadAcc(ReadValues, frozen=True, kw_only=True):
    """Read `columns` columns of the accumulator from the column `first` on."""

    acc: TmemName

    @property
    def read(self) -> int:
        """Columns of the accumulator that all lanes together read."""
        return self.columns


class TmemLoad(ReadAcc, frozen=True, kw_only=True):
    """Read `columns` columns of the accumulator from the column `first` on; every lane gets its own row."""

    def describe(self) -> str:
        return f"read {self.columns} columns of {self.acc} from column {self.first}"

    def spelling(self, context: RoleContext) -> Names:
        return {
            "acc_address": acc_address(context.storage.tmem_tile(self.acc)),
            "first": self.first,
            "columns": self.columns,
            "values": register_rows(self.registers),
        }


class FragmentLoad(ReadAcc, frozen=True, kw_only=True):
    """Gather `columns` columns of one row of the accumulator, which lies in registers of several lanes.

    Lane 4 * i + q of a warp has rows i and i + 8 of the warp's 16, of every 8 columns the two from 2 * q on (PTX
    manual, wgmma register fragments). Four lanes trade theirs so that lanes q = 0 and 1 have row i, 2 and 3 row i + 8,
    and each has `columns` neighbouring columns of 2 * `columns`.

    Attributes:
        chunk: number of the 2 * `columns` columns; the loop of it is written out.
        row: number of the row that the lane gets.
        slab: where chunks count from the start of a slab, its number; the loop of it is written out too.
        slab_chunks: chunks of a slab.
    """

    chunk: Number
    row: Number
    slab: Number | None = None
    slab_chunks: int = 0

    @property
    def read(self) -> int:
        """Two halves."""
        return 2 * self.columns

    def describe(self) -> str:
        return f"gather {self.columns} columns of {self.acc} from column {self.first}, row {self.row}"

    def spelling(self, context: RoleContext) -> Names:
        """Four lanes trade pairs of columns: of every 8 columns lane q has two of both its rows, and gets 8 of one row.

        A transposition of 4 x 4 pairs: first lanes q and q ^ 1 trade, then q and q ^ 2. Slot s of a lane is what lane s
        of the four is to get: row i + 8 * (s // 2), and of the chunk's columns its half s % 2.
        """
        eights = self.columns // 8
        chunk = context.unrolled[self.chunk]
        if self.slab is not None:
            chunk += context.unrolled[self.slab] * self.slab_chunks
        first = chunk * 2 * eights
        lines: list[str] = []
        for eight in range(eights):
            own = [4 * (first + eights * (s % 2) + eight) + 2 * (s // 2) for s in range(4)]
            for e in range(2):
                slots = [f"%d{register + e}" for register in own]
                turned = [f"%turned{s}" for s in range(4)]
                values = [f"%v{8 * eight + 2 * s + e}" for s in range(4)]
                for low, high in ((0, 1), (2, 3)):
                    lines += _trade(slots, turned, low, high, 1)
                for low, high in ((0, 2), (1, 3)):
                    lines += _trade(turned, values, low, high, 2)
        return {"lines": lines}


class ApplyRelu(ValueStep, frozen=True, kw_only=True):
    """value = max(value, 0); NaN stays."""

    def describe(self) -> str:
        return "max with 0"

    def spelling(self, context: RoleContext) -> Names:
        return {"values": self.registers}


class ApplyLeakyRelu(ValueStep, frozen=True, kw_only=True):
    """value = alpha * value where it is negative."""

    alpha: float

    def describe(self) -> str:
        return f"times {self.alpha:g} where negative"

    def spelling(self, context: RoleContext) -> Names:
        return {"values": self.registers, "alpha": float_literal(self.alpha)}


class ApplyClip(ValueStep, frozen=True, kw_only=True):
    """value = min(max(value, low), high); None: no bound; NaN stays."""

    low: float | None
    high: float | None

    def describe(self) -> str:
        bounds = (("max", self.low), ("min", self.high))
        return ", ".join(f"{word} with {bound:g}" for word, bound in bounds if bound is not None) or "no bounds"

    def spelling(self, context: RoleContext) -> Names:
        return {
            "values": self.registers,
            "low_bound": self.low is not None,
            "high_bound": self.high is not None,
            "low": float_literal(self.low or 0.0),
            "high": float_literal(self.high or 0.0),
        }


class ExponentialStep(ValueStep, frozen=True, kw_only=True):
    """A step with 2^(-value * log2 e)."""

    def spelling(self, context: RoleContext) -> Names:
        return {"values": self.registers, "minus_log2_e": float_literal(-math.log2(math.e))}


class ApplySigmoid(ExponentialStep, frozen=True, kw_only=True):
    """value = 1 / (1 + 2^(-value * log2 e)), with the approximate functions of the hardware."""

    def describe(self) -> str:
        return "1 / (1 + 2^(-value * log2 e))"


class ApplySilu(ExponentialStep, frozen=True, kw_only=True):
    """value = value / (1 + 2^(-value * log2 e)), with the approximate functions of the hardware."""

    def describe(self) -> str:
        return "value / (1 + 2^(-value * log2 e))"


class Convert(ValueStep, frozen=True, kw_only=True):
    """Round the values to the output type (whole numbers: the nearest it has) and pack them into 32-bit words."""

    out: str

    def describe(self) -> str:
        return f"round to {self.out}"

    def spelling(self, context: RoleContext) -> Names:
        """The words, each with its instructions, high values first."""
        per_word = values_per_word(self.out)
        lines: list[str] = []
        for word, first in enumerate(range(0, self.columns, per_word)):
            to = f"%h{word}"
            if per_word == 2:
                lines.append(f"cvt.rn.{self.out}x2.f32 {to}, %v{first + 1}, %v{first};")
            else:
                lines.append(f"cvt.pack.sat.{self.out}.s32.b32 {to}, %v{first + 3}, %v{first + 2}, 0;")
                lines.append(f"cvt.pack.sat.{self.out}.s32.b32 {to}, %v{first + 1}, %v{first}, {to};")
        return {"lines": lines}


def _trade(have: list[str], get: list[str], low: int, high: int, distance: int) -> list[str]:
    """Lines in which lanes some distance apart trade: the lower one gives its slot `high` for the other's `low`."""
    upper = {1: "%odd", 2: "%upper"}[distance]
    return [
        f"selp.b32 %give, {have[low]}, {have[high]}, {upper};",
        f"selp.b32 %keep, {have[high]}, {have[low]}, {upper};",
        f"shfl.sync.bfly.b32 %got, %give, {distance}, 31, 0xffffffff;",
        f"selp.b32 {get[low]}, %got, %keep, {upper};",
        f"selp.b32 {get[high]}, %keep, %got, {upper};",
    ]


def float_literal(value: float) -> str:
    """A float32 number as PTX writes it: ``0f`` and its bits."""
    return f"0f{struct.unpack('<I', struct.pack('<f', value))[0]:08X}"
