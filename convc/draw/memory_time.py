"""The memory of the first CTA over time: the bytes of each stage to scale downwards, the first wave's cycles across.

Stages are filling, full and free as the timing engine has their barriers (`convc.timing.rings`); the columns of tensor
memory are written and read while a step runs that names them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from convc.compiler.plan.names import SmemName, TmemName
from convc.compiler.tile.program import TileProgram, walk
from convc.compiler.tile.steps.copies import TensorCopy
from convc.compiler.tile.steps.epilogue import ReadAcc
from convc.compiler.tile.steps.lanes import MoveRows, Refresh, TensorFill
from convc.compiler.tile.steps.mma import Multiply
from convc.draw.svg import MARGIN, TITLE, Picture, legend, rect, text, titled, width_of
from convc.draw.timeline import WIDTH, ticks
from convc.report.format import human_bytes
from convc.timing.kernel import KernelTime
from convc.timing.rings import stages

HEIGHT = 240
"""Pixels of all shared memory that the kernel takes."""

COLUMNS = 120
"""Pixels of all columns of tensor memory that it allocates."""

LEGEND = (("filling", "t1"), ("full", "s5"), ("multiplied into", "s1"), ("written", "t2"), ("read out", "s2"))
KINDS = dict(LEGEND)


def memory_time_picture(kernel: KernelTime, program: TileProgram) -> Picture:
    """Draw what shared memory and tensor memory of the first CTA hold in its first wave."""
    storage = program.storage
    end = kernel.launch.lengths[0]
    names = [tile.name for tile in (*storage.tiles, *storage.tmem)]
    left = MARGIN + max(map(width_of, [f"{name}00" for name in names])) + 8
    top = TITLE + 44.0
    low = top + HEIGHT + 40
    bottom = low + (COLUMNS if storage.tmem_columns else 0)
    parts = [
        *legend(MARGIN, TITLE - 6, LEGEND),
        text(MARGIN, TITLE + 28, f"shared memory, {human_bytes(storage.smem_bytes)}", "strong"),
        rect(left, top, WIDTH, HEIGHT, "idle"),
        *_shared(kernel, program, left, top),
    ]
    if storage.tmem_columns:
        parts += [
            text(MARGIN, low - 8, f"tensor memory, {storage.tmem_columns} columns", "strong"),
            rect(left, low, WIDTH, COLUMNS, "idle"),
            *_tensor(kernel, program, left, low),
        ]
    parts += ticks(end, left, top - 4, bottom)
    title = f"{kernel.name}: memory of a CTA over its first wave on {kernel.chip.name}, {end:.0f} cycles"
    return titled(title, left + WIDTH + MARGIN, bottom + MARGIN, parts)


@dataclass(frozen=True, slots=True)
class _Band:
    """Memory with a name, at a place of the picture: what it is from cycle to cycle."""

    kernel: KernelTime
    name: str
    x: float
    y: float
    height: float

    def drawn(self, state: str, start: float, end: float, **place: int) -> str:
        """A state for some time; ``place``: its offset or its column."""
        scale = WIDTH / self.kernel.launch.lengths[0]
        tip = f"{self.name} {state}: {start:.0f} to {end:.0f}"
        kind = f"{KINDS[state]} box"
        left = self.x + start * scale
        width = max(0.5, (end - start) * scale)
        times = {"start": f"{start:.1f}", "end": f"{end:.1f}"}
        return rect(left, self.y, width, self.height, kind, tip, held=self.name, state=state, **times, **place)


def _shared(kernel: KernelTime, program: TileProgram, x: float, y: float) -> Iterator[str]:
    """A band for each stage of each tile, with the times at which it is filling and full."""
    storage = program.storage
    scale = HEIGHT / storage.smem_bytes
    tiles: dict[str, set[SmemName]] = defaultdict(set)
    for role in program.all_roles:
        for step in walk(role.steps):
            if isinstance(step, TensorCopy):
                tiles[step.ring].add(step.tile)
    for tile in (storage.smem_tile(name) for name in sorted({name for names in tiles.values() for name in names})):
        yield text(x - 4, y + tile.offset * scale + 10, tile.name, "soft end")
    for stage in stages(kernel.launch.replay):
        if stage.row != 0:
            continue
        number = int(stage.name.partition("[")[2].rstrip("]") or 0)
        for name in sorted(tiles[stage.ring]):
            tile = storage.smem_tile(name)
            place = tile.offset + number * tile.stage_bytes
            band = _Band(kernel, f"{name}{number}", x, y + place * scale, tile.bytes * scale)
            for turn in stage.turns:
                yield band.drawn("filling", turn.begin, turn.full, offset=place)
                yield band.drawn("full", turn.full, turn.free, offset=place)


def _tensor(kernel: KernelTime, program: TileProgram, x: float, y: float) -> Iterator[str]:
    """The columns of each tile, with the times at which a step writes or reads it."""
    storage = program.storage
    scale = COLUMNS / storage.tmem_columns
    uses = {step: (state, storage.tmem_tile(name)) for step, (state, name) in _uses(program)}
    for tile in storage.tmem:
        yield text(x - 4, y + tile.column_offset * scale + 10, tile.name, "soft end")
    for event in kernel.launch.events:
        if event.row != 0 or event.step not in uses:
            continue
        state, tile = uses[event.step]
        if event.name == "tcgen05.ld" or event.track == "tensor core":
            place = tile.column_offset
            band = _Band(kernel, tile.name, x, y + place * scale, (tile.end - place) * scale)
            yield band.drawn(state, event.start, event.end, column=place)


def _uses(program: TileProgram) -> Iterator[tuple[str, tuple[str, TmemName]]]:
    """Steps that write or read a tile in tensor memory: what they do, and the tile."""
    for role in program.all_roles:
        for step in walk(role.steps):
            match step:
                case Multiply(acc=tile):
                    yield step.id, ("multiplied into", tile)
                case TensorFill(tile=tile) | MoveRows(tile=tile) | Refresh(tile=tile):
                    yield step.id, ("written", tile)
                case ReadAcc(acc=tile):
                    yield step.id, ("read out", tile)
                case _:
                    pass
