"""The schedules ``slide`` and ``shift`` as roles: one activation tile for all filter columns of a buffer.

Loops: filter rows r, channel blocks, buffers (written out), and innermost the filter columns of a buffer. Activations
and filter have rings of their own, since one tile of the first meets several of the second.
"""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.index.row_walk import Buffer
from convc.compiler.plan.records import Plan
from convc.compiler.plan.reuse_storage import apart, tile_rows
from convc.compiler.schedules.kernel import block_channels, channels_of, compute
from convc.compiler.tile.steps.base import (
    Advance,
    Commit,
    Compute,
    CtaSync,
    ExpectBytes,
    Loop,
    Mma,
    RingWait,
    Role,
    Step,
    TmaLoad,
)
from convc.compiler.tile.steps.sharing import (
    ClearAcc,
    LoadMask,
    MaskWord,
    MmaTensor,
    MoveRows,
    Refresh,
    TensorFill,
    TmaWideLoad,
)
from convc.ir.expr import Const, IntExpr, Var

WINDOW_VAR = "window"


def masks(plan: Plan) -> tuple[Role, ...]:
    """The role that fills the table of lane masks: filter columns first, then filter rows."""
    first = 0
    steps: list[Step] = [
        Compute(id="masks.lane", note="thread i works out the masks of lane i", dst="lane", expr=Var("thread"))
    ]
    for name, var, count in (("column_mask", "s", plan.pipeline.taps[1]), ("line_mask", "r", plan.pipeline.taps[0])):
        if not any(coordinate.name == name for coordinate in plan.coordinates):
            continue
        body = (
            compute(plan, "masks", name),
            MaskWord(id=f"masks.{var}_word", note="32 lanes a word", value=name, entry=var, first=first),
        )
        steps.append(Loop(id=f"masks.{var}", note=f"one mask for every {var}", var=var, count=count, body=body))
        first += count
    if not first:
        return ()
    note = "work out which lanes a filter tap must not write"
    return (Role(name="masks", first_warp=0, last_warp=3, elected=False, note=note, steps=tuple(steps)),)


def clear(plan: Plan) -> tuple[Role, ...]:
    """Roles that set the accumulator to zero, where the first tap does not write every lane."""
    if not plan.reuse.clear:
        return ()
    zero = ClearAcc(
        id="clear.zero", note="the first tap leaves masked lanes as they are", acc="acc", columns=plan.tiling.block_n
    )
    return (
        Role(name="clear", first_warp=0, last_warp=3, elected=False, note="clear the accumulator", steps=(zero,)),
        Role(
            name="ready",
            first_warp=0,
            last_warp=5,
            elected=False,
            note="nobody multiplies before it is clear",
            steps=(CtaSync(id="ready.sync", note="the accumulator is zero"),),
        ),
    )


def load(plan: Plan) -> tuple[Step, ...]:
    """Copy an activation tile for every buffer, and a filter tile for each of its filter columns."""
    merged = plan.reuse.stream.merged
    starts = ["start_w", *(() if merged else ("start_n",)), "first_k"]
    windowed = plan.reuse.tile.windows > 1
    if windowed:
        starts = ["first_k"]
    per_row = [] if windowed else [compute(plan, "load", "start_row" if merged else "start_h")]
    body: list[Step] = [*block_channels(plan)]
    for index, buffer in enumerate(plan.reuse.walk.buffers):
        body += _load_buffer(plan, index, buffer)
    blocks = Loop(id="load.blocks", note="channel blocks", var="block", count=plan.pipeline.blocks, body=tuple(body))
    rows = Loop(id="load.rows", note="filter rows", var="r", count=plan.pipeline.taps[0], body=(*per_row, blocks))
    return (*(compute(plan, "load", name) for name in starts), rows)


def _load_buffer(plan: Plan, index: int, buffer: Buffer) -> Iterator[Step]:
    """One activation tile, then the filter tiles that it meets."""
    name, mark = names(plan, index)
    yield RingWait(id=f"load.wait_a{mark}", note="until the stage is free", ring="free_a", fresh=True)
    tile = next(tile for tile in plan.storage.smem if tile.name == "a")
    yield ExpectBytes(
        id=f"load.expect_a{mark}",
        note="the tile and its halo",
        ring="full_a",
        bytes=tile_rows(plan.schedule, plan.reuse.variant, plan.reuse, buffer.halo) * tile.row_bytes,
    )
    yield from _load_tile(plan, mark, buffer)
    yield Advance(id=f"load.next_a{mark}", note="next activation stage", stages=plan.tiling.held, cursor="a")
    s, tap = f"s{mark}", f"tap{mark}"
    body = (
        column(plan, "load", mark, buffer, Var(f"i{mark}")),
        compute(plan, "load", "tap", dst=tap, s=Var(s)),
        RingWait(id=f"load.wait_b{mark}", note="until the stage is free", ring="free_b", fresh=True),
        ExpectBytes(
            id=f"load.expect_b{mark}",
            note="one filter tile",
            ring="full_b",
            bytes=plan.tiling.block_n * plan.tiling.row_bytes,
        ),
        TmaLoad(
            id=f"load.b{mark}",
            note="filter rows of this tap and block",
            map="map_b",
            tile="b",
            ring="full_b",
            coords=("c", tap, "first_k"),
        ),
        Advance(id=f"load.next_b{mark}", note="next filter stage", stages=plan.tiling.stages, cursor="b"),
    )
    note = f"filter columns of {name}"
    yield Loop(id=f"load.columns{mark}", note=note, var=f"i{mark}", count=len(buffer.taps), body=body)


def _load_tile(plan: Plan, mark: str, buffer: Buffer) -> Iterator[Step]:
    """The copy of an activation tile, or one for each of its windows."""
    merged, windowed = plan.reuse.stream.merged, plan.reuse.tile.windows > 1
    first = channels_of(plan)
    coords = (first, "start_w", "start_row") if merged else (first, "start_w", "start_h", "start_n")
    if not windowed:
        yield TmaWideLoad(
            id=f"load.a{mark}",
            note="pixels of one image row after the other",
            map="map_a",
            tile="a",
            ring="full_a",
            coords=coords,
            halo=buffer.halo,
            offset=buffer.offset,
            halo_each_window=plan.schedule == "shift",
        )
        return
    window, renamed = f"{WINDOW_VAR}{mark}", [f"{name}{mark}" for name in coords]
    renamed[0] = first
    lane_bytes = 32 * plan.tiling.row_bytes
    body = (
        *(
            compute(plan, "load", name, dst=new, **{WINDOW_VAR: Var(window)})
            for name, new in zip(coords[1:], renamed[1:], strict=True)
        ),
        Compute(id=f"load.at{mark}", note="32 lanes a window", dst=f"at{mark}", expr=Var(window) * lane_bytes),
        TmaWideLoad(
            id=f"load.a{mark}",
            note="windows overlap by the halo",
            map="map_a",
            tile="a",
            ring="full_a",
            coords=tuple(renamed),
            halo=0,
            offset=buffer.offset,
            at=f"at{mark}",
        ),
    )
    yield Loop(
        id=f"load.windows{mark}", note="one copy a sub-partition", var=window, count=plan.reuse.tile.windows, body=body
    )


def multiply(plan: Plan) -> tuple[Step, ...]:
    """Multiply each activation tile with the filter tiles of its columns; the last commit completes the accumulator."""
    body: list[Step] = []
    for index, buffer in enumerate(plan.reuse.walk.buffers):
        body.append(
            RingWait(
                id=f"mma.wait_a{names(plan, index)[1]}",
                note="until the activations have landed",
                ring="full_a",
                fresh=False,
            )
        )
        body += _shift(plan, index, buffer) if plan.schedule == "shift" else _slide(plan, index, buffer)
    return (*k_loop(plan, body), Commit(id="mma.done", note="the accumulator is complete", ring="done"))


def k_loop(plan: Plan, body: list[Step]) -> tuple[Step, ...]:
    """The loops over filter rows and channel blocks around the buffers."""
    blocks = Loop(id="mma.blocks", note="channel blocks", var="block", count=plan.pipeline.blocks, body=tuple(body))
    return (Loop(id="mma.rows", note="filter rows", var="r", count=plan.pipeline.taps[0], body=(blocks,)),)


def _slide(plan: Plan, index: int, buffer: Buffer) -> Iterator[Step]:
    """The tile stays; every filter column reads it from another row on."""
    name, mark = names(plan, index)
    turn = _turn(plan, buffer, Var(f"i{mark}"))
    body = (
        *_tap(plan, index, buffer, Var(f"i{mark}"), ""),
        Compute(
            id=f"mma.row{mark}",
            note="lanes from the first column of the buffer",
            dst=f"row{mark}",
            expr=turn * buffer.step,
        ),
        Mma(
            id=f"mma.multiply{mark}",
            note="the same activations, some rows further on",
            acc="acc",
            a="a",
            b="b",
            operand=plan.problem.operand,
            m=plan.tiling.block_m,
            n=plan.tiling.block_n,
            atoms=plan.pipeline.atoms,
            counter=_counter(plan, index, Var(f"i{mark}")),
            row=f"row{mark}",
            masked=plan.storage.masks > 0,
            filter_operand=plan.problem.filter_operand,
        ),
        *release_filter(plan, mark),
    )
    yield Loop(
        id=f"mma.columns{mark}", note=f"filter columns of {name}", var=f"i{mark}", count=len(buffer.taps), body=body
    )
    yield from release_tile(plan, mark)


def _shift(plan: Plan, index: int, buffer: Buffer) -> Iterator[Step]:
    """The tile goes to tensor memory, and its rows move on from column to column."""
    name, mark = names(plan, index)
    atoms, windows = plan.pipeline.atoms, plan.reuse.variant == "windows"
    own = apart(plan.tiling, plan.reuse.variant)
    if own:
        yield RingWait(
            id=f"mma.wait_held{mark}",
            note="until the tile in tensor memory has been multiplied",
            ring="held",
            fresh=True,
        )
    yield TensorFill(id=f"mma.fill{mark}", note="128 rows to 128 lanes", source="a", tile="held", atoms=atoms)
    if windows:
        yield from release_tile(plan, mark)
    last = len(buffer.taps) - 1
    if last:
        position: IntExpr = Var(f"i{mark}")
        body = (*_multiply_held(plan, index, buffer, position, "", moves=True), *_moves(plan, index, buffer))
        yield Loop(
            id=f"mma.columns{mark}",
            note=f"filter columns of {name} but the last",
            var=f"i{mark}",
            count=last,
            body=body,
        )
    yield from _multiply_held(plan, index, buffer, Const(last), "_last", moves=False)
    if own:
        yield from _release_held(plan, mark)
    if not windows:
        yield from release_tile(plan, mark)


def _multiply_held(
    plan: Plan, index: int, buffer: Buffer, position: IntExpr, which: str, moves: bool
) -> Iterator[Step]:
    """One filter column with the tile in tensor memory."""
    mark = names(plan, index)[1]
    yield from _tap(plan, index, buffer, position, which)
    yield MmaTensor(
        id=f"mma.multiply{which}{mark}",
        note="activations from tensor memory",
        acc="acc",
        a="held",
        b="b",
        operand=plan.problem.operand,
        m=plan.tiling.block_m,
        n=plan.tiling.block_n,
        atoms=plan.pipeline.atoms,
        counter=_counter(plan, index, position, which),
        masked=plan.storage.masks > 0,
        moves=moves and plan.reuse.variant != "chain",
        filter_operand=plan.problem.filter_operand,
    )
    yield from release_filter(plan, f"{which}{mark}")


def _moves(plan: Plan, index: int, buffer: Buffer) -> Iterator[Step]:
    """From one filter column to the next: the rows move up by a lane, the last of 32 comes from the halo."""
    mark, atoms, variant = names(plan, index)[1], plan.pipeline.atoms, plan.reuse.variant
    if variant == "windows":
        return
    yield Compute(
        id=f"mma.halo{mark}", note="halo rows used so far", dst=f"halo{mark}", expr=Var(f"i{mark}") * buffer.step
    )
    for move in range(buffer.step):
        number = f"_{move}" if buffer.step > 1 else ""
        if variant == "ashift" or move:
            why = "a refresh is not ordered after .ashift" if variant == "ashift" else "nor is a shift after a refresh"
            yield Commit(id=f"mma.order{number}{mark}", note=why, ring="order")
            yield RingWait(id=f"mma.settle{number}{mark}", note="until the rows have moved", ring="order", fresh=False)
            yield Advance(id=f"mma.turn{number}{mark}", note="next phase", stages=1, cursor="order")
        if variant == "chain":
            yield MoveRows(id=f"mma.move{number}{mark}", note="lane i takes row i + 1", tile="held", atoms=atoms)
        yield Refresh(
            id=f"mma.refresh{number}{mark}",
            note="the last lane of every 32",
            source="a",
            tile="held",
            atoms=atoms,
            halo=f"halo{mark}",
            extra=move,
        )


def _tap(plan: Plan, index: int, buffer: Buffer, position: IntExpr, which: str) -> Iterator[Step]:
    """What comes before the multiplication of a filter column: its numbers, its mask, its filter tile."""
    mark = f"{which}{names(plan, index)[1]}"
    counter = _counter(plan, index, position, which)
    if counter is not None:
        rounds = Var("r") * plan.pipeline.blocks + Var("block")
        yield Compute(
            id=f"mma.k_step{mark}",
            note="0 in the first step of the tile",
            dst=counter,
            expr=rounds * len(buffer.taps) + position,
        )
    if plan.storage.masks:
        yield column(plan, "mma", mark, buffer, position)
        entries = []
        if plan.reuse.walk.border == "mask":
            entries.append((f"s{mark}", 0))
        if plan.reuse.stream.masked:
            entries.append(("r", plan.pipeline.taps[1] if entries else 0))
        yield LoadMask(id=f"mma.mask{mark}", note="lanes that hold another row's pixel", entries=tuple(entries))
    yield RingWait(id=f"mma.wait_b{mark}", note="until the filter tile has landed", ring="full_b", fresh=False)


def _release_held(plan: Plan, mark: str) -> Iterator[Step]:
    """Give a tile in tensor memory back."""
    yield Commit(id=f"mma.used{mark}", note="the tile is free once it has been multiplied", ring="held")
    yield Advance(
        id=f"mma.next_held{mark}",
        note="next tile in tensor memory",
        cursor="held",
        stages=next(tile.stages for tile in plan.storage.tmem if tile.name == "held"),
    )


def release_filter(plan: Plan, mark: str) -> Iterator[Step]:
    """Give a filter stage back."""
    yield Commit(id=f"mma.release_b{mark}", note="the stage is free once it has been multiplied", ring="free_b")
    yield Advance(id=f"mma.next_b{mark}", note="next filter stage", stages=plan.tiling.stages, cursor="b")


def release_tile(plan: Plan, mark: str) -> Iterator[Step]:
    """Give an activation stage back."""
    yield Commit(id=f"mma.release_a{mark}", note="the stage is free once it has been read", ring="free_a")
    yield Advance(id=f"mma.next_a{mark}", note="next activation stage", stages=plan.tiling.held, cursor="a")


def column(plan: Plan, role: str, mark: str, buffer: Buffer, position: IntExpr) -> Compute:
    """The filter column at a position of a buffer: the columns of a buffer are evenly spaced."""
    taps = buffer.taps
    stride = taps[1].s - taps[0].s if len(taps) > 1 else 0
    return Compute(
        id=f"{role}.s{mark}",
        note="filter column",
        dst=f"s{mark}",
        expr=_turn(plan, buffer, position) * stride + taps[0].s,
    )


def _turn(plan: Plan, buffer: Buffer, position: IntExpr) -> IntExpr:
    """Index of the filter column that comes at a position: the one that writes every lane comes first."""
    return (position + plan.reuse.first) % len(buffer.taps) if plan.reuse.first else position


def _counter(plan: Plan, index: int, position: IntExpr, which: str = "") -> str | None:
    """The number that is 0 at the first multiplication of the tile; None where another is first, or it was cleared."""
    later = isinstance(position, Const) and position != Const(0)
    return None if plan.reuse.clear or index or later else f"k_step{which}"


def names(plan: Plan, index: int) -> tuple[str, str]:
    """What a buffer is called, and the mark that its steps and numbers carry where there are several."""
    if len(plan.reuse.walk.buffers) == 1:
        return "the buffer", ""
    return f"buffer {index}", f"_{index}"
