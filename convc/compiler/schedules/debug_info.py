"""What every step of a tile program covers: the record that findings take their coordinates from."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.plan.records import Plan
from convc.compiler.schedules.roles import column
from convc.compiler.tile.steps.base import Compute, Loop, Step, TileProgram
from convc.ir.debug_info import DebugInfo, Scope
from convc.ir.expr import Const, IntExpr, Var, substitute, to_json

COLUMN = "s"
"""What numbers and loop variables that are filter columns are called, before the mark of their buffer."""


def debug_info_of(plan: Plan, program: TileProgram) -> DebugInfo:
    """The record of a plan and its program."""
    value = {coordinate.name: coordinate.value for coordinate in plan.coordinates}
    pixel, channel = value["m"], value["k"]
    if "lane" in channel.variables():  # the accumulator is transposed: pixels are its columns
        pixel = substitute(pixel, {"lane": Var("column")})
    accumulator = next(tile for tile in plan.storage.tmem if tile.name == "acc")
    problem, pipeline = plan.problem, plan.pipeline
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
        block_channels=elements * pipeline.channels,
        in_channels=elements * problem.group_channels,
        steps={step.id: s for role in program.all_roles for step, s in _scopes(role.steps, (), (), _columns(plan))},
    )


def _columns(plan: Plan) -> dict[str, IntExpr]:
    """Filter columns that the names of steps and loops say, whether or not the kernel computes them."""
    if plan.reuse is None:
        return {}
    buffers = list(enumerate(plan.reuse.walk.buffers))
    if plan.schedule == "stationary":
        return {f"{COLUMN}_s{tap.s}": Const(tap.s) for _, buffer in buffers for tap in buffer.taps}
    found = {}
    for index, buffer in buffers:
        mark = f"_{index}" if len(buffers) > 1 else ""
        for which, position in ((mark, Var(f"i{mark}")), (f"_last{mark}", Const(len(buffer.taps) - 1))):
            found[f"{COLUMN}{which}"] = column(plan, "", which, buffer, position).expr
    return found


def _scopes(
    steps: tuple[Step, ...],
    loops: tuple[tuple[str, int], ...],
    numbers: tuple[tuple[str, IntExpr], ...],
    columns: dict[str, IntExpr],
) -> Iterator[tuple[Step, Scope]]:
    """Every step with the loops around it and the numbers computed before it in their bodies."""
    for step in steps:
        variables = {name for name, _ in loops}
        known = {name: expr for name, expr in columns.items() if expr.variables() <= variables} | dict(numbers)
        own, width = _column(step, [*variables, *known]), getattr(step, "columns", None) if "column" in known else None
        kept = tuple((name, to_json(expr)) for name, expr in known.items() if name in (own, "column"))
        yield step, Scope(loops=loops, numbers=kept, column=own, width=width)
        if isinstance(step, Compute):
            numbers = (*numbers, (step.dst, step.expr))
        elif isinstance(step, Loop):
            yield from _scopes(step.body, (*loops, (step.var, step.count)), numbers, columns)


def _column(step: Step, names: list[str]) -> str | None:
    """The filter column that a step is about: the one whose mark it carries."""
    marks = {name: name.removeprefix(COLUMN) for name in names if name == COLUMN or name.startswith(f"{COLUMN}_")}
    own = [name for name, mark in marks.items() if step.id.endswith(mark)]
    return max(own, key=len, default=None)
