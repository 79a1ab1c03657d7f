"""The outputs and inputs that every step covers: the record from which findings take their coordinates."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.plan.names import ACC
from convc.compiler.plan.records import Plan
from convc.compiler.tile.program import TileProgram
from convc.compiler.tile.steps.base import Compute, Repeat, Step
from convc.compiler.tile.steps.epilogue import ReadValues, ValueStep
from convc.compiler.tile.steps.split import ShareLoop
from convc.ir.debug_info import DebugInfo, Scope
from convc.ir.expr import IntExpr, Var, substitute, to_json

Loops = tuple[tuple[str, int], ...]


def debug_info_of(plan: Plan, program: TileProgram) -> DebugInfo:
    """The record of a plan and its program."""
    pixel = plan.indexing.coordinates.m.value
    channel = plan.indexing.coordinates.k.value
    if "lane" in channel.variables():  # the accumulator is transposed: pixels are its columns
        pixel = substitute(pixel, {"lane": Var("column")})
    accumulator = plan.storage.tmem_tile(ACC)
    problem = plan.problem
    pipeline = plan.pipeline
    elements = 1 if plan.layout.blocks is None else plan.layout.blocks.packed  # in what the kernel counts as a channel
    return DebugInfo(
        pixel=to_json(pixel),
        channel=to_json(channel),
        pixels=problem.gemm_m,
        channels=problem.out_channels,
        lanes=accumulator.lanes,
        columns=accumulator.columns,
        first_column=accumulator.column_offset,
        taps=pipeline.taps,
        blocks=pipeline.blocks,
        block_channels=0 if plan.layout.summed else elements * pipeline.channels,
        in_channels=elements * problem.group_channels,
        tiles=plan.launch.tiles if program.numbered else None,
        places=plan.launch.order.places,
        parts=plan.launch.parts,
        steps={step.id: scope for role in program.all_roles for step, scope in _scopes(role.steps, (), ())},
    )


def _scopes(steps: tuple[Step, ...], loops: Loops, nest: Loops) -> Iterator[tuple[Step, Scope]]:
    """Every step with the loops around it, the filter column that it is about, and its columns of the accumulator."""
    numbers: dict[str, IntExpr] = {}
    first: IntExpr | None = None
    for step in steps:
        if isinstance(step, Compute):
            numbers[step.dst] = step.expr
        if isinstance(step, ReadValues):
            first = numbers.get(step.first)
        width = step.columns if isinstance(step, ValueStep) and first is not None else None
        yield (
            step,
            Scope(
                loops=loops,
                tap_column=None if step.column is None else to_json(step.column),
                first_column=None if first is None or width is None else to_json(first),
                width=width,
                nest=nest,
            ),
        )
        if isinstance(step, Repeat):
            inside = step.nest if isinstance(step, ShareLoop) else nest
            yield from _scopes(step.body, (*loops, (step.var, step.count)), inside)
