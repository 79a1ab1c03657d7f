"""The middle witness: runs a tile program on whole tiles in numpy, and knows nothing of PTX.

Between the plan and the text there is a schedule: roles, rings, steps. This interpreter gives every step the meaning
its docstring states, with a CTA's roles as coroutines that hand over at ring waits. If it agrees with the reference and
the machine does not, the fault is in a template or in the machine; if it disagrees, in the plan or the schedule.

Stages, accumulators and the output start as NaN (an output of whole numbers: as 85), and a stage becomes NaN again when
it is given back. Sums of whole numbers are float64, which holds them exactly; they wrap when something reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from support.epilogue_oracle import finished
from support.scaled_oracle import scaled_numbers

from convc.compiler.tile.steps.base import (
    AddBias,
    Advance,
    Commit,
    Compute,
    Convert,
    CtaSync,
    ExpectBytes,
    GlobalStore,
    InitRings,
    Loop,
    Mma,
    Multiply,
    PrefetchMaps,
    RingWait,
    Role,
    Step,
    TileProgram,
    TmaLoad,
    TmemAlloc,
    TmemBase,
    TmemLoad,
)
from convc.compiler.tile.steps.quantise import Requantise, RequantiseLane
from convc.compiler.tile.steps.scaled import Arrive, CarryFactors, MmaScaled, ScaleSums
from convc.compiler.tile.steps.sharing import (
    AddLaneBias,
    ClearAcc,
    LoadMask,
    MaskWord,
    MmaStationary,
    MmaTensor,
    MoveRows,
    PixelStore,
    Refresh,
    TensorFill,
    TmaWideLoad,
)
from convc.ir import dtypes
from convc.ir.expr import evaluate
from convc.ir.tensormap import TensorMap

FRAME = (InitRings, PrefetchMaps, TmemAlloc, TmemBase, CtaSync)
"""Steps of the set-up that have no meaning on whole tiles."""

PIECE_BYTES = 16


@dataclass
class Barrier:
    """An mbarrier: completed phases, arrivals and bytes that the running phase still misses."""

    arrivals: int
    phases: int = 0
    pending: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        self.pending = self.arrivals

    def settle(self) -> None:
        """Complete the phase if nothing is missing."""
        if self.pending == 0 and self.bytes == 0:
            self.phases += 1
            self.pending = self.arrivals

    def passed(self, parity: int) -> bool:
        """Whether the phase of that parity has completed; the phase before the first one has."""
        return self.phases % 2 != parity


@dataclass
class Cta:
    """State of one CTA while its roles run."""

    program: TileProgram
    buffers: dict[str, np.ndarray]
    written: np.ndarray
    tile_m: int
    tile_n: int
    barriers: dict[tuple[str, int], Barrier] = field(default_factory=dict)
    stages: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    acc: dict[str, np.ndarray] = field(default_factory=dict)
    masks: dict[int, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        storage = self.program.storage
        for ring in storage.rings:
            self.barriers |= {(ring.name, stage): Barrier(ring.arrivals) for stage in range(ring.stages)}
        for tile in storage.tmem:
            sums = np.float64 if self.program.launch.buffers["bias"].dtype == "s32" else np.float32
            self.acc[tile.name] = np.full((tile.lanes, tile.columns), np.nan, sums)

    def map_of(self, name: str) -> TensorMap:
        """The tensor map of a parameter."""
        return self.program.launch.params[self.program.params.index(name)].map

    def buffer_of(self, name: str) -> np.ndarray:
        """The buffer that a pointer parameter points at, flat."""
        return self.buffers[self.program.launch.params[self.program.params.index(name)].buffer]


def run_program(program: TileProgram, buffers: dict[str, np.ndarray]) -> np.ndarray:
    """Run every CTA; returns the output buffer, in its storage type, NaN where nothing was written.

    Args:
        buffers: packed activation, filter and bias.

    Raises:
        AssertionError: a deadlock, a start outside the im2col box, bytes that do not add up, an element written twice.
    """
    spec = program.launch.buffers["output"]
    stored = dtypes.BY_NAME[spec.dtype]
    output = np.full(int(np.prod(spec.shape)), 85 if stored.integer else np.nan, stored.storage)
    written = np.zeros(output.shape, bool)
    for tile_n in range(program.launch.grid[1]):
        for tile_m in range(program.launch.grid[0]):
            _run_cta(Cta(program, {**buffers, "output": output}, written, tile_m, tile_n))
    return output.reshape(spec.shape)


def _run_cta(cta: Cta) -> None:
    for role in cta.program.setup:
        assert list(Actor(cta, role).go(role.steps)) == [], "the set-up waits"
    running = [Actor(cta, role).go(role.steps) for role in cta.program.roles]
    while running:
        state = [(b.phases, b.pending, b.bytes) for b in cta.barriers.values()]
        left = [role for role in running if _advance(role)]
        moved = len(left) < len(running) or state != [(b.phases, b.pending, b.bytes) for b in cta.barriers.values()]
        assert moved, "deadlock: every role waits"
        running = left


def _advance(role: Iterator[None]) -> bool:
    """Run a role to its next wait; False when it has ended."""
    return next(role, StopIteration) is not StopIteration


class Actor:
    """One role of one CTA."""

    def __init__(self, cta: Cta, role: Role) -> None:
        self.cta = cta
        self.rings = {ring.name: ring for ring in cta.program.storage.rings}
        self.cursors = {tile.name: tile.cursor for tile in (*cta.program.storage.smem, *cta.program.storage.tmem)} | {
            ring.name: ring.cursor for ring in self.rings.values()
        }
        self.stages: dict[str, int] = {}
        self.phases: dict[str, int] = {}
        self.mask = np.zeros(128, bool)
        lanes = 1 if role.elected else 32 * (role.last_warp - role.first_warp + 1)
        thread = 32 * role.first_warp + np.arange(lanes)
        self.numbers = {"tile_m": cta.tile_m, "tile_n": cta.tile_n, "thread": thread, "warp": thread // 32}
        self.values = np.zeros((lanes, 0), np.float32)

    def stage(self, name: str) -> int:
        """The role's stage of a ring or a tile."""
        return self.stages.get(self.cursors[name], 0)

    def tile(self, name: str) -> np.ndarray:
        """The current stage of a tile."""
        return self.cta.stages[name, self.stage(name)]

    def barrier(self, ring: str) -> Barrier:
        """The current barrier of a ring."""
        return self.cta.barriers[ring, self.stage(ring)]

    def go(self, steps: tuple[Step, ...]) -> Iterator[None]:
        """Do the steps; yields while it has to wait."""
        for step in steps:
            match step:
                case Loop(var=var, count=count, body=body):
                    for self.numbers[var] in range(count):
                        yield from self.go(body)
                case RingWait(ring=ring, fresh=fresh):
                    barrier, phase = self.barrier(ring), self.phases.get(self.cursors[ring], 0)
                    while not barrier.passed(phase ^ fresh):
                        yield
                case _:
                    self.act(step)

    def act(self, step: Step) -> None:
        """A step that never waits."""
        cta = self.cta
        match step:
            case Compute(dst=dst, expr=expr):
                self.numbers[dst] = evaluate(expr, self.numbers)
            case Advance(stages=stages, cursor=cursor):
                self.stages[cursor] = (self.stages.get(cursor, 0) + 1) % stages
                if self.stages[cursor] == 0:
                    self.phases[cursor] = self.phases.get(cursor, 0) ^ 1
            case ExpectBytes(ring=ring, bytes=size):
                barrier = self.barrier(ring)
                barrier.bytes += size
                barrier.pending -= 1
                barrier.settle()
            case Commit(ring=ring):
                if self.rings[ring].consumer == "load":
                    for tile in cta.program.storage.smem:
                        if tile.cursor == self.cursors[ring]:
                            cta.stages[tile.name, self.stage(ring)] *= np.nan
                barrier = cta.barriers[ring, 0 if ring == "done" else self.stage(ring)]
                barrier.pending -= 1
                barrier.settle()
            case TmaLoad():
                self.copy(step)
            case Mma(acc=acc, a=a, b=b, m=m, row=row):
                first = 0 if row is None else int(self.numbers[row])
                self.accumulate(step, acc, self.tile(a)[first : first + m] @ self.tile(b).T)
            case TmemLoad(acc=acc, first=first, columns=columns):
                start = self.numbers[first]
                self.values = cta.acc[acc][:, start : start + columns]
            case AddBias(buffer=buffer, channel=channel, columns=columns):
                start = self.numbers[channel]
                self.values = self.values + cta.buffer_of(buffer).reshape(-1)[start : start + columns]
            case ScaleSums(buffer=buffer, channel=channel, columns=columns):
                start = step.first + self.numbers[channel]
                self.values = self.values * cta.buffer_of(buffer).reshape(-1)[start : start + columns]
            case CarryFactors(source=source, tile=tile, first=first, rows=rows, words=words):
                start = int(self.numbers[first])
                carried = self.tile(source)[:rows, start : start + 4 * words].copy()
                cta.stages[tile, self.stage(tile)] = carried
            case Arrive(ring=ring):
                barrier = self.barrier(ring)
                barrier.pending -= len(self.numbers["thread"])
                barrier.settle()
            case MmaScaled(acc=acc, a=a, b=b):
                left, right = (
                    scaled_numbers(step, self.tile(tile), self.tile(factors))
                    for tile, factors in ((a, step.factors_a), (b, step.factors_b))
                )
                self.accumulate(step, acc, left @ right.T)
            case Convert(out=out):
                self.values = dtypes.encode(dtypes.BY_NAME[out], self.values)
            case Requantise(channel=channel, columns=columns):
                start = step.first + self.numbers[channel]
                self.requantise(step, start + np.arange(columns))
            case GlobalStore():
                self.store(step)
            case _ if isinstance(step, FRAME):
                pass
            case _:
                self.share(step)

    def share(self, step: Step) -> None:
        """The steps of schedules that share activations between filter columns."""
        cta = self.cta
        match step:
            case TmaWideLoad():
                self.copy(step)
            case MaskWord(value=value, entry=entry, first=first):
                cta.masks[first + self.numbers[entry]] = np.broadcast_to(np.asarray(self.numbers[value]), 128) != 0
            case LoadMask(entries=entries):
                self.mask = np.any([cta.masks[first + int(self.numbers[name])] for name, first in entries], axis=0)
            case ClearAcc(acc=acc):
                cta.acc[acc][:] = 0
            case TensorFill(source=source, tile=tile):
                cta.stages[tile, self.stage(tile)] = self.tile(source)[:128].copy()
            case MoveRows(tile=tile):
                move_up(self.tile(tile))
            case Refresh(source=source, tile=tile, halo=halo, extra=extra):
                first = 128 + 4 * (int(self.numbers[halo]) + extra)
                self.tile(tile)[31::32] = self.tile(source)[first : first + 4]
            case MmaTensor(acc=acc, a=a, b=b, moves=moves):
                self.accumulate(step, acc, self.tile(a) @ self.tile(b).T)
                if moves:
                    move_up(self.tile(a))
            case MmaStationary(acc=acc, a=a, b=b, n=n, shift=shift, runs=runs, entered=entered):
                pixels = self.tile(a)[shift : shift + n].copy()
                if runs is not None:
                    pixels[(np.arange(n) + int(self.numbers[entered])) % sum(runs) < runs[0]] = 0
                self.accumulate(step, acc, self.tile(b) @ pixels.T)
            case AddLaneBias(buffer=buffer, channel=channel):
                self.values = self.values + cta.buffer_of(buffer).reshape(-1)[self.numbers[channel]][:, None]
            case RequantiseLane(channel=channel):
                self.requantise(step, step.first + self.numbers[channel][:, None])
            case PixelStore():
                self.scatter(step)
            case _:
                self.values = finished(step, self.values.astype(np.float32), self.numbers, self.cta.buffer_of)

    def accumulate(self, step: Multiply, acc: str, product: np.ndarray) -> None:
        """Add to the accumulator, or overwrite it; masked lanes stay as they are."""
        old = self.cta.acc[acc]
        product = product.astype(old.dtype, copy=False)  # whole numbers: exact in float32 for one stage, not for all
        new = product if step.counter is not None and self.numbers[step.counter] == 0 else old + product
        self.cta.acc[acc] = np.where(self.mask[:, None], old, new) if step.masked else new

    def copy(self, step: TmaLoad | TmaWideLoad) -> None:
        """A tensor copy: gather, zero outside, count bytes."""
        source = self.cta.map_of(step.map)
        stored = self.cta.program.launch.buffers[source.buffer].dtype
        tensor = dtypes.widen(dtypes.BY_NAME[stored], self.cta.buffers[source.buffer])
        first = source.offset // dtypes.BY_NAME[source.dtype].bytes
        tensor = tensor[..., first : first + source.dims[0]]
        coords = [int(self.numbers[name]) for name in step.coords]
        first = 0
        if isinstance(step, TmaWideLoad):
            rows = im2col_wide(source, tensor, coords, step.halo, step.offset)
            first = 0 if step.at is None else int(self.numbers[step.at]) // source.row_bytes
        elif step.offsets:
            rows = im2col(source, tensor, coords, [int(self.numbers[name]) for name in step.offsets])
        else:
            rows = box(source, tensor, coords)
        barrier = self.barrier(step.ring)
        barrier.bytes -= rows.size * dtypes.BY_NAME[source.dtype].bytes
        tile = next(tile for tile in self.cta.program.storage.smem if tile.name == step.tile)
        empty = np.full((tile.rows, rows.shape[1]), np.nan, np.float32)
        self.cta.stages.setdefault((step.tile, self.stage(step.tile)), empty)[first : first + len(rows)] = rows
        barrier.settle()

    def requantise(self, step: Requantise | RequantiseLane, places: np.ndarray) -> None:
        """Times multipliers, which lie as bits among the numbers of the buffer, in float32."""
        scale = self.cta.buffer_of(step.buffer).reshape(-1).view(np.float32)[places]
        scaled = dtypes.encode(dtypes.S32, self.values).astype(np.float32) * scale
        self.values = np.clip(np.rint(scaled).astype(np.float64) + step.zero_point, -(2.0**31), 2.0**31 - 1)

    def store(self, step: GlobalStore) -> None:
        """Pieces of 16 bytes, each under its guards."""
        output = self.cta.buffer_of(step.buffer)
        per_piece = PIECE_BYTES // output.itemsize
        stored = dtypes.encode(dtypes.BY_NAME[step.out], self.values)
        place, row, channel = (np.asarray(self.numbers[name]) for name in (step.at, step.row, step.channel))
        assert not (place % PIECE_BYTES).any(), "a store is not aligned to 16 bytes"
        for first in range(0, step.columns, per_piece):
            keep = np.ones(len(self.values), bool)
            if step.row_limit is not None:
                keep &= row < step.row_limit
            if step.channel_limit is not None:
                keep &= channel + first < step.channel_limit
            start = np.broadcast_to(place // output.itemsize + first, keep.shape)
            where = start[keep, None] + np.arange(per_piece)
            once = np.unique(where).size == where.size and not self.cta.written[where].any()
            assert once, "an element is written twice"
            self.cta.written[where] = True
            output[where] = stored[keep, first : first + per_piece]

    def scatter(self, step: PixelStore) -> None:
        """One value a lane and column, under its guards."""
        output = self.cta.buffer_of(step.buffer)
        values = dtypes.encode(dtypes.BY_NAME[step.out], self.values)
        channel = np.asarray(self.numbers[step.channel])
        for column, name in enumerate(step.rows):
            row = int(self.numbers[name])
            keep = np.ones(len(channel), bool) if step.channel_limit is None else channel < step.channel_limit
            if step.row_limit is not None and row >= step.row_limit:
                continue
            where = row * (step.row_bytes // output.itemsize) + channel[keep]
            assert not self.cta.written[where].any(), "an element is written twice"
            self.cta.written[where] = True
            output[where] = values[keep, column]


def move_up(rows: np.ndarray) -> None:
    """Every row of 32 takes what the next one has; the last keeps what it has."""
    for first in range(0, 128, 32):
        rows[first : first + 31] = rows[first + 1 : first + 32].copy()


def im2col_wide(source: TensorMap, tensor: np.ndarray, coords: list[int], halo: int, offset: int) -> np.ndarray:
    """Rows (pixels and halo, channels) of an im2col::w or ::w::128 copy, pixel by pixel."""
    channel, w, *fixed, n = coords
    low, end, step = source.lower[0], source.dims[1] + source.upper[0], source.element_strides[1]
    assert w < end, f"the copy starts at {w}, behind the end {end} of the box"
    count = 128 if source.mode == "im2col_w128" else source.pixels
    walked = []
    for _ in range(count + halo):
        walked.append((w + offset, n))
        w += step
        if w >= end:
            w, n = low, n + source.element_strides[-1]
    if source.mode == "im2col_w128":
        extra = [walked[32 * (group + 1) + h] for h in range(halo) for group in range(4)]
        walked = walked[:count] + extra
    at_w, at_n = np.array(walked).T
    indices = [at_n[:, None], *(np.array([[place]]) for place in reversed(fixed)), at_w[:, None]]
    indices.append(channel + np.arange(source.channels)[None, :])
    return _gather(tensor.reshape(source.dims[::-1]), np.broadcast_arrays(*indices))


def im2col(source: TensorMap, tensor: np.ndarray, coords: list[int], offsets: list[int]) -> np.ndarray:
    """Rows (pixels, channels) of an im2col copy: the walk inside the bounding box, moved by the offsets."""
    first_channel, w, h, n = coords
    sizes = source.dims[1:3]
    ends = [size + upper for size, upper in zip(sizes, source.upper, strict=True)]
    steps = source.element_strides[1:3]
    for value, low, end, step in zip((w, h), source.lower, ends, steps, strict=True):
        assert low <= value < end, f"the copy starts at {value}, outside of the box {low}..{end - 1}"
        assert (value - low) % step == 0, f"the copy starts at {value}, off the grid of step {step}"
    columns, rows = ((end - low + step - 1) // step for low, end, step in zip(source.lower, ends, steps, strict=True))
    number = (n * rows + (h - source.lower[1]) // steps[1]) * columns + (w - source.lower[0]) // steps[0]
    number = number + np.arange(source.pixels)
    at_w = source.lower[0] + number % columns * steps[0] + offsets[0]
    at_h = source.lower[1] + number // columns % rows * steps[1] + offsets[1]
    at_n = number // (columns * rows)
    at_c = first_channel + np.arange(source.channels)
    indices = np.broadcast_arrays(at_n[:, None], at_h[:, None], at_w[:, None], at_c[None, :])
    return _gather(tensor, indices)


def box(source: TensorMap, tensor: np.ndarray, coords: list[int]) -> np.ndarray:
    """Rows (all outer positions, inner extent) of a tile copy."""
    axes = [start + np.arange(extent) for start, extent in zip(coords, source.box, strict=True)]
    indices = np.meshgrid(*axes[::-1], indexing="ij")
    return _gather(tensor, indices).reshape(-1, source.box[0])


def _gather(tensor: np.ndarray, indices: list[np.ndarray]) -> np.ndarray:
    """Elements of a tensor, zero where an index is outside."""
    inside = np.ones(indices[0].shape, bool)
    for index, extent in zip(indices, tensor.shape, strict=True):
        inside &= (index >= 0) & (index < extent)
    clipped = tuple(np.clip(index, 0, extent - 1) for index, extent in zip(indices, tensor.shape, strict=True))
    return np.where(inside, tensor[clipped], np.float32(0)).astype(np.float32)
