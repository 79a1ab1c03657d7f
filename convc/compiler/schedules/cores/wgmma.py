"""``wgmma``: four warps together multiply 64 rows, and have the accumulator in their registers.

One warp loads. All others multiply, and then run their epilogue: of a tile of 128 rows each warpgroup has a
half, and both read the same filter tile. A warp lies in a quarter of the SM, which has 16384 registers, so that 5 warps
may have 255 a thread and 9 warps 168. The widest accumulator takes 128, and with 9 warps ptxas then spills some of the
others where results leave from registers, and hardly any where they leave through copies. So the warp that loads may be
one of a warpgroup that hands most of its registers over (``setmaxnreg``, `convc.compiler.planner.search`). That
stands in front of either role: ptxas ignores it where one place of the text has both counts.

A stage is given back one stage later, when the next one is already being multiplied, so that the tensor core does not
run dry in between. Every warp gives it back for itself, as each waits for MMAs by itself (PTX, wgmma.wait_group);
in a cluster that shares loads, lane i of the warp tells the CTA of rank i.

Results leave from registers, or through shared memory: two lanes then write the halves of a row, and a copy carries the
16 rows of a warp away. What the epilogue reads ahead it brings before anything is multiplied.
"""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from convc.compiler.index.shares import share
from convc.compiler.plan.names import ACC, PEERS, NewNumber, Number
from convc.compiler.plan.records import Plan
from convc.compiler.plan.storage import SHARERS, BarrierRing
from convc.compiler.schedules.base import Roles
from convc.compiler.schedules.cores.base import TensorCore, first_that_divides
from convc.compiler.schedules.skeleton import enter, load_role, number, start_of, warps_role
from convc.compiler.tile.program import Role
from convc.compiler.tile.steps.base import Compute, Step
from convc.compiler.tile.steps.channels import StageNumbers
from convc.compiler.tile.steps.epilogue import FragmentLoad
from convc.compiler.tile.steps.mma import WarpgroupMma
from convc.compiler.tile.steps.persistent import RoleSync
from convc.compiler.tile.steps.rings import WaitMmas, WarpCommit
from convc.compiler.tile.steps.setup import ClusterSync, CtaSync, SetRegisters
from convc.ir.arch import SM_90A
from convc.ir.expr import IntExpr, Var

GROUP_WARPS = 4
LANE_COLUMNS = (16, 8)
"""Columns that a lane of the epilogue has at a time: half of a chunk that divides the tile."""

THREAD = "row of a wgmma thread"


class Wgmma(TensorCore):
    """The tensor core of Hopper."""

    product = WarpgroupMma
    written_out = True

    def warps(self, rows: int, *, apart: bool = False) -> int:
        return _multiplying(rows) + (GROUP_WARPS if apart else 1)

    def releases(self, rows: int) -> int:
        return _multiplying(rows)

    def done(self) -> tuple[BarrierRing, ...]:
        return ()

    def release(
        self, id: str, note: str, ring: BarrierRing, *, before: IntExpr | None, closes: bool
    ) -> tuple[Step, ...]:
        ctas = PEERS if ring.at == SHARERS else None
        if ring.stages == 1:
            return (WarpCommit(id=id, note=note, ring=ring.name, closes=closes, behind=0, counter=None, ctas=ctas),)
        counter = None
        steps: tuple[Step, ...] = ()
        if isinstance(before, Var):
            counter = NewNumber(number(before.name))
        elif before is not None:
            counter = number(f"{id.removeprefix('mma.')}_before")
            steps = (Compute(id=f"{id}_before", note="0 where no stage is before this one", dst=counter, expr=before),)
        commit = WarpCommit(id=id, note=note, ring=ring.name, closes=closes, behind=1, counter=counter, ctas=ctas)
        return (*steps, commit)

    def complete(self) -> tuple[Step, ...]:
        return (WaitMmas(id="mma.done", note="the accumulator is complete"),)

    def joined(self, roles: Roles) -> Roles:
        """One role multiplies and runs the epilogue."""
        staged = [index for index, step in enumerate(roles.epilogue) if isinstance(step, StageNumbers)]
        ahead = staged[0] + 1 if staged else 0  # so much of the epilogue can be done while the first copies come
        steps = (*roles.epilogue[:ahead], *roles.multiply, *roles.epilogue[ahead:])
        return dataclasses.replace(roles, multiply=steps, epilogue=())

    def setup(self, plan: Plan, roles: Roles) -> tuple[Role, ...]:
        """Barriers, and a place to meet."""
        load = _multiplying(plan.tiling.block_m)
        start = warps_role(
            "start",
            plan.launch.warps - 1,
            "all roles begin together",
            (_started(self.meet(plan, "start.sync", "mbarriers are initialised"), roles), *enter(plan, "start")),
        )
        return (*start_of(plan, load), *roles.before, start, *roles.after, *_giving(plan))

    def main(self, plan: Plan, roles: Roles) -> tuple[Role, ...]:
        """One role loads; the other multiplies and runs the epilogue."""
        load = _multiplying(plan.tiling.block_m)
        multiply = warps_role(
            "mma",
            load - 1,
            "multiplies them into registers, and stores the results",
            (*_taking(plan), *roles.multiply),
        )
        return (load_role(load, roles.load), multiply)

    def teardown(self, plan: Plan) -> tuple[Role, ...]:
        """Everyone meets."""
        end = warps_role(
            "end",
            plan.launch.warps - 1,
            "no warp exits before the others are done",
            (self.meet(plan, "end.sync", "the accumulator has been read"),),
        )
        return (end,)

    def meet(self, plan: Plan, id: str, note: str) -> Step:
        if plan.tiling.together > 1:
            return ClusterSync(id=id, note=note)
        return CtaSync(id=id, note=note)

    def columns(self, plan: Plan) -> int:
        """Pieces of 16 bytes: of a type with 8 bits 16 columns."""
        return first_that_divides(plan.tiling.block_n // 2, LANE_COLUMNS)

    def chunks(self, plan: Plan) -> int:
        return plan.tiling.block_n // (2 * self.columns(plan))

    def lane(self) -> tuple[Step, ...]:
        row = share(THREAD, "row", warp=share(THREAD, "warp"))
        note = "warp w has rows 16*w to 16*w + 15, four lanes two of them"
        return (
            Compute(id="epilogue.lane", note=note, dst=number("lane"), expr=row),
            Compute(id="epilogue.half", note="columns of the chunk", dst=number("half"), expr=share(THREAD, "half")),
        )

    def accumulated(self) -> tuple[Step, ...]:
        return ()

    def vacated(self, plan: Plan) -> tuple[Step, ...]:
        """All warps meet: each has waited for its own rows alone, and those of a filter tile are read by all.

        Results with a place of their own block nothing.
        """
        if plan.storage.results_apart:
            return ()
        threads = 32 * _multiplying(plan.tiling.block_m)
        return (RoleSync(id="epilogue.meet", note="all MMAs of the CTA are complete", threads=threads),)

    def read(self, columns: int, slab: Number | None = None, slab_chunks: int = 0) -> tuple[Step, ...]:
        column = number("column")
        first = share("pair of chunks", "column", CHUNK=columns, HALVES=2)
        return (
            Compute(id="epilogue.column", note="first column of the lane in the chunk", dst=column, expr=first),
            FragmentLoad(
                id="epilogue.read",
                note="each lane reads one row",
                acc=ACC,
                first=column,
                columns=columns,
                chunk=number("chunk"),
                row=number("lane"),
                slab=slab,
                slab_chunks=slab_chunks,
            ),
        )


def _started(meeting: Step, roles: Roles) -> Step:
    """The meeting at which a CTA begins; where nothing but barriers has been made ready, that is all it passes on."""
    return replace(meeting, started=not roles.before) if isinstance(meeting, ClusterSync) else meeting


def _giving(plan: Plan) -> tuple[Role, ...]:
    """The role in which the warpgroup that loads hands registers over; three of its warps do nothing else."""
    if plan.launch.registers is None:
        return ()
    give = SetRegisters(
        id="give.registers",
        note="frees registers for the warps that multiply",
        count=plan.launch.registers[0],
        more=False,
    )
    role = Role(
        name="give",
        first_warp=_multiplying(plan.tiling.block_m),
        last_warp=plan.launch.warps - 1,
        elected=False,
        note="frees registers",
        steps=(give,),
    )
    return (role,)


def _taking(plan: Plan) -> tuple[Step, ...]:
    """Wait for registers that were handed over, and have them."""
    if plan.launch.registers is None:
        return ()
    note = "waits until they are free"
    return (SetRegisters(id="mma.registers", note=note, count=plan.launch.registers[1], more=True),)


def _multiplying(rows: int) -> int:
    """Warps that multiply a tile of so many rows."""
    return GROUP_WARPS * (rows // SM_90A.limits.mma_m)
