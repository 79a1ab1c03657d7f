"""The meaning of steps on the values that the lanes of the accumulator hold: float32, lane by lane."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from support.interpret.meaning import perform
from support.interpret.state import Array, RoleState, unwritten

from convc.compiler.plan.names import NUMBERS
from convc.compiler.tile.steps.channels import (
    AddBias,
    AddLaneBias,
    ChannelStep,
    HoldNumbers,
    Requantise,
    RequantiseLane,
    ScaleLane,
    ScaleSums,
    StageNumbers,
)
from convc.compiler.tile.steps.epilogue import (
    ApplyClip,
    ApplyLeakyRelu,
    ApplyRelu,
    ApplySigmoid,
    ApplySilu,
    Convert,
    FragmentLoad,
    TmemLoad,
)
from convc.compiler.tile.steps.staged import LineStore, SlabResidual, StageRow, StoreWait, TileStore
from convc.compiler.tile.steps.stores import (
    ADD,
    GlobalStore,
    LaneAccess,
    LaneResidual,
    PixelStore,
    RowAccess,
    RowResidual,
)
from convc.errors import TileError
from convc.ir import dtypes
from convc.ir.tensormap import TensorMap

PIECE_BYTES = 16
"""What a lane reads and writes at once, where it has an output pixel."""

WARP = 32
"""Threads of a warp."""


@perform.register
def _(step: TmemLoad, role: RoleState) -> None:
    first = role.integer(step.first)
    role.values = role.cta.acc[role.key(step.acc)][:, first : first + step.columns]


@perform.register
def _(step: FragmentLoad, role: RoleState) -> None:
    columns = role.each(step.first)[:, None] + np.arange(step.columns)
    role.values = role.cta.acc[role.key(step.acc)][role.each(step.row)[:, None], columns]


# ---- one number a channel --------------------------------------------------------------------------------------------


@perform.register
def _(step: StageNumbers, role: RoleState) -> None:
    rows = role.integer(step.channel) + step.pitch * np.arange(step.rows)[:, None]
    role.cta.stages[step.tile, 0] = role.cta.buffer_of(step.buffer)[rows + np.arange(step.columns)]


@perform.register
def _(step: HoldNumbers, role: RoleState) -> None:
    role.held = role.cta.buffer_of(step.buffer)[role.integer(step.channel) + np.arange(step.columns)]


@perform.register
def _(step: AddBias, role: RoleState) -> None:
    if step.held is None:
        role.values = role.values + _numbers(step, role)
    else:
        role.values = role.values + role.held[role.each(step.held)[:, None] + np.arange(step.columns)]


@perform.register
def _(step: AddLaneBias, role: RoleState) -> None:
    role.values = role.values + role.cta.buffer_of(step.buffer)[role.each(step.channel)][:, None]


@perform.register
def _(step: ScaleSums, role: RoleState) -> None:
    role.values = role.values * _numbers(step, role)


@perform.register
def _(step: ScaleLane, role: RoleState) -> None:
    role.values = role.values * role.cta.buffer_of(step.buffer)[step.first + role.each(step.channel)[:, None]]


@perform.register
def _(step: Requantise, role: RoleState) -> None:
    _requantise(step, role, _numbers(step, role))


@perform.register
def _(step: RequantiseLane, role: RoleState) -> None:
    _requantise(step, role, role.cta.buffer_of(step.buffer)[step.first + role.each(step.channel)[:, None]])


def _numbers(step: ChannelStep, role: RoleState) -> Array:
    """A number for every column of every lane."""
    if step.staged is not None:
        column, row = step.staged
        return role.cta.stages[NUMBERS, 0][row, role.each(column)[:, None] + np.arange(step.columns)]
    assert step.channel is not None, "numbers are staged, or have a channel"
    channels = role.each(step.channel)[:, None] + np.arange(step.columns)
    return role.cta.buffer_of(step.buffer)[step.first + channels]


def _requantise(step: Requantise | RequantiseLane, role: RoleState, multipliers: Array) -> None:
    """Times multipliers, which lie as bits among the numbers of the buffer, in float32."""
    scaled = dtypes.encode(dtypes.S32, role.values).astype(np.float32) * multipliers.view(np.float32)
    role.values = np.clip(np.rint(scaled).astype(np.float64) + step.zero_point, -(2.0**31), 2.0**31 - 1)


# ---- one value at a time ---------------------------------------------------------------------------------------------


@perform.register
def _(step: ApplyRelu, role: RoleState) -> None:
    role.values = np.maximum(_floats(role), np.float32(0))


@perform.register
def _(step: ApplyLeakyRelu, role: RoleState) -> None:
    values = _floats(role)
    role.values = np.where(values < 0, np.float32(step.alpha) * values, values)


@perform.register
def _(step: ApplyClip, role: RoleState) -> None:
    values = _floats(role)
    values = values if step.low is None else np.maximum(values, np.float32(step.low))
    role.values = values if step.high is None else np.minimum(values, np.float32(step.high))


@perform.register
def _(step: ApplySigmoid, role: RoleState) -> None:
    role.values = (1 / _one_plus_exp(_floats(role))).astype(np.float32)


@perform.register
def _(step: ApplySilu, role: RoleState) -> None:
    values = _floats(role)
    role.values = (values / _one_plus_exp(values)).astype(np.float32)


def _one_plus_exp(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """1 + e^-value, infinity where that is beyond float64."""
    with np.errstate(over="ignore"):
        return 1 + np.exp(-values.astype(np.float64))


@perform.register
def _(step: Convert, role: RoleState) -> None:
    role.values = dtypes.encode(dtypes.BY_NAME[step.out], role.values)


def _floats(role: RoleState) -> NDArray[np.float32]:
    return role.values.astype(np.float32)


# ---- where results lie -----------------------------------------------------------------------------------------------


@perform.register
def _(step: RowResidual, role: RoleState) -> None:
    given = role.cta.buffer_of(step.buffer)
    places = _row_start(step, role, given.itemsize)[:, None] + np.arange(step.columns)
    _join(step, role, _gathered(given, places, _row_inside(step, role, 1)))


def _join(step: RowResidual | LaneResidual | SlabResidual, role: RoleState, residual: Array) -> None:
    """Add a residual, or keep the values where it is above zero."""
    values = _floats(role)
    role.values = values + residual if step.use == ADD else np.where(residual > 0, values, np.float32(0))


@perform.register
def _(step: GlobalStore, role: RoleState) -> None:
    """Pieces of 16 bytes, each under its guards."""
    size = dtypes.BY_NAME[step.out].bytes
    piece = PIECE_BYTES // size
    places = _row_start(step, role, size)[:, None] + np.arange(step.columns)
    inside = _row_inside(step, role, piece)
    role.cta.write(
        role.cta.buffer_of(step.buffer), places[inside], dtypes.encode(dtypes.BY_NAME[step.out], role.values)[inside]
    )


@perform.register
def _(step: SlabResidual, role: RoleState) -> None:
    first = 0 if step.chunk is None else role.integer(step.chunk) * step.columns
    slab = role.cta.stages[step.tile, role.integer(step.slab)]
    _join(step, role, slab[:, first : first + step.columns])


@perform.register
def _(step: StageRow, role: RoleState) -> None:
    """A slab is there once its first chunk is; what no chunk wrote is NaN, or 85."""
    storage = role.cta.program.storage.smem_tile(step.tile)
    stored = dtypes.BY_NAME[step.out]
    slab = role.integer(step.slab)
    chunk = 0 if step.chunk is None else role.integer(step.chunk)
    if chunk == 0:
        role.cta.stages[step.tile, slab] = unwritten(stored, (storage.rows, storage.row_bytes // stored.bytes))
    half = 0 if step.half is None else role.each(step.half)[:, None]
    columns = chunk * step.chunk_columns + half * step.columns + np.arange(step.columns)
    role.cta.stages[step.tile, slab][role.each(step.lane)[:, None], columns] = dtypes.encode(stored, role.values)


@perform.register
def _(step: TileStore, role: RoleState) -> None:
    """The box of every warp, as far as it is inside the tensor."""
    target = role.cta.map_of(step.map)
    slab = role.cta.stages[step.tile, role.integer(step.slab)]
    pixel = (role.each(step.coords[1])[::WARP, None] + np.arange(step.rows)).ravel()
    _copied(target, role, slab, role.integer(step.coords[0]), pixel)


@perform.register
def _(step: LineStore, role: RoleState) -> None:
    """The line of every lane, if it is inside the tensor."""
    slab = role.cta.stages[step.tile, role.integer(step.slab)]
    _copied(role.cta.map_of(step.map), role, slab, role.integer(step.channel), role.each(step.pixel))


def _copied(target: TensorMap, role: RoleState, slab: Array, first: int, pixel: NDArray[np.int64]) -> None:
    """Write the rows of a slab to their output pixels, as far as these and the channels are inside the tensor."""
    columns, _ = target.box
    width, height = target.dims
    channel = first + np.arange(columns)
    inside = ((pixel >= 0) & (pixel < height))[:, None] & ((channel >= 0) & (channel < width))
    places = pixel[:, None] * width + channel
    role.cta.write(role.cta.buffers[target.buffer].reshape(-1), places[inside], slab[inside])


@perform.register
def _(step: StoreWait, role: RoleState) -> None:
    """Copies are done at once."""


@perform.register
def _(step: LaneResidual, role: RoleState) -> None:
    given = role.cta.buffer_of(step.buffer)
    _join(step, role, _gathered(given, _lane_places(step, role, given.itemsize), _lane_inside(step, role)))


@perform.register
def _(step: PixelStore, role: RoleState) -> None:
    places = _lane_places(step, role, dtypes.BY_NAME[step.out].bytes)
    inside = _lane_inside(step, role)
    role.cta.write(
        role.cta.buffer_of(step.buffer), places[inside], dtypes.encode(dtypes.BY_NAME[step.out], role.values)[inside]
    )


def _row_start(step: RowAccess, role: RoleState, size: int) -> NDArray[np.int64]:
    """The element at which each lane begins, (lanes,)."""
    at = role.each(step.at)
    if (at % PIECE_BYTES).any():
        raise TileError(f"{step.id} is not aligned to {PIECE_BYTES} bytes")
    return at // size


def _row_inside(step: RowAccess, role: RoleState, piece: int) -> NDArray[np.bool_]:
    """Which values (lanes, columns) are accessed; a guard on channels looks at the first of a piece."""
    first = np.arange(step.columns) // piece * piece
    row = role.each(step.row)[:, None]
    channel = role.each(step.channel)[:, None] + first
    return _below(row, step.row_limit) & _below(channel, step.channel_limit)


def _lane_places(step: LaneAccess, role: RoleState, size: int) -> NDArray[np.int64]:
    """The element of each lane and column."""
    rows = np.array(role.integers(step.rows))
    return rows * (step.row_bytes // size) + role.each(step.channel)[:, None]


def _lane_inside(step: LaneAccess, role: RoleState) -> NDArray[np.bool_]:
    """Which values (lanes, columns) are accessed."""
    rows = np.array(role.integers(step.rows))
    return _below(rows, step.row_limit) & _below(role.each(step.channel)[:, None], step.channel_limit)


def _below(number: NDArray[np.int64], limit: int | None) -> NDArray[np.bool_]:
    """Where a number is below a limit; everywhere without one."""
    return np.ones(number.shape, bool) if limit is None else number < limit


def _gathered(buffer: Array, places: NDArray[np.int64], inside: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Elements of a buffer as float32, 0 where not inside."""
    found = np.zeros(places.shape, np.float32)
    found[inside] = buffer[places[inside]].astype(np.float32)
    return found
