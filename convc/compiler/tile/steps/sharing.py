"""Steps of schedules that share activations between filter columns (see `convc.compiler.plan.reuse`)."""

from __future__ import annotations

from dataclasses import dataclass

from convc.compiler.tile.steps.base import Multiply, Step

# ---- fetching -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TmaWideLoad(Step):
    """Copy pixels of an image row, and a halo behind them, into the current stage of a tile; the bytes count on `ring`.

    Attributes:
        map, tile, ring, coords: as of `TmaLoad`; the map is im2col_w or im2col_w128.
        halo, offset: wHalo and wOffset.
        halo_each_window: whether every 32 pixels have a halo of their own (im2col_w128).
        at: number with the byte in the tile where the copy begins; None: its start.
    """

    map: str
    tile: str
    ring: str
    coords: tuple[str, ...]
    halo: int
    offset: int
    halo_each_window: bool = False
    at: str | None = None


# ---- masks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskWord(Step):
    """Every warp w writes word w of an entry of the mask table: bit j says whether `value` is not 0 in its thread j.

    Attributes:
        value: number that each thread has.
        entry: number of the entry; the table starts with entry 0 at `first`.
    """

    value: str
    entry: str
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMask(Step):
    """Read entries of the mask table, join them, and keep them in the role's mask registers.

    Attributes:
        entries: (number, first entry of its part of the table) of each.
    """

    entries: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearAcc(Step):
    """Set an accumulator to zero: four warps, each its own 32 lanes."""

    acc: str
    columns: int


# ---- activations in tensor memory -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFill(Step):
    """Copy the 128 rows of the current stage of a tile in shared memory to one in tensor memory, 32 bytes at a time."""

    source: str
    tile: str
    atoms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRows(Step):
    """Every lane of a tile in tensor memory takes what the next one has; the last of 32 keeps what it has."""

    tile: str
    atoms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh(Step):
    """Give the last lane of each sub-partition its row of the halo.

    Attributes:
        source, tile: tiles in shared and in tensor memory.
        halo: number of the halo row; `extra` is added to it.
    """

    source: str
    tile: str
    atoms: int
    halo: str
    extra: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaTensor(Multiply):
    """acc (+)= a @ b.T with `a` in tensor memory; `moves`: its rows move by one lane afterwards (.ashift)."""

    moves: bool


# ---- weights first --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaStationary(Multiply):
    """acc (+)= b @ a.T: `m` output channels in lanes, `n` pixels in columns (tcgen05.mma.ws).

    Attributes:
        shift: column j reads pixel j + shift.
        reach: largest shift of any tap: what the instruction descriptor allows for.
        runs: lengths of the runs of columns that are zeroed and that are used; None: none is zeroed.
        entered: number of the column, counted from the start of the zeroed run, that column 0 is; None as above.
        collector: what happens to the pixels kept in the tensor core: fill, use, lastuse or discard.
    """

    shift: int
    reach: int
    runs: tuple[int, int] | None
    entered: str | None
    collector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddLaneBias(Step):
    """Add bias[channel] to the values of the lane that has this channel; `dtype` is the type of both."""

    buffer: str
    channel: str
    columns: int
    dtype: str = "f32"


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelStore(Step):
    """Write the value of each column to global memory, one by one: neighbouring lanes write neighbouring channels.

    Attributes:
        buffer, out, columns: as of `GlobalStore`.
        rows: number of the output pixel of each column; it is written only below `row_limit` (None: always).
        row_bytes: bytes from one output pixel to the next.
        channel, channel_limit: number of the lane's channel; it is written only below the limit (None: always).
    """

    buffer: str
    out: str
    columns: int
    rows: tuple[str, ...]
    row_limit: int | None
    row_bytes: int
    channel: str
    channel_limit: int | None
