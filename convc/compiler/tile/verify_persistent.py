"""A CTA that makes several tiles: every tile is made once, and nothing of one is in the way of the next.

Its roles walk over the same tiles, each at its own pace, so that what they hand to each other needs a ring. What one
role alone uses again (the tile of results, the numbers of the epilogue) it must not write while it is still read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from convc.compiler.plan.names import ACC
from convc.compiler.tile.program import Role, TileProgram, walk
from convc.compiler.tile.steps.base import Compute, RingWait, Step, WaitMmas, WarpCommit
from convc.compiler.tile.steps.epilogue import ReadAcc, StageNumbers
from convc.compiler.tile.steps.operands import Multiply
from convc.compiler.tile.steps.persistent import Release, ReleaseLast, RoleSync, StoresRead, TileLoop
from convc.compiler.tile.steps.staged import ResultStore, StageRow
from convc.compiler.tile.verify_order import PLACE
from convc.ir.expr import Const, FloorDiv, IntExpr, Mod, Var


def every_tile_once(program: TileProgram) -> Iterator[str]:
    """Every role of the main act walks over all tiles, each CTA from its own on, and no two tiles are the same."""
    if program.visits is None:
        return
    (ctas, height, _) = program.launch.grid
    if height != 1:
        yield f"CTAs that make several tiles lie in one row, the grid is {ctas} x {height}"
    for role in program.roles:
        loops = [step for step in role.steps if isinstance(step, TileLoop)]
        if len(loops) != 1:
            yield f"role {role.name} walks over tiles {len(loops)} times"
        for loop in loops:
            if (loop.stride, loop.first) != (ctas, "cta") or loop.limit < ctas:
                yield f"{loop.id} goes by {loop.stride} from {loop.first} on to {loop.limit}, the grid has {ctas} CTAs"
            if loop.count != -(-loop.limit // ctas):
                yield f"{loop.id} counts {loop.count} tiles, {ctas} CTAs make {loop.limit}"
            if program.ordered is None:
                yield from _places(loop)
    loops = [step for role in program.roles for step in role.steps if isinstance(step, TileLoop)]
    limits = {loop.limit for loop in loops}
    if len(limits) > 1:
        yield f"roles walk over different tiles: {sorted(limits)}"
    rows = {str(expr.b) for loop in loops for expr in _made(loop) if isinstance(expr, Mod | FloorDiv)}
    if program.ordered is None and len(rows) > 1:
        yield f"roles walk over tiles in columns of different heights: {', '.join(sorted(rows))}"


def _places(loop: TileLoop) -> Iterator[str]:
    """Row and column of a tile are remainder and quotient by one number, so that no two tiles have the same."""
    places = _made(loop)
    tile = Var(loop.var)
    rows = next((expr.b for expr in places if isinstance(expr, Mod | FloorDiv)), Const(1))
    for found, right in zip(places, (tile % rows, tile // rows), strict=True):
        if found not in (None, right):
            yield f"{loop.id} finds the place of a tile by {found}, which another one may have too"


def _made(loop: TileLoop) -> list[IntExpr | None]:
    """Row and column of a tile as a loop works them out; None where it does not."""
    made = {step.dst: step.expr for step in loop.body if isinstance(step, Compute)}
    return [made.get(name) for name in PLACE]


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
        rings = {ring.name for ring in program.storage.rings if ring.state == states[ACC]}
        waits = [index for index, step in enumerate(steps) if isinstance(step, RingWait) and step.ring in rings]
        if not waits or waits[0] > uses[0]:
            yield f"role {role.name} uses an accumulator and has not waited for it"
        given = [index for index, step in enumerate(steps) if isinstance(step, Release) and step.ring in rings]
        if given and given[0] < uses[-1]:
            yield f"role {role.name} gives an accumulator back and reads it afterwards"


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
    """Nobody reads shared memory for the tile before when the epilogue writes there for the next."""
    if program.visits is None:
        return
    for role in program.roles:
        steps = list(_in_loop(role))
        if any(isinstance(step, ResultStore) for step in steps) and not _before(steps, StoresRead, StageRow):
            yield f"role {role.name} writes results over those that copies still read"
        last = [isinstance(step, RoleSync) for step in steps[-1:]]
        if any(isinstance(step, StageNumbers) for step in steps) and last != [True]:
            yield f"role {role.name} brings numbers over those that a slower warp still reads"


def _in_loop(role: Role) -> Iterator[Step]:
    """The steps of a role for each tile."""
    return itertools.chain.from_iterable(walk(step.body) for step in role.steps if isinstance(step, TileLoop))


def _before(steps: list[Step], first: type[Step], then: type[Step]) -> bool:
    """Whether a step of one kind comes before all of another."""
    kinds = [step for step in steps if isinstance(step, first | then)]
    return bool(kinds) and isinstance(kinds[0], first)


PERSISTENT_CHECKS: tuple[Callable[[TileProgram], Iterator[str]], ...] = (
    every_tile_once,
    accumulators_again,
    stages_given_back,
    shared_again,
)
