"""Arrays of the epilogue: how a residual comes in, how results leave, and why so."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from convc.compiler.plan.constraints import TiledProblem
from convc.compiler.plan.cost import estimate
from convc.compiler.plan.records import Plan
from convc.compiler.plan.result_tile import result_pixels, result_rows
from convc.compiler.schedules.all import schedule_of
from convc.compiler.schedules.base import TMA, Ways
from convc.compiler.schedules.epilogue import holds_numbers
from convc.compiler.schedules.sharing.results import not_copied

HELD = "bias and scale stay in registers, as all tiles of a CTA have the same channels"


def around_lines(plan: Plan) -> Iterator[str]:
    """Say how a residual is loaded, if there is one, and how results are stored."""
    if plan.problem.residual:
        yield residual_line(plan)
    yield store_line(plan)


def residual_line(plan: Plan) -> str:
    """Say how a residual is loaded, and why: what the epilogue would take otherwise, or what forbids that."""
    took = f"about {plan.estimate.epilogue_cycles:.0f} cycles of a CTA"
    if plan.storage.residual is not None:
        read = estimate(_tiled(plan), replace(plan.work, residual_bytes=0)).epilogue_cycles
        how = "by tensor copies during the mainloop"
        return f"the residual is loaded {how}: the epilogue takes {took}, and {read:.0f} if its threads read it"
    reason = "as requested, or because it is no slower"
    if plan.storage.results is None:
        reason = "tensor copies would bring it to the staging buffer of the results, and there is none"
    return f"the residual is read by the threads of the epilogue: {reason}"


def store_line(plan: Plan) -> str:
    """Say how results are stored, and why: what the epilogue would take otherwise, or what forbids that."""
    tiled = _tiled(plan)
    results = plan.storage.results
    if results is not None:
        direct = estimate(tiled, replace(plan.work, slabs=0, residual_bytes=0)).epilogue_cycles
        took = f"about {plan.estimate.epilogue_cycles:.0f} cycles of a CTA, and {direct:.0f} by stores from registers"
        held = f"; {HELD}" if holds_numbers(plan) else ""
        return f"results are stored through SMEM by tensor copies: the epilogue takes {took}{held}"
    if TMA not in schedule_of(plan.schedule).stores:
        reason = f"tensor copies need output pixels as lanes, and {plan.schedule.title} has channels as lanes"
    elif plan.reuse is not None:
        reason = not_copied(plan.reuse, plan.layout, plan.arch, Ways(store=TMA))
    else:
        reason = result_pixels(plan.layout, plan.arch)
    reason = reason or result_rows(tiled) or "as requested, or because it is no slower"
    return f"results are stored from registers: {reason}"


def _tiled(plan: Plan) -> TiledProblem:
    """The problem and the tiles of a plan."""
    return TiledProblem(
        layout=plan.layout, arch=plan.arch, tiling=plan.tiling, need=plan.storage.need, grid=plan.launch.tiles
    )
