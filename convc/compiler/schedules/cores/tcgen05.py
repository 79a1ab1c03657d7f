"""``tcgen05``: one lane issues, the accumulator lies in tensor memory, and other warps read it from there.

Warps 0 to 3 are the epilogue, since a warp reads only the 32 lanes of tensor memory that belong to its number; one warp
multiplies and one loads. The latter makes the barriers, and so need not wait for tensor memory, nor for lane masks: it
says that they are ready, and issues the first copies while the others still meet. CTAs that load or multiply for each
other know of each other's barriers before; they tell each other so before they ask for tensor memory. The two of a pair
get it together, and neither may ask before the other runs (PTX manual, "tcgen05.alloc"): its shared memory is written.

Who gives a stage back to other CTAs signals barriers of theirs, some time after its last MMA. So the warp that loads
waits at its end for the last signal of each stage: shared memory ends with its CTA.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from convc.compiler.index.shares import share
from convc.compiler.plan.names import ACC, DONE, PEERS, Number
from convc.compiler.plan.records import Plan
from convc.compiler.plan.storage import SHARERS, BarrierRing
from convc.compiler.plan.work import row_chunk
from convc.compiler.schedules.base import Roles
from convc.compiler.schedules.cores.base import TensorCore
from convc.compiler.schedules.features.early import early
from convc.compiler.schedules.skeleton import enter, load_role, number, one_warp, start_of, warps_role
from convc.compiler.tile.program import Role
from convc.compiler.tile.steps.base import Compute, Loop, Step
from convc.compiler.tile.steps.epilogue import TmemLoad
from convc.compiler.tile.steps.mma import Mma
from convc.compiler.tile.steps.rings import Advance, Commit, RingWait
from convc.compiler.tile.steps.setup import (
    ClusterSync,
    CtaSync,
    StartArrive,
    StartSync,
    TmemAlloc,
    TmemBase,
    TmemDealloc,
)
from convc.compiler.tile.steps.split import ClusterArrive, ClusterWait
from convc.ir.expr import IntExpr, Var

MMA_WARP = 4
LOAD_WARP = 5
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
        columns = plan.storage.tmem_columns
        memory = TmemAlloc(id="alloc.tmem", note="writes the base address to shared memory", columns=columns)
        get: tuple[Step, ...] = (memory,)
        threads = 32 * WARPS
        ready = StartArrive(id="begin.arrive", note="the mbarriers are initialised", threads=threads)
        sync = StartSync(id="start.sync", note="mbarriers are initialised, tensor memory is allocated", threads=threads)
        base = TmemBase(id="start.tmem", note="base address of tensor memory")
        told: tuple[Role, ...] = ()
        met: tuple[Role, ...] = ()
        begin: tuple[Step, ...] = (ready, *enter(plan, "begin", alone=True))
        start: tuple[Step, ...] = (sync, base, *enter(plan, "start"))
        if plan.tiling.together > 1:
            arrive = ClusterArrive(id="meet.arrive", note="the barriers of this CTA are ready", started=True)
            told = (warps_role("meet", WARPS - 1, "other CTAs may use the barriers", (arrive,)),)
            note = "those of the other CTAs are"
            begin = (ClusterWait(id="begin.met", note=note), *begin)
            if plan.tiling.ctas > 1:
                get = (ClusterWait(id="alloc.met", note="the other CTA of the pair runs"), memory)
                wait = ClusterWait(id="met.wait", note=note)
                met = (warps_role("met", MMA_WARP - 1, "the other CTA is ready", (wait,)),)
            else:
                start = (ClusterWait(id="start.met", note=note), *start)
        alloc = one_warp("alloc", MMA_WARP, "get tensor memory", (*early(plan, roles.load), *get))
        loads = one_warp("begin", LOAD_WARP, "go on as soon as there are barriers", begin)
        others = warps_role("start", MMA_WARP, "all others begin together", start)
        before = tuple(replace(role, leads=plan.tiling.ctas > 1) for role in roles.before)
        return (*start_of(plan, LOAD_WARP), *told, alloc, *before, loads, *met, others, *roles.after)

    def main(self, plan: Plan, roles: Roles) -> tuple[Role, ...]:
        """The three roles that run side by side."""
        multiply = one_warp("mma", MMA_WARP, "multiplies them into the accumulator", roles.multiply, elected=True)
        epilogue = warps_role("epilogue", 3, "carries the accumulator to global memory", roles.epilogue)
        load = (*roles.load, *_last_signals(plan))
        return (load_role(LOAD_WARP, load), replace(multiply, leads=plan.tiling.ctas > 1), epilogue)

    def teardown(self, plan: Plan) -> tuple[Role, ...]:
        """Everyone meets, then the tensor memory goes back."""
        end = warps_role(
            "end",
            WARPS - 1,
            "no warp exits before the others are done",
            (self.meet(plan, "end.sync", "the accumulator has been read"),),
        )
        free = TmemDealloc(id="dealloc.tmem", note="all columns", columns=plan.storage.tmem_columns)
        return (end, one_warp("dealloc", MMA_WARP, "give tensor memory back", (free,)))

    def meet(self, plan: Plan, id: str, note: str) -> Step:
        if plan.tiling.together > 1:
            return ClusterSync(id=id, note=note)
        return CtaSync(id=id, note=note)

    def cleared(self, plan: Plan) -> Role:
        """Of a CTA by itself all meet but the warp that loads, which has no use for the accumulator."""
        if plan.tiling.together > 1:
            return super().cleared(plan)
        step = StartSync(id="ready.sync", note="the accumulator is zero", threads=32 * LOAD_WARP)
        return warps_role("ready", MMA_WARP, "nobody multiplies before it is clear", (step,))

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
            Compute(id="epilogue.column", note=note, dst=column, expr=share("chunk", "column", CHUNK=columns)),
            TmemLoad(id="epilogue.read", note="each lane reads one row", acc=ACC, first=column, columns=columns),
        )


def _last_signals(plan: Plan) -> Iterator[Step]:
    """The end of the role that loads where other CTAs give its stages back: it waits until all of them have."""
    for ring in plan.storage.rings:
        if ring.consumer == "load" and ring.at in ("all", SHARERS):
            wait = RingWait(
                id=f"load.last_{ring.name}",
                note="until the other CTAs have released it",
                ring=ring.name,
                starts_open=True,
                last=True,
            )
            turn = Advance(id=f"load.end_{ring.name}", note="next stage", stages=ring.stages, state=ring.state)
            yield Loop(
                id=f"load.stages_{ring.name}",
                note="all stages, before the CTA exits",
                var=number(f"last_{ring.name}"),
                count=ring.stages,
                body=(wait, turn),
            )
