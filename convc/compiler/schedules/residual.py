"""The steps of a residual that tensor copies bring (`convc.compiler.plan.residual_tile`)."""

from __future__ import annotations

from convc.compiler.plan.coordinates import Coordinate
from convc.compiler.plan.names import EMPTY_R, FULL_R, Number, R
from convc.compiler.plan.records import Plan
from convc.compiler.schedules.skeleton import MAP_RESIDUAL, compute, like, number
from convc.compiler.tile.steps.base import Advance, ExpectBytes, Loop, RingWait, Step
from convc.compiler.tile.steps.operands import TmaLoad
from convc.compiler.tile.steps.persistent import Release
from convc.compiler.tile.steps.staged import AddSlabResidual, StageRow
from convc.ir.expr import Const, Var


def read_by_threads(plan: Plan) -> bool:
    """Whether threads read a residual from global memory."""
    return plan.problem.residual and plan.storage.residual is None


def load_residual(plan: Plan, first_m: Coordinate | None) -> tuple[Step, ...]:
    """Copy the residual of a tile, behind its operands: it is needed when the accumulator is complete.

    Args:
        plan: of the kernel.
        first_m: output pixel of a warp's first row.
    """
    tile = plan.storage.residual
    if tile is None:
        return ()
    assert first_m is not None, "a residual that is copied lies as results that are"
    slab = number("slab")
    columns = tile.row_bytes // plan.problem.out_dtype.bytes
    first_k = compute(plan.indexing.coordinates.k, "load", dst=Number("slab_k"), column=Var(slab) * columns)
    body = (
        first_k,
        RingWait(id="load.wait_r", note="until the slab before has been added", ring=EMPTY_R, starts_open=True),
        ExpectBytes(id="load.expect_r", note="one slab of the residual", ring=FULL_R, bytes=tile.bytes),
        TmaLoad(
            id="load.residual",
            note="rows and channels behind the output arrive as zeros",
            map=MAP_RESIDUAL,
            tile=R,
            ring=FULL_R,
            coords=(first_k.dst, first_m.name),
        ),
        Advance(id="load.next_r", note="next slab", stages=tile.stages, state=tile.state),
    )
    first_row = compute(first_m, "load", warp=Const(0))
    return first_row, Loop(id="load.slabs", note=f"{columns} columns a copy", var=slab, count=tile.stages, body=body)


def add_slab(stage: StageRow) -> AddSlabResidual:
    """The step that adds what copies have brought for the values that a step will stage."""
    return like(AddSlabResidual, stage, id="epilogue.residual", note="as the results will lie", tile=R)


def landed(plan: Plan, body: tuple[Step, ...]) -> tuple[Step, ...]:
    """Steps that use a slab of the residual, between the wait for it and its release."""
    tile = plan.storage.smem_tile(R)
    return (
        RingWait(id="epilogue.landed_r", note="until this slab has landed", ring=FULL_R, starts_open=False),
        *body,
        Release(id="epilogue.added_r", note="its place is free for the next one", ring=EMPTY_R),
        Advance(id="epilogue.next_r", note="next slab", stages=tile.stages, state=tile.state),
    )
