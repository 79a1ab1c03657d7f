"""Does a tile program hold together? Checked on steps and records, before any text exists.

Each check is a function that yields one sentence per contradiction it finds. Those about names, memory and warps are
here, those about rings in `convc.compiler.tile.verify_rings`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from convc.compiler.plan.reuse_storage import MASK_BYTES
from convc.compiler.plan.storage import SLOT_BYTES, STAGE_ALIGN
from convc.compiler.tile.steps.base import (
    AddBias,
    Commit,
    Compute,
    CtaSync,
    ExpectBytes,
    GlobalStore,
    InitRings,
    Loop,
    Mma,
    Multiply,
    RingWait,
    Step,
    TileProgram,
    TmaLoad,
    TmemAlloc,
    TmemFree,
    TmemLoad,
    executions,
    walk,
)
from convc.compiler.tile.steps.epilogue import AddLaneResidual, AddRowResidual
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
from convc.compiler.tile.verify_rings import RING_CHECKS
from convc.errors import PlanError


def verify(program: TileProgram) -> None:
    """Raise `PlanError` with everything that `contradictions` finds."""
    found = contradictions(program)
    if found:
        raise PlanError(
            f"the tile program contradicts itself: {'; '.join(found)}",
            where=f"schedule {program.schedule!r} of convolution {program.name!r}",
            hint="this is a mistake in convc, not in the model: please report it with the problem's numbers",
        )


def contradictions(program: TileProgram) -> tuple[str, ...]:
    """Every contradiction of the program, one sentence each; empty: none. With wrong names, only these."""
    wrong = tuple(names(program))
    return wrong or tuple(sentence for check in CHECKS for sentence in check(program))


def names(program: TileProgram) -> Iterator[str]:
    """Ids are unique; every number is set once, before it is read; tiles, rings and maps exist."""
    ids = [step.id for role in program.all_roles for step in walk(role.steps)]
    yield from (f"two steps are called {name}" for name in sorted(_repeated(ids)))
    known = {
        "tile": {tile.name for tile in program.storage.smem},
        "ring": {ring.name for ring in program.storage.rings},
        "map": set(program.params),
        "acc": {tile.name for tile in program.storage.tmem},
    }
    for role in program.all_roles:
        numbers = {number.name for number in program.inputs}
        for step in walk(role.steps):
            for number in _reads(step):
                if number not in numbers:
                    yield f"{step.id} reads {number}, which nothing sets before"
            for kind, name in _resources(step):
                if name not in known[kind]:
                    yield f"{step.id} names the {kind} {name}, which does not exist"
            made = step.dst if isinstance(step, Compute) else step.var if isinstance(step, Loop) else None
            if made in numbers:
                yield f"{step.id} sets {made} a second time"
            numbers |= {made} if made is not None else set()


def shared_memory(program: TileProgram) -> Iterator[str]:
    """Tiles, barriers and the slot do not overlap, are aligned, and fit what the launch asks for."""
    storage = program.storage
    pieces = [(tile.offset, tile.end, f"tile {tile.name}") for tile in storage.smem]
    pieces += [(ring.offset, ring.end, f"ring {ring.name}") for ring in storage.rings]
    if storage.mask_offset is not None:
        pieces.append((storage.mask_offset, storage.mask_offset + MASK_BYTES * storage.masks, "the mask table"))
    pieces.append((storage.slot_offset, storage.slot_offset + SLOT_BYTES, "the slot"))
    pieces.sort()
    for (_, end, name), (start, _, other) in itertools.pairwise(pieces):
        if start < end:
            yield f"{name} ends at {end} and overlaps {other}, which starts at {start}"
    if pieces[-1][1] > storage.smem_bytes or storage.smem_bytes != program.launch.shared_bytes:
        yield (
            f"{pieces[-1][2]} ends at {pieces[-1][1]}; the plan has {storage.smem_bytes} bytes of shared memory, "
            f"the launch {program.launch.shared_bytes}"
        )
    for tile in storage.smem:
        if tile.offset % STAGE_ALIGN or tile.stage_bytes % STAGE_ALIGN or tile.stage_bytes < tile.bytes:
            place = f"tile {tile.name} at {tile.offset} with stages of {tile.stage_bytes} bytes"
            yield f"{place} is not aligned to {STAGE_ALIGN}"
    for offset, align, name in (
        *((ring.offset, 8, ring.name) for ring in storage.rings),
        (storage.slot_offset, 4, "the slot"),
    ):
        if offset % align:
            yield f"{name} at {offset} is not aligned to {align}"


def tensor_memory(program: TileProgram) -> Iterator[str]:
    """Allocated once before and freed once after, by one warp; accumulators fit, and are read from end to end."""
    allocs = [(role, step) for role in program.setup for step in walk(role.steps) if isinstance(step, TmemAlloc)]
    frees = [(role, step) for role in program.teardown for step in walk(role.steps) if isinstance(step, TmemFree)]
    if len(allocs) != 1 or len(frees) != 1:
        yield f"tensor memory is allocated {len(allocs)} times and freed {len(frees)} times"
    for (owner, alloc), (last, free) in zip(allocs, frees, strict=False):
        if (owner.first_warp, alloc.columns) != (last.first_warp, free.columns):
            freed = f"{free.columns} columns are freed by warp {last.first_warp}"
            yield f"{freed}, {alloc.columns} allocated by {owner.first_warp}"
        for tile in program.storage.tmem:
            if tile.end > alloc.columns:
                yield f"tile {tile.name} ends at column {tile.end} of {alloc.columns}"
    for one, two in itertools.pairwise(sorted(program.storage.tmem, key=lambda tile: tile.column_offset)):
        if two.column_offset < one.end:
            yield f"tile {one.name} ends at column {one.end} and overlaps {two.name} at {two.column_offset}"
    accumulators = {tile.name: tile for tile in program.storage.tmem}
    for role in program.roles:
        for step, count in executions(role.steps):
            match step:
                case Multiply(acc=acc, m=m, n=n) if (m, n) != (accumulators[acc].lanes, accumulators[acc].columns):
                    yield f"{step.id} makes {m} x {n}, accumulator {acc} is another size"
                case TmemLoad(acc=acc, columns=columns) if columns * count != accumulators[acc].columns:
                    yield f"{step.id} reads {columns * count} of {accumulators[acc].columns} columns"


def acts(program: TileProgram) -> Iterator[str]:
    """Roles share no warp, an elected role has one, and all warps meet before and after."""
    owner: dict[int, str] = {}
    for role in program.roles:
        for warp in range(role.first_warp, role.last_warp + 1):
            if warp in owner:
                yield f"warp {warp} is in the roles {owner[warp]} and {role.name}"
            owner[warp] = role.name
    for role in program.all_roles:
        if role.elected and role.first_warp != role.last_warp:
            yield f"role {role.name} elects one lane of warps {role.first_warp} to {role.last_warp}"
        if not 0 <= role.first_warp <= role.last_warp < program.warps:
            yield f"role {role.name} has warps {role.first_warp} to {role.last_warp}, the CTA has {program.warps}"
    for name, act in (("set-up", program.setup), ("teardown", program.teardown)):
        everyone = [role for role in act if (role.first_warp, role.last_warp) == (0, program.warps - 1)]
        if not any(isinstance(step, CtaSync) for role in everyone for step in role.steps):
            yield f"the warps do not meet in the {name}"
    if program.launch.block != (32 * program.warps, 1, 1):
        yield f"the launch has blocks of {program.launch.block} threads, the program {32 * program.warps}"


CHECKS = (*RING_CHECKS, shared_memory, tensor_memory, acts)


def _repeated(values: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    return {value for value in values if value in seen or seen.add(value)}


def _reads(step: Step) -> tuple[str, ...]:
    """Numbers that a step reads."""
    match step:
        case Compute(expr=expr):
            return tuple(sorted(expr.variables()))
        case TmaLoad(coords=coords, offsets=offsets):
            return coords + offsets
        case TmemLoad(first=first):
            return (first,)
        case AddBias(channel=channel) | Requantise(channel=channel) | RequantiseLane(channel=channel):
            return (channel,)
        case ScaleSums(channel=channel):
            return (channel,)
        case CarryFactors(lane=lane, first=first):
            return (lane, first)
        case MmaScaled(counter=counter):
            return () if counter is None else (counter,)
        case GlobalStore(at=at, row=row, channel=channel) | AddRowResidual(at=at, row=row, channel=channel):
            return (at, row, channel)
        case Mma(counter=counter, row=row):
            return tuple(name for name in (counter, row) if name is not None)
        case TmaWideLoad(coords=coords, at=at):
            return coords if at is None else (*coords, at)
        case MaskWord(value=value, entry=entry):
            return (value, entry)
        case LoadMask(entries=entries):
            return tuple(name for name, _ in entries)
        case Refresh(halo=halo):
            return (halo,)
        case MmaTensor(counter=counter):
            return () if counter is None else (counter,)
        case MmaStationary(counter=counter, entered=entered):
            return tuple(name for name in (counter, entered) if name is not None)
        case AddLaneBias(channel=channel):
            return (channel,)
        case PixelStore(rows=rows, channel=channel) | AddLaneResidual(rows=rows, channel=channel):
            return (*rows, channel)
    return ()


def _resources(step: Step) -> tuple[tuple[str, str], ...]:
    """(kind, name) of the tiles, rings, maps and accumulators that a step names."""
    match step:
        case InitRings(rings=rings):
            return tuple(("ring", ring) for ring in rings)
        case TmaLoad(map=source, tile=tile, ring=ring) | TmaWideLoad(map=source, tile=tile, ring=ring):
            return ("map", source), ("tile", tile), ("ring", ring)
        case RingWait(ring=ring) | ExpectBytes(ring=ring) | Commit(ring=ring) | Arrive(ring=ring):
            return (("ring", ring),)
        case MmaTensor(acc=acc, a=a, b=b):
            return ("acc", acc), ("acc", a), ("tile", b)
        case CarryFactors(source=source, tile=tile):
            return ("tile", source), ("acc", tile)
        case MmaScaled(acc=acc, a=a, b=b):
            return ("acc", acc), ("tile", a), ("tile", b), ("acc", step.factors_a), ("acc", step.factors_b)
        case Multiply(acc=acc, a=a, b=b):
            return ("acc", acc), ("tile", a), ("tile", b)
        case TensorFill(source=source, tile=tile) | Refresh(source=source, tile=tile):
            return ("tile", source), ("acc", tile)
        case MoveRows(tile=tile):
            return (("acc", tile),)
        case TmemLoad(acc=acc) | ClearAcc(acc=acc):
            return (("acc", acc),)
    return ()
