"""What ``convc inspect`` says: one layer from its loop nest to the text, with the reason for every decision.

Seven parts, each under its own heading: problem, loop nest, index maps with what was proved about them, plan
with the candidates it turned down, memory map, roles step by step, and the PTX with each line's step beside
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table

from convc import ptx
from convc.compiler import Compiled
from convc.index.conv import ConvMaps, conv_maps
from convc.index.show import loop_nest, maps_lines
from convc.plan.records import Plan, Rejection, Storage
from convc.report.words import times
from convc.tile.show import show

ROWS = 24
"""Rejected candidates that are listed."""


def print_inspection(console: Console, compiled: Compiled) -> None:
    """All parts, in order."""
    plan = compiled.plan
    maps = _maps(plan)
    parts = (
        ("problem", (compiled.problem.describe(), *compiled.form.notes)),
        ("loop nest", loop_nest(maps)),
        ("index maps", maps_lines(maps)),
        ("plan", _plan(plan)),
    )
    for heading, lines in parts:
        _print(console, heading, lines)
    _heading(console, "memory of one CTA")
    console.print(_memory(plan.storage))
    _print(console, "roles and steps", show(compiled.program).splitlines())
    _print(console, "PTX, with the step of each line", marked(compiled.artifact.ptx))


def marked(text: str) -> Iterator[str]:
    """The lines of a PTX text, each with its number and the step that its instructions belong to."""
    module = ptx.parse(text)
    steps = {i.span.line: i.step for kernel in module.kernels for i in kernel.body if i.step}
    width = max(map(len, steps.values()), default=0)
    for number, line in enumerate(text.splitlines(), 1):
        yield f"{number:5} {steps.get(number, ''):<{width}} | {line}"


def _maps(plan: Plan) -> ConvMaps:
    """The index maps that the plan's coordinates were taken from."""
    return conv_maps(
        plan.problem,
        block_m=plan.tiling.block_m,
        block_n=plan.tiling.block_n,
        channels_per_step=plan.pipeline.channels,
        c_pitch=plan.form.c_pitch,
        k_pitch=plan.form.k_pitch,
    )


def _plan(plan: Plan) -> Iterator[str]:
    pipeline, launch = plan.pipeline, plan.launch
    yield f"schedule {plan.schedule} for {plan.arch.name}: {plan.tiling}"
    yield f"grid {' x '.join(map(str, launch.grid))} CTAs of {launch.threads} threads"
    yield (
        f"K loop: {times(pipeline.taps)} taps, {pipeline.blocks} blocks of {pipeline.channels} "
        f"channels: {pipeline.steps} steps of {pipeline.step_bytes} bytes and {pipeline.atoms} MMAs"
    )
    yield ""
    yield from plan.estimate.sentences
    yield ""
    yield "numbers that the kernel computes:"
    for coordinate in plan.coordinates:
        yield f"  {coordinate.name} = {coordinate.value}    ({coordinate.meaning})"
    yield ""
    if plan.alternatives:
        yield "other widths (of those about as fast, the plan takes the one that moves fewest bytes):"
    else:
        yield "no other widths"
    for other in plan.alternatives:
        yield f"  {other.tiling}: about {other.cycles:.0f} cycles, waits for {other.bound_by}"
    yield "rejected candidates:" if plan.rejected else "no rejected candidates"
    yield from _rejections(plan.rejected)


def _rejections(rejected: tuple[Rejection, ...]) -> Iterator[str]:
    for rejection in rejected[:ROWS]:
        who = "any tiling" if rejection.tiling is None else str(rejection.tiling)
        yield f"  {who}: {rejection.reason} [{rejection.rule}]"
    if len(rejected) > ROWS:
        yield f"  and {len(rejected) - ROWS} more"


def _memory(storage: Storage) -> Table:
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
        what = f"accumulator {tile.name}: {tile.lanes} lanes of {tile.columns} 32-bit columns"
        first = tile.column_offset
        table.add_row("tensor", f"col {first}", f"col {first + tile.columns}", str(tile.lanes * tile.columns * 4), what)
    table.add_row("tensor", "", "", str(512 * storage.tmem_columns), f"{storage.tmem_columns} columns in all")
    return table


def _row(table: Table, memory: str, first: int, end: int, what: str) -> None:
    table.add_row(memory, str(first), str(end), str(end - first), what)


def _heading(console: Console, heading: str) -> None:
    console.print(f"\n== {heading} ==", style="bold")


def _print(console: Console, heading: str, lines: Iterable[str]) -> None:
    _heading(console, heading)
    for line in lines:
        console.print(line, soft_wrap=True)
