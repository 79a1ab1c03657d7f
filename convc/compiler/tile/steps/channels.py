"""Steps with a number for each channel: bias and multipliers, and what brings these near."""

from __future__ import annotations

import itertools

from convc.compiler.plan.names import Number, PointerName, SmemName
from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.steps.epilogue import ValueStep
from convc.compiler.tile.steps.spelling import Names, RoleContext, braces, quads


class StageNumbers(Step, frozen=True, kw_only=True):
    """Bring the numbers of a tile's channels to shared memory; every thread brings some, and then all meet.

    Attributes:
        buffer, pitch: where they are, and the numbers from one row to the next.
        channel: number of the tile's first channel.
        tile: the tile that takes them, `rows` rows of `columns`.
        threads: threads of the role.
    """

    buffer: PointerName
    pitch: int
    channel: Number
    tile: SmemName
    rows: int
    columns: int
    threads: int

    def describe(self) -> str:
        rows = f"{self.rows} rows of " if self.rows > 1 else ""
        return f"copy {rows}{self.columns} of {self.buffer} from {self.channel} to {self.tile}"

    def spelling(self, context: RoleContext) -> Names:
        """(byte in the buffer, byte in shared memory, lines that set the guard, guard) of each number of a thread."""
        tile = context.storage.smem_tile(self.tile)
        pieces: list[tuple[int, int, list[str], str]] = []
        for row, first in itertools.product(range(self.rows), range(0, self.columns, self.threads)):
            source = 4 * (row * self.pitch + first)
            target = tile.offset + row * tile.row_bytes + 4 * first
            left = self.columns - first
            test = f"setp.lt.u32 %in, %thread, {left};"
            pieces.append((source, target, [test], "@%in ") if left < self.threads else (source, target, [], ""))
        return {"buffer": self.buffer, "channel": self.channel, "threads": self.threads, "pieces": pieces}


class HoldNumbers(Step, frozen=True, kw_only=True):
    """Bring `columns` numbers of a buffer to registers, one for each channel of a tile, all of them to every thread.

    `channel`: number of the tile's first channel.
    """

    buffer: PointerName
    channel: Number
    columns: int

    def describe(self) -> str:
        return f"hold {self.columns} of {self.buffer} from {self.channel}"

    def spelling(self, context: RoleContext) -> Names:
        """(byte behind the tile's first number, registers) of every four numbers."""
        loads = [(4 * first, braces(_held(first, 4))) for first in range(0, self.columns, 4)]
        return {"buffer": self.buffer, "channel": self.channel, "loads": loads}


class ChannelStep(ValueStep, frozen=True, kw_only=True):
    """A step with a number for each column's channel.

    Attributes:
        buffer, first: the numbers start at number `first` of the buffer.
        channel: number of the channel of the first column.
        staged: where `StageNumbers` has put them, which is where they are read from then: number of the first column,
            and row of the tile; None: they are read from global memory.
    """

    buffer: PointerName
    first: int = 0
    channel: Number | None = None
    staged: tuple[Number, int] | None = None

    @property
    def source(self) -> str:
        """Say where the numbers begin."""
        if self.staged is not None:
            column, row = self.staged
            return f"staged {self.buffer}[{row}, {column}]"
        return f"{self.buffer}[{self.channel} + {self.first}]"

    def _reads(self, context: RoleContext) -> Names:
        """How a number a channel is read, four at a time: from global memory, or where they were staged.

        Shared memory answers so soon that all reads of a chunk go out before the first number is used.
        """
        if self.staged is None:
            address = [f"mul.wide.u32 %from, %{self.channel}, 4;", f"add.u64 %from, %from, %{self.buffer};"]
            return {
                "space": "global.nc",
                "bits": 64,
                "address": address,
                "numbers": 4,
                "quads": quads(self.columns, self.first),
            }
        n = self.columns
        column, row = self.staged
        tile = context.storage.numbers
        assert tile is not None, "numbers are staged in a tile of their own"
        offset = tile.offset + row * tile.row_bytes
        address = [f"mad.lo.u32 %from, %{column}, 4, %smem;"]
        return {"space": "shared", "bits": 32, "address": address, "numbers": n, "quads": quads(n, offset // 4, n)}


class AddBias(ChannelStep, frozen=True, kw_only=True):
    """Add a number a channel to the values; `dtype` is the type of both.

    `held`: number of the first column, which the text knows, where `HoldNumbers` has brought them to registers.
    """

    dtype: str = "f32"
    held: Number | None = None

    def describe(self) -> str:
        if self.held is not None:
            return f"add {self.columns} of held {self.buffer}[{self.held}]"
        if self.staged is None:
            return f"add {self.columns} of {self.buffer} from {self.channel}"
        return f"add {self.columns} of {self.source}"

    def spelling(self, context: RoleContext) -> Names:
        if self.held is None:
            return self._reads(context) | _addition(self.dtype)
        first = context.numbers[self.held]
        assert first.low == first.high, "registers have no number that a kernel works out"
        pairs = list(zip(self.registers, _held(first.low, self.columns), strict=True))
        none: Names = {"space": "", "bits": 32, "address": [], "numbers": 0}
        return none | _addition(self.dtype) | {"quads": [([], pairs)]}


class AddLaneBias(ValueStep, frozen=True, kw_only=True):
    """Add bias[channel] to the values of the lane that has this channel; `dtype` is the type of both."""

    buffer: PointerName
    channel: Number
    dtype: str = "f32"

    def describe(self) -> str:
        return f"add {self.buffer}[{self.channel}]"

    def spelling(self, context: RoleContext) -> Names:
        return {"buffer": self.buffer, "channel": self.channel, "values": self.registers, **_addition(self.dtype)}


class ScaleSums(ChannelStep, frozen=True, kw_only=True):
    """values = values * multiplier[channel + column], float32."""

    def describe(self) -> str:
        return f"times {self.source}"

    def spelling(self, context: RoleContext) -> Names:
        return self._reads(context)


class ScaleLane(ValueStep, frozen=True, kw_only=True):
    """values = values * multiplier of the lane's channel, float32: `ScaleSums` where each column is a pixel.

    Attributes:
        buffer, first: the multipliers start at number `first` of the buffer.
        channel: number of the lane's channel.
    """

    buffer: PointerName
    first: int
    channel: Number

    def describe(self) -> str:
        return f"times {self.buffer}[{self.channel} + {self.first}]"

    def spelling(self, context: RoleContext) -> Names:
        return {"buffer": self.buffer, "channel": self.channel, "values": self.registers, "offset": 4 * self.first}


class Requantise(ChannelStep, frozen=True, kw_only=True):
    """Scale sums to 8 bits: round(float32(values) * multiplier[channel + column]) + zero_point, saturated to s32.

    The values are s32 before and after; the conversion to f32, the product and the rounding are to nearest, ties to
    even (ONNX ``QLinearConv``). `zero_point` stands for 0.
    """

    zero_point: int

    def describe(self) -> str:
        return f"times {self.source} as f32, rounded, plus {self.zero_point}"

    def spelling(self, context: RoleContext) -> Names:
        return self._reads(context) | {"zero_point": self.zero_point}


class RequantiseLane(ValueStep, frozen=True, kw_only=True):
    """Scale sums to 8 bits as `Requantise` does, where the lane has a channel and each column is a pixel.

    Attributes:
        buffer, first: the multipliers, float32, start at number `first` of the buffer.
        channel: number of the lane's channel.
        zero_point: what stands for 0.
    """

    buffer: PointerName
    first: int
    channel: Number
    zero_point: int

    def describe(self) -> str:
        return f"times {self.buffer}[{self.channel} + {self.first}] as f32, rounded, plus {self.zero_point}"

    def spelling(self, context: RoleContext) -> Names:
        return {
            "buffer": self.buffer,
            "channel": self.channel,
            "zero_point": self.zero_point,
            "values": self.registers,
            "offset": 4 * self.first,
        }


def _held(first: int, columns: int) -> list[str]:
    """The registers of the numbers that a thread holds, from a column of the tile on."""
    return [f"%held{first + i}" for i in range(columns)]


def _addition(dtype: str) -> dict[str, str]:
    """How numbers of the sums' type are declared and added."""
    return {"type": dtype, "add": "add.s32" if dtype == "s32" else "add.rn.f32"}
