"""The steps of a residual that tensor copies bring (`convc.compiler.plan.residual_tile`)."""

from __future__ import annotations

from convc.compiler.index.shares import share
from convc.compiler.plan.coordinates import Coordinate, Coordinates, RowCoordinates
from convc.compiler.plan.names import EMPTY_R, FULL_R, Number, R
from convc.compiler.plan.records import Plan
from convc.compiler.schedules.skeleton import MAP_RESIDUAL, compute, like, number
from convc.compiler.tile.steps.base import Compute, Loop, Step
from convc.compiler.tile.steps.copies import TmaLoad
from convc.compiler.tile.steps.persistent import Release
from convc.compiler.tile.steps.rings import Advance, ExpectBytes, RingWait
from convc.compiler.tile.steps.staged import SlabResidual, StageRow
from convc.compiler.tile.steps.stores import ADD
from convc.ir.expr import Const, Var

NOT_MOVED = Number("off_r")
"""The offset of an im2col copy that reads what lies at its pixels."""


def read_by_threads(plan: Plan) -> bool:
    """Whether threads read a residual from global memory."""
    return plan.problem.residual and plan.storage.residual is None


def load_residual(plan: Plan) -> tuple[Step, ...]:
    """Copy the residual of a tile, behind its operands: it is needed when the accumulator is complete."""
    tile = plan.storage.residual
    source = plan.indexing.loads.residual
    if tile is None or source is None:
        return ()
    firsts = _starts(plan.indexing.coordinates)
    slab = number("slab")
    columns = tile.row_bytes // plan.problem.out_dtype.bytes
    first_k = compute(
        plan.indexing.coordinates.k, "load", dst=Number("slab_k"), column=share("slab", "first", SLAB=columns)
    )
    windows = tile.rows // source.rows
    copy = TmaLoad(
        id="load.residual",
        note="rows and channels outside the output are filled with zeros",
        map=MAP_RESIDUAL,
        tile=R,
        ring=FULL_R,
        coords=(first_k.dst, *(each.name for each in firsts)),
        offsets=() if source.mode == "tile" else (NOT_MOVED, NOT_MOVED),
        at=Number("at_r") if windows > 1 else None,
    )
    body = (
        first_k,
        RingWait(id="load.wait_r", note="until the previous slab has been added", ring=EMPTY_R, starts_open=True),
        ExpectBytes(id="load.expect_r", note="one slab of the residual", ring=FULL_R, bytes=tile.bytes),
        *(_window_copies(firsts, copy, windows, source.rows * tile.row_bytes) if windows > 1 else (copy,)),
        Advance(id="load.next_r", note="next slab", stages=tile.stages, state=tile.state),
    )
    once: list[Step] = []
    if copy.offsets:
        once.append(Compute(id="load.off_r", note="no offset", dst=number(NOT_MOVED), expr=Const(0)))
    if windows == 1:
        once += (compute(each, "load", warp=Const(0)) for each in firsts)
    note = f"{columns} columns a copy"
    return (*once, Loop(id="load.slabs", note=note, var=slab, count=tile.stages, body=body))


def _starts(coordinates: Coordinates) -> tuple[Coordinate, ...]:
    """Where a warp's first row lies in the map over the residual, behind its first channel."""
    if coordinates.first_m is not None:
        return (coordinates.first_m,)
    if isinstance(coordinates, RowCoordinates) and coordinates.first_pixel:
        return coordinates.first_pixel
    raise TypeError("a residual that is copied lies as results that are")


def _window_copies(firsts: tuple[Coordinate, ...], copy: TmaLoad, windows: int, step: int) -> tuple[Step, ...]:
    """A copy for every window of a tile, each so many bytes behind the one before."""
    window = number("window_r")
    at = share("window of a slab", "byte", PIECE_BYTES=step, window=Var(window))
    place = Compute(id="load.at_r", note="32 rows per window", dst=number("at_r"), expr=at)
    starts = (compute(each, "load", warp=Var(window)) for each in firsts)
    note = "one copy per sub-partition"
    return (Loop(id="load.windows_r", note=note, var=window, count=windows, body=(*starts, place, copy)),)


def add_slab(stage: StageRow) -> SlabResidual:
    """The step that adds what copies have brought for the values that a step will stage."""
    return like(SlabResidual, stage, id="epilogue.residual", note="in the layout of the results", tile=R, use=ADD)


def landed(plan: Plan, body: tuple[Step, ...]) -> tuple[Step, ...]:
    """Steps that use a slab of the residual, between the wait for it and its release."""
    tile = plan.storage.smem_tile(R)
    return (
        RingWait(id="epilogue.landed_r", note="until this slab has landed", ring=FULL_R, starts_open=False),
        *body,
        Release(id="epilogue.added_r", note="the stage may be overwritten", ring=EMPTY_R),
        Advance(id="epilogue.next_r", note="next slab", stages=tile.stages, state=tile.state),
    )
