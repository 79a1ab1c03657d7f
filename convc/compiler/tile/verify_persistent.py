"""A CTA that makes several tiles: every tile is made once, and nothing of one is in the way of the next.

Its roles go over the same tiles, each at its own pace, so that what they hand to each other needs a ring. What one
role alone uses again (the tile of results, the numbers of the epilogue) it must not write while it is still read. What
all tiles have in common (numbers in registers) is there before the first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from convc.compiler.plan.names import ACC, DRAINED
from convc.compiler.tile.program import Role, TileProgram, executions, walk
from convc.compiler.tile.steps.base import Compute, Step
from convc.compiler.tile.steps.channels import AddBias, HoldNumbers, StageNumbers
from convc.compiler.tile.steps.epilogue import ReadAcc
from convc.compiler.tile.steps.mma import Multiply
from convc.compiler.tile.steps.persistent import (
    AnswerRead,
    AskTile,
    FetchLoop,
    Release,
    ReleaseLast,
    ReleaseRead,
    RoleSync,
    StoresRead,
    TakeTile,
    TileLoop,
)
from convc.compiler.tile.steps.rings import Advance, RingWait, WaitMmas, WarpCommit
from convc.compiler.tile.steps.staged import ResultStore, StageRow
from convc.compiler.tile.verify_order import PLACE
from convc.ir.expr import Const, FloorDiv, IntExpr, Mod, Var

TAKING = (RingWait, TakeTile, AnswerRead, Advance)
"""The steps by which a role gets its next tile where these are asked for."""


def every_tile_once(program: TileProgram) -> Iterator[str]:
    """Every role of the main act makes all tiles, each CTA from its own on, and no two tiles are the same."""
    if program.visits is None:
        return
    (ctas, height, _) = program.launch.grid
    if height != 1:
        yield f"CTAs that make several tiles lie in one row, the grid is {ctas} x {height}"
    for role in program.roles:
        loops = [step for step in role.steps if isinstance(step, TileLoop | FetchLoop)]
        if len(loops) != 1:
            yield f"role {role.name} has {len(loops)} loops over tiles"
        for loop in loops:
            yield from _numbers(loop, ctas)
            if program.ordered is None:
                yield from _places(loop)
    loops = [step for role in program.roles for step in role.steps if isinstance(step, TileLoop | FetchLoop)]
    limits = {loop.limit if isinstance(loop, TileLoop) else loop.count for loop in loops}
    if len(limits) > 1:
        yield f"roles go over different tiles: {sorted(limits)}"
    rows = {str(expr.b) for loop in loops for expr in _made(loop) if isinstance(expr, Mod | FloorDiv)}
    if program.ordered is None and len(rows) > 1:
        yield f"roles go over tiles in columns of different heights: {', '.join(sorted(rows))}"


def _numbers(loop: TileLoop | FetchLoop, ctas: int) -> Iterator[str]:
    """A walk begins at the CTA's own tile, and together the CTAs come to all of them."""
    if isinstance(loop, FetchLoop):
        if (loop.first, loop.count) != ("cta", ctas):
            yield f"{loop.id} begins at {loop.first} of {loop.count} tiles, the grid has {ctas} CTAs"
        return
    if (loop.stride, loop.first) != (ctas, "cta") or loop.limit < ctas:
        yield f"{loop.id} goes by {loop.stride} from {loop.first} on to {loop.limit}, the grid has {ctas} CTAs"
    if loop.count != -(-loop.limit // ctas):
        yield f"{loop.id} counts {loop.count} tiles, {ctas} CTAs make {loop.limit}"


def _places(loop: TileLoop | FetchLoop) -> Iterator[str]:
    """Row and column of a tile are remainder and quotient by one number, so that no two tiles have the same."""
    places = _made(loop)
    rows = next((expr.b for expr in places if isinstance(expr, Mod | FloorDiv)), None)
    for found, kind, alone in zip(places, (Mod, FloorDiv), (Const(0), Var(loop.var)), strict=True):
        if isinstance(found, Mod | FloorDiv):
            right = type(found) is kind and found.a == Var(loop.var) and found.b == rows
        else:
            right = found is None or (rows is None and found == alone)
        if not right:
            yield f"{loop.id} finds the place of a tile by {found}, which another one may have too"


def _made(loop: TileLoop | FetchLoop) -> list[IntExpr | None]:
    """Row and column of a tile as a loop works them out; None where it does not."""
    made = {step.dst: step.expr for step in loop.body if isinstance(step, Compute)}
    return [made.get(name) for name in PLACE]


def tiles_fetched(program: TileProgram) -> Iterator[str]:
    """One role asks once for each tile that it makes, and each role takes what was answered, as its last act on one."""
    fetching = [role for role in program.roles if any(isinstance(step, FetchLoop) for step in role.steps)]
    if not fetching:
        return
    asking = [step for role in program.roles for step in _in_loop(role) if isinstance(step, AskTile)]
    if len(asking) != 1:
        yield f"a tile is asked for {len(asking)} times while one is made"
    if len(fetching) != len(program.roles):
        yield f"roles go over different tiles: only {', '.join(role.name for role in fetching)} ask for them"
    for role in fetching:
        (loop,) = (step for step in role.steps if isinstance(step, FetchLoop))
        kinds = [type(step) for step in loop.body if not isinstance(step, RoleSync)]
        if kinds[-len(TAKING) :] != list(TAKING):
            yield f"role {role.name} does not end a tile by waiting for the next, taking it and saying so"
        for take in (step for step in walk(loop.body) if isinstance(step, TakeTile)):
            if take.var != loop.var:
                yield f"{take.id} sets {take.var}, the loop over tiles goes by {loop.var}"
    storage = program.storage
    for step in asking:
        ring = storage.ring(step.ring)
        tile = storage.smem_tile(step.tile)
        if (tile.stages, tile.state) != (ring.stages, ring.state):
            yield f"tile {tile.name} has {tile.stages} stages, ring {ring.name} has {ring.stages}"


def accumulators_again(program: TileProgram) -> Iterator[str]:
    """An accumulator is multiplied into once it is free, read once it is complete, and given back after that."""
    if program.visits is None:
        return
    if program.storage.tmem_tile(ACC).column_offset:
        yield "the halves of the accumulator do not begin at column 0"
    for role in program.roles:
        steps = list(_in_loop(role))
        uses = [index for index, step in enumerate(steps) if isinstance(step, Multiply | ReadAcc)]
        if not uses:
            continue
        if program.storage.tmem_columns == 0:
            yield from _own_registers(role, steps)
            continue
        states = {tile.name: tile.state for tile in program.storage.tmem}
        rings = {DRAINED, *(ring.name for ring in program.storage.rings if ring.state == states[ACC])}
        waits = [index for index, step in enumerate(steps) if isinstance(step, RingWait) and step.ring in rings]
        if not waits or waits[0] > uses[0]:
            yield f"role {role.name} uses an accumulator and has not waited for it"
        gives = ((index, step) for index, step in enumerate(steps) if isinstance(step, Release | ReleaseRead))
        given = [index for index, step in gives if step.ring in rings]
        yield from _last_reads(program, steps)
        if program.storage.ring(DRAINED).ahead:  # it is that of the tile before
            if given and waits and given[-1] > waits[0]:
                yield f"role {role.name} gives an accumulator back behind the wait for the next one"
        elif given and given[0] < uses[-1]:
            yield f"role {role.name} gives an accumulator back and reads it afterwards"


def _last_reads(program: TileProgram, steps: list[Step]) -> Iterator[str]:
    """What is given back behind a read is so behind the last one of the tile, of that very read."""
    for before, step in itertools.pairwise(steps):
        if isinstance(step, ReleaseRead):
            width = program.storage.tmem_tile(ACC).columns
            if not isinstance(before, ReadAcc) or before.first != step.first:
                yield f"{step.id} does not stand right behind the read of {step.first}"
            elif step.last + before.read != width:
                yield f"{step.id} gives {width} columns back when {step.last + before.read} have been read"


def _own_registers(role: Role, steps: list[Step]) -> Iterator[str]:
    """An accumulator in registers is multiplied into, waited for, and read, in this order."""
    order = [kind for step in steps for kind in (Multiply, WaitMmas, ReadAcc) if isinstance(step, kind)]
    if list(dict.fromkeys(order)) != [Multiply, WaitMmas, ReadAcc] or order.count(WaitMmas) != 1:
        yield f"role {role.name} does not multiply, wait and read its accumulator in this order"


def stages_given_back(program: TileProgram) -> Iterator[str]:
    """Stages that are given back one stage later: the last one of a tile is too, once its MMAs are done."""
    if program.visits is None:
        return
    for role in program.roles:
        for loop in (step for step in role.steps if isinstance(step, TileLoop)):
            steps = list(walk(loop.body))
            late = {step.ring for step in steps if isinstance(step, WarpCommit) and step.behind}
            given = [step.ring for step in loop.body if isinstance(step, ReleaseLast)]
            if sorted(given) != sorted(late):
                named = ", ".join(given) or "no ring"
                yield f"role {role.name} gives the last stage back of {named}, not of {', '.join(sorted(late))}"
            done = [index for index, step in enumerate(steps) if isinstance(step, WaitMmas)]
            last = [index for index, step in enumerate(steps) if isinstance(step, ReleaseLast)]
            if last and not (done and done[0] < last[0]):
                yield f"role {role.name} gives the last stage back before its MMAs are done"


def shared_again(program: TileProgram) -> Iterator[str]:
    """No role reads shared memory for the tile before when the epilogue writes there for the next."""
    if program.visits is None:
        return
    for role in program.roles:
        steps = list(_in_loop(role))
        if any(isinstance(step, ResultStore) for step in steps) and not _before(steps, StoresRead, StageRow):
            yield f"role {role.name} writes results over those that copies still read"
        used = [step for step in steps if not isinstance(step, (*TAKING, RoleSync))]
        after = steps[steps.index(used[-1]) :] if used else []
        if any(isinstance(step, StageNumbers) for step in steps) and not any(isinstance(s, RoleSync) for s in after):
            yield f"role {role.name} brings numbers over those that a slower warp still reads"


def numbers_held(program: TileProgram) -> Iterator[str]:
    """Numbers in registers are there before the first tile, and each tile adds each of them to a column."""
    for role in program.roles:
        first = itertools.takewhile(lambda step: not isinstance(step, TileLoop | FetchLoop), role.steps)
        held = sum(step.columns for step in first if isinstance(step, HoldNumbers))
        added = sum(
            step.columns * times // (program.visits or 1)
            for step, times in executions(role.steps)
            if isinstance(step, AddBias) and step.held is not None
        )
        if held != added:
            yield f"role {role.name} holds {held} numbers before the first tile, and adds {added} to each"


def _in_loop(role: Role) -> Iterator[Step]:
    loops = (step for step in role.steps if isinstance(step, TileLoop | FetchLoop))
    return itertools.chain.from_iterable(walk(step.body) for step in loops)


def _before(steps: list[Step], first: type[Step], then: type[Step]) -> bool:
    """Whether a step of one kind comes before all of another."""
    kinds = [step for step in steps if isinstance(step, first | then)]
    return bool(kinds) and isinstance(kinds[0], first)


PERSISTENT_CHECKS: tuple[Callable[[TileProgram], Iterator[str]], ...] = (
    every_tile_once,
    tiles_fetched,
    accumulators_again,
    stages_given_back,
    shared_again,
    numbers_held,
)
