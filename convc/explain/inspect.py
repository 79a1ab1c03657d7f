"""The page of ``convc inspect``: one layer from its loop nest to the text, with the reason for every decision.

Seven parts, each under its own heading: problem, loop nest, index maps with what was proved about them, plan
with the candidates it turned down, memory map, roles step by step, and the PTX with each line's step beside
it.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from convc import ptx
from convc.compiler.compile import Compiled
from convc.compiler.index.reuse import reuse_maps
from convc.compiler.index.show import map_lines, maps_lines
from convc.compiler.plan.coordinates import in_order
from convc.compiler.plan.names import ACC
from convc.compiler.plan.records import Plan, Rejection
from convc.compiler.plan.storage import Storage
from convc.compiler.tile.show import show
from convc.explain.estimate import estimate_lines
from convc.explain.schedules import choice_lines
from convc.explain.sharing import sharing_lines
from convc.explain.tiles import plan_maps, plan_tiles
from convc.report.console import print_heading, print_part
from convc.report.format import times
from convc.report.layout_notes import layout_notes

ROWS = 24
"""Rejected candidates that are listed."""


def print_inspection(console: Console, compiled: Compiled, fused: tuple[str, ...] = ()) -> None:
    """All parts, in order; `fused` are the nodes of the model that the kernel does as well."""
    plan = compiled.plan
    problem = [compiled.problem.describe()]
    if fused:
        problem.append(f"fused into it: {', '.join(fused)}")
    problem += layout_notes(compiled.layout)
    parts = (
        ("problem", problem),
        ("loop nest", plan_tiles(plan).loops()),
        ("index maps", _maps_lines(plan)),
        ("plan", _plan(plan)),
        ("schedules", choice_lines(plan)),
    )
    for heading, lines in parts:
        print_part(console, heading, lines)
    print_heading(console, "memory of one CTA")
    console.print(_memory(plan.storage))
    print_part(console, "roles and steps", show(compiled.program).splitlines())
    print_part(console, "PTX, with the step of each line", marked(compiled.artifact.ptx))


def marked(text: str) -> Iterator[str]:
    """The lines of a PTX text, each with its number and the step that its instructions belong to."""
    module = ptx.parse(text)
    steps = {i.span.line: i.step for kernel in module.kernels for i in kernel.body if i.step}
    width = max(map(len, steps.values()), default=0)
    for number, line in enumerate(text.splitlines(), 1):
        yield f"{number:5} {steps.get(number, ''):<{width}} | {line}"


def _plan(plan: Plan) -> Iterator[str]:
    """What was decided, why, and what was turned down."""
    pipeline = plan.pipeline
    launch = plan.launch
    work = plan.work
    yield f"schedule {plan.schedule.title} for {plan.arch.name}: {plan.tiling}"
    yield f"grid {' x '.join(map(str, launch.grid))} CTAs of {launch.threads} threads"
    yield (
        f"K loop: {times(pipeline.taps)} taps, {pipeline.blocks} blocks of {pipeline.channels} "
        f"channels: {pipeline.steps} steps of {pipeline.atoms} MMAs; a CTA loads {work.activation_bytes} bytes of "
        f"activations and {work.filter_bytes} of the filter"
    )
    yield from sharing_lines(plan)
    yield ""
    yield from estimate_lines(plan)
    yield ""
    yield "numbers that the kernel computes:"
    for coordinate in in_order(plan.indexing.coordinates):
        yield f"  {coordinate.name} = {coordinate.value}    ({coordinate.meaning})"
    yield ""
    if plan.alternatives:
        yield "other widths (of those about as fast, the plan takes the one that moves fewest bytes):"
    else:
        yield "no other widths"
    for other in plan.alternatives:
        yield f"  {other.tiling}: about {other.cycles:.0f} cycles, waits for {other.bottleneck}"
    yield "rejected candidates:" if plan.rejected else "no rejected candidates"
    yield from _rejections(plan.rejected)


def _maps_lines(plan: Plan) -> Iterator[str]:
    """The maps that the kernel's coordinates come from, and what was proved about them."""
    if plan.reuse is None:
        yield from maps_lines(plan_maps(plan))
        return
    for index_map in reuse_maps(plan.problem, plan.reuse).maps:
        yield from map_lines(index_map)
        yield ""
    yield from plan.indexing.derivation


def _rejections(rejected: tuple[Rejection, ...]) -> Iterator[str]:
    """The first rejected candidates with their reasons, and how many more there are."""
    for rejection in rejected[:ROWS]:
        who = "any tiling" if rejection.tiling is None else str(rejection.tiling)
        yield f"  {who}: {rejection.reason} [{rejection.rule}]"
    if len(rejected) > ROWS:
        yield f"  and {len(rejected) - ROWS} more"


def _memory(storage: Storage) -> Table:
    """Shared and tensor memory of a CTA, piece by piece."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("memory")
    for heading in ("from", "to", "bytes"):
        table.add_column(heading, justify="right")
    table.add_column("what", overflow="fold")
    for tile in storage.smem:
        what = f"tile {tile.name}: {tile.rows} rows of {tile.row_bytes} bytes, swizzle {tile.swizzle}"
        _row(table, "shared", tile.offset, tile.end, f"{what}, {tile.stages} stages")
    for ring in storage.rings:
        what = f"mbarriers {ring.name}[{ring.stages}]: {ring.producer} signals, {ring.consumer} waits"
        _row(table, "shared", ring.offset, ring.end, what)
    _row(table, "shared", storage.slot_offset, storage.slot_offset + 4, "address of the tensor memory")
    table.add_row("shared", "", "", str(storage.smem_bytes), "in all")
    for tile in storage.tmem:
        stages = f", {tile.stages} stages" if tile.stages > 1 else ""
        kind = "accumulator" if tile.name == ACC else "operand tile"
        what = f"{kind} {tile.name}: {tile.lanes} lanes of {tile.columns} 32-bit columns{stages}"
        first = tile.column_offset
        size = tile.lanes * (tile.end - first) * 4
        table.add_row("tensor", f"col {first}", f"col {tile.end}", str(size), what)
    table.add_row("tensor", "", "", str(512 * storage.tmem_columns), f"{storage.tmem_columns} columns in all")
    return table


def _row(table: Table, memory: str, first: int, end: int, what: str) -> None:
    """Add a piece of memory that runs from byte `first` to byte `end`, exclusive."""
    table.add_row(memory, str(first), str(end), str(end - first), what)
