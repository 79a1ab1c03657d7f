"""``tcgen05``: one lane issues, the accumulator lies in tensor memory, and other warps read it from there.

Warps 0 to 3 are the epilogue, since a warp reads only the 32 lanes of tensor memory that belong to its number; one warp
loads and one multiplies.
"""

from __future__ import annotations

from convc.compiler.plan.names import ACC, DONE, PEERS, Number
from convc.compiler.plan.records import Plan
from convc.compiler.plan.storage import SHARERS, BarrierRing
from convc.compiler.plan.work import row_chunk
from convc.compiler.schedules.base import Roles
from convc.compiler.schedules.cores.base import TensorCore
from convc.compiler.schedules.skeleton import enter, load_role, number, start_of, warps_role
from convc.compiler.tile.program import Role
from convc.compiler.tile.steps.base import (
    ClusterSync,
    Commit,
    Compute,
    CtaSync,
    RingWait,
    Step,
    TmemAlloc,
    TmemBase,
    TmemDealloc,
)
from convc.compiler.tile.steps.epilogue import TmemLoad
from convc.compiler.tile.steps.operands import Mma
from convc.ir.expr import IntExpr, Var

LOAD_WARP = 4
MMA_WARP = 5
WARPS = 6


class Tcgen05(TensorCore):
    """The tensor core of Blackwell."""

    product = Mma
    written_out = False

    def warps(self, rows: int, *, apart: bool = False) -> int:
        return WARPS

    def releases(self, rows: int) -> int:
        return 1

    def done(self) -> tuple[BarrierRing, ...]:
        return (BarrierRing(name=DONE, stages=1, producer="mma", consumer="epilogue"),)

    def release(
        self, id: str, note: str, ring: BarrierRing, *, before: IntExpr | None, closes: bool
    ) -> tuple[Step, ...]:
        return (Commit(id=id, note=note, ring=ring.name, ctas=PEERS if ring.at == SHARERS else None),)

    def complete(self) -> tuple[Step, ...]:
        return (Commit(id="mma.done", note="the accumulator is complete", ring=DONE),)

    def joined(self, roles: Roles) -> Roles:
        """Nothing: each role has warps of its own."""
        return roles

    def setup(self, plan: Plan, roles: Roles) -> tuple[Role, ...]:
        """Barriers and tensor memory, and whatever else the schedule needs before the roles begin."""
        alloc = Role(
            name="alloc",
            first_warp=MMA_WARP,
            last_warp=MMA_WARP,
            elected=False,
            note="get tensor memory",
            steps=(
                TmemAlloc(id="alloc.tmem", note="the address goes to shared memory", columns=plan.storage.tmem_columns),
            ),
        )
        start = warps_role(
            "start",
            WARPS - 1,
            "all roles begin together",
            (
                self.meet(plan, "start.sync", "barriers and tensor memory are ready"),
                TmemBase(id="start.tmem", note="where the tensor memory begins"),
                *enter(plan),
            ),
        )
        return (start_of(plan, LOAD_WARP), alloc, *roles.before, start, *roles.after)

    def main(self, plan: Plan, roles: Roles) -> tuple[Role, ...]:
        """The three roles that run side by side."""
        multiply = Role(
            name="mma",
            first_warp=MMA_WARP,
            last_warp=MMA_WARP,
            elected=True,
            note="multiplies them into the accumulator",
            steps=roles.multiply,
            leads=plan.tiling.ctas > 1,
        )
        epilogue = warps_role(
            "epilogue",
            3,
            "carries the accumulator to global memory",
            roles.epilogue,
        )
        return (load_role(LOAD_WARP, roles.load), multiply, epilogue)

    def teardown(self, plan: Plan) -> tuple[Role, ...]:
        """Everyone meets, then the tensor memory goes back."""
        end = warps_role(
            "end",
            WARPS - 1,
            "nobody leaves before the work is done",
            (self.meet(plan, "end.sync", "the accumulator has been read"),),
        )
        dealloc = Role(
            name="dealloc",
            first_warp=MMA_WARP,
            last_warp=MMA_WARP,
            elected=False,
            note="give tensor memory back",
            steps=(TmemDealloc(id="dealloc.tmem", note="all of it", columns=plan.storage.tmem_columns),),
        )
        return (end, dealloc)

    def meet(self, plan: Plan, id: str, note: str) -> Step:
        if plan.tiling.together > 1:
            return ClusterSync(id=id, note=note)
        return CtaSync(id=id, note=note)

    def columns(self, plan: Plan) -> int:
        return row_chunk(plan.tiling.block_n)

    def chunks(self, plan: Plan) -> int:
        return plan.tiling.block_n // self.columns(plan)

    def lane(self) -> tuple[Step, ...]:
        note = "warp w reads lanes 32*w to 32*w + 31"
        return (Compute(id="epilogue.lane", note=note, dst=number("lane"), expr=Var("thread")),)

    def accumulated(self) -> tuple[Step, ...]:
        return (RingWait(id="epilogue.wait", note="until the accumulator is complete", ring=DONE, starts_open=False),)

    def vacated(self, plan: Plan) -> tuple[Step, ...]:
        return ()

    def read(self, columns: int, slab: Number | None = None, slab_chunks: int = 0) -> tuple[Step, ...]:
        column = number("column")
        note = "first column of the chunk"
        return (
            Compute(id="epilogue.column", note=note, dst=column, expr=Var("chunk") * columns),
            TmemLoad(id="epilogue.read", note="one row a lane", acc=ACC, first=column, columns=columns),
        )
