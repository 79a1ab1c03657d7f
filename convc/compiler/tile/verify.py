"""Checks that a tile program holds together, on steps and records, before any text exists.

Each check is a function that yields one sentence per contradiction it finds. Those about names, memory and warps are
here, those about rings in `convc.compiler.tile.verify_rings`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

from convc.compiler.plan.names import MapName, NewNumber, Number, PointerName, RingName, SmemName, TmemName
from convc.compiler.plan.storage import (
    ANSWER_BYTES,
    BARRIER_BYTES,
    MASK_BYTES,
    SLOT_BYTES,
    STAGE_ALIGN,
    SmemTile,
    Storage,
)
from convc.compiler.tile.program import Role, TileProgram, executions, walk
from convc.compiler.tile.steps.copies import PrefetchNumbers, PrefetchTiles
from convc.compiler.tile.steps.epilogue import ReadAcc
from convc.compiler.tile.steps.lanes import JoinMask, LoadMask
from convc.compiler.tile.steps.mma import Multiply
from convc.compiler.tile.steps.setup import (
    AwaitGrid,
    ClusterSync,
    CtaSync,
    InitRings,
    ReleaseGrid,
    SetRegisters,
    StartArrive,
    StartSync,
    TmemAlloc,
    TmemDealloc,
)
from convc.compiler.tile.steps.split import ClusterWait
from convc.compiler.tile.uses import Kind, uses
from convc.compiler.tile.verify_multicast import MULTICAST_CHECKS
from convc.compiler.tile.verify_order import ORDER_CHECKS
from convc.compiler.tile.verify_pairs import CLUSTER_CHECKS
from convc.compiler.tile.verify_persistent import PERSISTENT_CHECKS
from convc.compiler.tile.verify_rings import RING_CHECKS
from convc.compiler.tile.verify_split import SPLIT_CHECKS
from convc.errors import PlanError
from convc.ir.arch import ARCHS
from convc.ir.launch import Param, PointerParam, TensorMapParam
from convc.ir.tensormap import TensorMap

GROUP = 4
"""Warps of a warpgroup."""


def registers(program: TileProgram) -> Iterator[str]:
    """Counts are legal, every warpgroup has one, and all warps together have no more than at the start."""
    own = ARCHS[program.arch].registers
    found = [(role, step) for role in program.all_roles for step in walk(role.steps) if isinstance(step, SetRegisters)]
    if not found:
        return
    if own is None:
        yield f"{found[0][1].id} sets registers, and {program.arch} has the accumulator in tensor memory"
        return
    share = own.share(32 * program.warps)
    counts = [share] * program.warps
    for role, step in found:
        name = f"{step.id} has {step.count} registers a thread"
        if role.elected or role.first_warp % GROUP or (role.last_warp + 1) % GROUP:
            yield f"{step.id} is done by {role.who}: no whole warpgroups"
        if step.count % own.step or not own.least <= step.count <= own.most:
            yield f"{name}: not a multiple of {own.step} from {own.least} to {own.most}"
        if (step.count > share) != step.more:
            yield f"{name}, {'no more' if step.more else 'no fewer'} than the {share} at the start"
        counts[role.first_warp : role.last_warp + 1] = [step.count] * _warps(role)
    if sum(counts) > share * program.warps:
        yield f"the warps take {32 * sum(counts)} registers, and began with {32 * share * program.warps}"


def _warps(role: Role) -> int:
    return role.last_warp - role.first_warp + 1


REGISTER_CHECKS = (registers,)


def joined_masks(program: TileProgram) -> Iterator[str]:
    """Entries that are read to be joined are joined, those of each CTA of a pair."""
    for role in program.roles:
        steps = list(walk(role.steps))
        beside = {step.rank: step.id for step in steps if isinstance(step, LoadMask) and step.beside}
        joined = {step.rank: step.id for step in steps if isinstance(step, JoinMask)}
        for rank in sorted(beside.keys() - joined.keys()):
            yield f"the mask that {beside[rank]} reads is joined to none"
        for rank in sorted(joined.keys() - beside.keys()):
            yield f"{joined[rank]} joins a mask that nothing reads"


MASK_CHECKS = (joined_masks,)


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
    known: dict[Kind, tuple[str, set[str]]] = {
        SmemName: ("tile", {tile.name for tile in program.storage.tiles}),
        TmemName: ("tile in tensor memory", {tile.name for tile in program.storage.tmem}),
        RingName: ("ring", {ring.name for ring in program.storage.rings}),
        MapName: ("map", set(program.params)),
        PointerName: ("buffer", set(program.params)),
    }
    for role in program.all_roles:
        numbers: set[str] = {number.name for number in program.inputs}
        for step in walk(role.steps):
            named = tuple(uses(step))
            for kind, name in named:
                if kind is Number and name not in numbers:
                    yield f"{step.id} reads {name}, which nothing sets before"
            for kind, name in named:
                if kind in known and name not in known[kind][1]:
                    yield f"{step.id} names the {known[kind][0]} {name}, which does not exist"
            for kind, name in named:
                if kind is not NewNumber:
                    continue
                if name in numbers:
                    yield f"{step.id} sets {name} a second time"
                numbers.add(name)


def shared_memory(program: TileProgram) -> Iterator[str]:
    """Tiles, barriers and the slot do not overlap, and fit what the launch asks for.

    The tile of results may lie over operand tiles, which have been multiplied by then, if the CTA makes one tile.
    """
    storage = program.storage
    operands = [_piece(tile) for tile in storage.smem]
    results = [] if storage.results is None else [_piece(storage.results)]
    others = _others(storage)
    groups = [operands + results + others] if program.visits else [operands + others, results + others]
    pairs = (pair for group in groups for pair in itertools.pairwise(sorted(group)))
    for (_, end, name), (start, _, other) in dict.fromkeys(pairs):
        if start < end:
            yield f"{name} ends at {end} and overlaps {other}, which starts at {start}"
    _, end, last = max(operands + results + others, key=lambda piece: piece[1])
    if end > storage.smem_bytes or storage.smem_bytes != program.launch.shared_bytes:
        yield (
            f"{last} ends at {end}; the plan has {storage.smem_bytes} bytes of shared memory, "
            f"the launch {program.launch.shared_bytes}"
        )


Piece = tuple[int, int, str]
"""First byte, first byte behind it, and what it is called."""


def _piece(tile: SmemTile) -> Piece:
    return tile.offset, tile.end, f"tile {tile.name}"


def _others(storage: Storage) -> list[Piece]:
    """The pieces of shared memory that are always in use."""
    pieces = [(ring.offset, ring.end, f"ring {ring.name}") for ring in storage.rings]
    if storage.mask_offset is not None:
        pieces.append(
            (
                storage.mask_offset,
                storage.mask_offset + MASK_BYTES * storage.masks * storage.mask_tables,
                "the mask table",
            )
        )
    if storage.residual is not None:
        pieces.append(_piece(storage.residual))
    if storage.numbers is not None:
        pieces.append((storage.numbers.offset, storage.numbers.end, "the numbers of the epilogue"))
    if storage.answers is not None:
        pieces.append((storage.answers.offset, storage.answers.end, "the answers"))
    pieces.append((storage.slot_offset, storage.slot_offset + SLOT_BYTES, "the slot"))
    return pieces


def shared_places(program: TileProgram) -> Iterator[str]:
    """Tiles that copies write begin where the pattern of a swizzle does; barriers and the slot are aligned."""
    storage = program.storage
    for tile in (*storage.smem, *(() if storage.residual is None else (storage.residual,))):
        if tile.offset % STAGE_ALIGN or tile.stage_bytes % STAGE_ALIGN or tile.stage_bytes < tile.bytes:
            place = f"tile {tile.name} at {tile.offset} with stages of {tile.stage_bytes} bytes"
            yield f"{place} is not aligned to {STAGE_ALIGN}"
    for offset, align, name in (
        *((ring.offset, BARRIER_BYTES, ring.name) for ring in storage.rings),
        (storage.slot_offset, 4, "the slot"),
        *(() if storage.answers is None else ((storage.answers.offset, ANSWER_BYTES, "the answers"),)),
    ):
        if offset % align:
            yield f"{name} at {offset} is not aligned to {align}"


def tensor_memory(program: TileProgram) -> Iterator[str]:
    """Allocated once before and deallocated once after, by one warp; tiles lie inside, side by side."""
    allocs = [(role, step) for role in program.setup for step in walk(role.steps) if isinstance(step, TmemAlloc)]
    frees = [(role, step) for role in program.teardown for step in walk(role.steps) if isinstance(step, TmemDealloc)]
    wanted = 1 if program.storage.tmem_columns else 0
    if len(allocs) != wanted or len(frees) != wanted:
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


def accumulators(program: TileProgram) -> Iterator[str]:
    """A multiplication fills its accumulator, and the epilogue reads it from end to end."""
    tiles = {tile.name: tile for tile in program.storage.tmem}
    visits = program.visits or 1
    for role in program.roles:
        for step, times in executions(role.steps):
            count = times // visits
            if isinstance(step, Multiply) and (step.m, step.n) != (tiles[step.acc].lanes, tiles[step.acc].columns):
                yield f"{step.id} makes {step.m} x {step.n}, accumulator {step.acc} is another size"
            if isinstance(step, ReadAcc) and step.read * count != tiles[step.acc].columns:
                yield f"{step.id} reads {step.read * count} of {tiles[step.acc].columns} columns"


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
        met = any(isinstance(step, CtaSync | ClusterSync | ClusterWait) for role in everyone for step in role.steps)
        if not met and not any(isinstance(step, StartSync) for role in act for step in role.steps):
            yield f"the warps do not meet in the {name}"
    if program.launch.block != (32 * program.warps, 1, 1):
        yield f"the launch has blocks of {program.launch.block} threads, the program {32 * program.warps}"


def starts(program: TileProgram) -> Iterator[str]:
    """As many warps as meet are there once: they wait, or have made the barriers and only tell that they have."""
    meeting: dict[int, list[int]] = {}
    for role in program.setup:
        for step in role.steps:
            if isinstance(step, StartSync | StartArrive):
                meeting.setdefault(step.threads, []).extend(range(role.first_warp, role.last_warp + 1))
    for threads, warps in meeting.items():
        if sorted(warps) != list(range(threads // 32)):
            yield f"the warps {sorted(warps)} are where {threads} threads meet"
    if meeting and 32 * program.warps not in meeting:
        yield f"no {32 * program.warps} threads meet, as many as the CTA has"
    made: set[int] = set()
    for role in program.setup:
        for step in role.steps:
            if isinstance(step, InitRings):
                made.add(role.first_warp)
            if isinstance(step, StartArrive) and role.first_warp not in made:
                yield f"role {role.name} goes on without the others, and warp {role.first_warp} made no barriers"


def grids(program: TileProgram) -> Iterator[str]:
    """All warps wait in the set-up for the preceding kernel, or none; some let the dependent one begin after that.

    Those have met the warp that gets tensor memory, so that the dependent kernel cannot take it first.
    """
    kinds = AwaitGrid | ReleaseGrid | TmemAlloc | StartSync | CtaSync | ClusterSync
    found = {
        tuple(
            type(step)
            for role in program.setup
            if role.first_warp <= warp <= role.last_warp
            for step in walk(role.steps)
            if isinstance(step, kinds)
        )
        for warp in range(program.warps)
    }
    orders = {tuple(kind for kind in order if kind in (AwaitGrid, ReleaseGrid)) for order in found}
    if orders not in ({()}, {(AwaitGrid, ReleaseGrid)}, {(AwaitGrid,), (AwaitGrid, ReleaseGrid)}):
        names = "; ".join(sorted(", ".join(kind.__name__ for kind in order) or "nothing" for order in orders))
        yield f"the set-up must wait for the preceding kernel and then let the dependent one begin, it has {names}"
    allocates = any(TmemAlloc in order for order in found)
    for order in found:
        before = order[: order.index(ReleaseGrid)] if ReleaseGrid in order else (CtaSync,)
        if allocates and not {StartSync, CtaSync, ClusterSync}.intersection(before):
            yield "warps let the dependent kernel begin, and have not met the one that gets tensor memory"


def early_tiles(program: TileProgram) -> Iterator[str]:
    """Prefetches in the set-up name no buffer that the preceding kernel may still write."""
    params: dict[str, Param] = dict(zip(program.params, program.launch.params, strict=True))
    for role in program.setup:
        for step in walk(role.steps):
            if not isinstance(step, PrefetchTiles | PrefetchNumbers):
                continue
            for name in (name for kind, name in uses(step) if kind in (MapName, PointerName)):
                match params[name]:
                    case TensorMapParam(map=TensorMap(buffer=buffer)) | PointerParam(buffer=buffer):
                        if buffer in (program.launch.in_front or ()):
                            yield f"{step.id} asks for {buffer}, which the preceding kernel may still write"
                    case _:
                        pass


CHECKS = (
    *RING_CHECKS,
    *PERSISTENT_CHECKS,
    *CLUSTER_CHECKS,
    *MULTICAST_CHECKS,
    *SPLIT_CHECKS,
    *ORDER_CHECKS,
    *REGISTER_CHECKS,
    *MASK_CHECKS,
    shared_memory,
    shared_places,
    tensor_memory,
    accumulators,
    acts,
    starts,
    grids,
    early_tiles,
)


def _repeated(values: Iterable[str]) -> set[str]:
    """The values that come more than once."""
    return {value for value, count in Counter(values).items() if count > 1}
