"""Steps on the values that the lanes of the accumulator hold: read, finish (`convc.ir.epilogue`), round, store.

A lane has one output pixel and its columns are channels, or it has one output channel and its columns are pixels
(schedule stationary). Steps that look at one value at a time serve both; bias, multipliers, residual and store come in
two kinds.
"""

from __future__ import annotations

from convc.compiler.plan.names import Number, PointerName, SmemName, TmemName
from convc.compiler.tile.steps.base import Step


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


class HoldNumbers(Step, frozen=True, kw_only=True):
    """Bring `columns` numbers of a buffer to registers, one for each channel of a tile, all of them to every thread.

    `channel`: number of the tile's first channel.
    """

    buffer: PointerName
    channel: Number
    columns: int

    def describe(self) -> str:
        return f"hold {self.columns} of {self.buffer} from {self.channel}"


class ValueStep(Step, frozen=True, kw_only=True):
    """A step on the values of a lane: `columns` of the accumulator."""

    columns: int


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


class AddLaneBias(ValueStep, frozen=True, kw_only=True):
    """Add bias[channel] to the values of the lane that has this channel; `dtype` is the type of both."""

    buffer: PointerName
    channel: Number
    dtype: str = "f32"

    def describe(self) -> str:
        return f"add {self.buffer}[{self.channel}]"


class ScaleSums(ChannelStep, frozen=True, kw_only=True):
    """values = values * multiplier[channel + column], float32."""

    def describe(self) -> str:
        return f"times {self.source}"


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


class Requantise(ChannelStep, frozen=True, kw_only=True):
    """Scale sums to 8 bits: round(float32(values) * multiplier[channel + column]) + zero_point, saturated to s32.

    The values are s32 before and after; the conversion to f32, the product and the rounding are to nearest, ties to
    even (ONNX ``QLinearConv``). `zero_point` stands for 0.
    """

    zero_point: int

    def describe(self) -> str:
        return f"times {self.source} as f32, rounded, plus {self.zero_point}"


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


class ApplyRelu(ValueStep, frozen=True, kw_only=True):
    """value = max(value, 0); NaN stays."""

    def describe(self) -> str:
        return "max with 0"


class ApplyLeakyRelu(ValueStep, frozen=True, kw_only=True):
    """value = alpha * value where it is negative."""

    alpha: float

    def describe(self) -> str:
        return f"times {self.alpha:g} where negative"


class ApplyClip(ValueStep, frozen=True, kw_only=True):
    """value = min(max(value, low), high); None: no bound; NaN stays."""

    low: float | None
    high: float | None

    def describe(self) -> str:
        bounds = (("max", self.low), ("min", self.high))
        return ", ".join(f"{word} with {bound:g}" for word, bound in bounds if bound is not None) or "no bounds"


class ApplySigmoid(ValueStep, frozen=True, kw_only=True):
    """value = 1 / (1 + 2^(-value * log2 e)), with the approximate functions of the hardware."""

    def describe(self) -> str:
        return "1 / (1 + 2^(-value * log2 e))"


class ApplySilu(ValueStep, frozen=True, kw_only=True):
    """value = value / (1 + 2^(-value * log2 e)), with the approximate functions of the hardware."""

    def describe(self) -> str:
        return "value / (1 + 2^(-value * log2 e))"


class Convert(ValueStep, frozen=True, kw_only=True):
    """Round the values to the output type (whole numbers: the nearest it has) and pack them into 32-bit words."""

    out: str

    def describe(self) -> str:
        return f"round to {self.out}"


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


class AddRowResidual(RowAccess, frozen=True, kw_only=True):
    """Add the residual of this lane's output pixel; where nothing would be stored none is read, and zero is added."""

    def describe(self) -> str:
        return f"add {self.columns} values of {self.buffer} + {self.at}{self.guards}"


class GlobalStore(RowAccess, frozen=True, kw_only=True):
    """Write the packed values of this lane's row to global memory."""

    def describe(self) -> str:
        return f"write {self.columns} values to {self.buffer} + {self.at}{self.guards}"


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


class AddLaneResidual(LaneAccess, frozen=True, kw_only=True):
    """Add the residual of this lane's channel; where nothing would be stored nothing is read, and zero is added."""

    def describe(self) -> str:
        return f"add {self.columns} values of {self.buffer}, one a pixel"


class PixelStore(LaneAccess, frozen=True, kw_only=True):
    """Write the value of each column to global memory, one by one."""

    def describe(self) -> str:
        return f"write {self.columns} values to {self.buffer}, one a pixel"
