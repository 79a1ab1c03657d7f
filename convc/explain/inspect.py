"""The page of ``convc inspect``: one layer, the answer first, then every stage from its loops to the text.

A summary says which schedule the layer got and why; it is what a layer shows by default. Below are the sections, each
of which can be asked for alone: what the schedules would cost, the plan, the loop nest, the index maps with what was
proved about them, the memory map, the roles step by step, and the PTX with each line's step beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
from rich.console import Console
from rich.table import Table

from convc import ptx
from convc.build.folder import LayerRecord
from convc.compiler.compile import Compiled
from convc.compiler.index.columns import layout_maps
from convc.compiler.index.conv import all_maps
from convc.compiler.index.maps import IndexMap, by_theorem
from convc.compiler.index.reuse import reuse_maps
from convc.compiler.plan.columns import columns_of
from convc.compiler.plan.coordinates import in_order
from convc.compiler.plan.names import ACC
from convc.compiler.plan.records import Plan, Rejection, to_json
from convc.compiler.plan.storage import Storage
from convc.compiler.plan.summed import READ as SUMMED_MAPS
from convc.compiler.plan.tap_maps import cluster_maps
from convc.compiler.tile.show import show
from convc.explain.estimate import estimate_lines, order_lines
from convc.explain.schedules import print_choices
from convc.explain.sharing import sharing_lines
from convc.explain.summary import LABEL, summary_lines
from convc.explain.tiles import kernel_nest, plan_maps
from convc.explain.why import why_lines
from convc.ir.network import ConvNode
from convc.ir.planned import read_planned
from convc.report.console import print_heading, print_prose
from convc.report.format import counted, times
from convc.report.output import json_text


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedLayer:
    """One layer and how its kernel came about.

    Attributes:
        node: the convolution as the model has it (tensors, and what was fused into it), or the record of a build.
        compiled: every stage of its compilation.
        written: the kernel's text in the build folder; None where the layer comes from a model.
        edited: that text, or its launch file, was changed since the build was written.
    """

    node: ConvNode | LayerRecord
    compiled: Compiled
    written: str | None = None
    edited: bool = False

    @property
    def text(self) -> str:
        """The kernel's PTX; of a build, as its folder has it."""
        return self.compiled.artifact.ptx if self.written is None else self.written


Show = Callable[[Console, Compiled, str], None]
"""Prints a section of a layer: on a console, from its compilation, with the text of its kernel."""


def _lines(lines: Callable[[Plan], Iterable[str]]) -> Show:
    """A section that is lines about the plan, as those of a program are."""

    def show_lines(console: Console, compiled: Compiled, text: str) -> None:
        for line in lines(compiled.plan):
            console.print(line, soft_wrap=True)

    return show_lines


def _prose(lines: Callable[[Plan], Iterable[str]]) -> Show:
    """A section that is sentences about the plan."""

    def show_prose(console: Console, compiled: Compiled, text: str) -> None:
        print_prose(console, lines(compiled.plan), hang=4)

    return show_prose


def _show_choices(console: Console, compiled: Compiled, text: str) -> None:
    print_choices(console, compiled.plan)


def _show_memory(console: Console, compiled: Compiled, text: str) -> None:
    console.print(_memory(compiled.plan.storage))


def _show_steps(console: Console, compiled: Compiled, text: str) -> None:
    for line in show(compiled.program).splitlines():
        console.print(line, soft_wrap=True)


def _show_text(console: Console, compiled: Compiled, text: str) -> None:
    for line in marked(text):
        console.print(line, soft_wrap=True)


def print_summary(console: Console, layer: InspectedLayer) -> None:
    """The answer on a screen: what the layer is, which kernel it has and why, and how long that takes."""
    print_heading(console, layer.node.name)
    lines = summary_lines(layer.compiled, layer.node.fused, layer.written, layer.edited)
    print_prose(console, lines, hang=LABEL)


def print_inspection(console: Console, layer: InspectedLayer, only: Sequence[str] | None = None) -> None:
    """A layer: the summary and all sections, or some of them in the order in which they are named.

    ``only``: names of `SECTIONS`; the summary is printed with all of them alone.
    """
    if only is None:
        print_summary(console, layer)
    for name in SECTIONS if only is None else only:
        heading, show_section = SECTIONS[name]
        print_heading(console, heading)
        show_section(console, layer.compiled, layer.text)


def inspection_json(layer: InspectedLayer) -> bytes:
    """A layer as JSON: its problem, the estimate and the plan of its kernel, and why it has that schedule."""
    plan = to_json(layer.compiled.plan)
    return json_text(
        {
            "format": "convc-inspect/1",
            "layer": layer.node.name,
            "fused": layer.node.fused,
            "problem": layer.compiled.layout.model,
            "schedule": layer.compiled.schedule,
            "why": list(why_lines(layer.compiled.plan)),
            "estimate": read_planned(plan),
            "plan": msgspec.Raw(plan),
        }
    )


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
    yield f"grid {' x '.join(map(str, launch.grid))} CTAs of {launch.threads} threads: {launch.why.persistent}"
    if launch.why.pairs:
        yield f"clusters of {' x '.join(map(str, launch.cluster))} CTAs: {launch.why.pairs}"
    if launch.parts > 1:
        yield launch.why.split
    if launch.why.multicast:
        yield f"clusters of {' x '.join(map(str, launch.cluster))} CTAs: {launch.why.multicast}"
    if launch.why.registers:
        yield f"registers: {launch.why.registers}"
    yield from order_lines(launch)
    yield from launch.hints.why
    blocks = counted(pipeline.blocks, "block")
    size = f"{times(pipeline.taps)} taps, {blocks} of {pipeline.channels} channels"
    if plan.layout.summed:
        size = f"MN-major operands, {blocks} of {pipeline.channels} pixels"
    yield (
        f"K loop: {size}: {counted(pipeline.steps, 'step')} of {counted(pipeline.atoms, 'MMA')}; a CTA loads "
        f"{work.activation_bytes} bytes of activations and {work.filter_bytes} of the filter"
    )
    yield from sharing_lines(plan)
    yield ""
    yield from estimate_lines(plan)
    yield ""
    yield "coordinates that the kernel computes:"
    for coordinate in in_order(plan.indexing.coordinates):
        yield f"  {coordinate.name} = {coordinate.value}    ({coordinate.meaning}; {by_theorem(coordinate.theorem)})"
    yield ""
    if plan.alternatives:
        yield "other tile widths (of equally fast ones on as many SMs, the one with the least traffic is chosen):"
    else:
        yield "no other tile widths"
    for other in plan.alternatives:
        yield f"  {other.tiling}: about {other.cycles:.0f} cycles, waits for {other.bottleneck}"
    yield from _rejections(plan.rejected)


def _maps_lines(plan: Plan) -> Iterator[str]:
    """The maps that the kernel's coordinates come from, and what was proved about them."""
    if plan.layout.columns != "off" and not plan.layout.summed:
        for index_map in layout_maps(columns_of(plan.layout, plan.indexing.loads.a)):
            yield from index_map.lines()
            yield ""
    if plan.reuse is None:
        maps = plan_maps(plan)
        if plan.layout.summed:
            yield from _all_lines(map(maps.map, SUMMED_MAPS))
            yield from plan.indexing.derivation
            return
        for index_map in all_maps(maps):
            yield from index_map.lines()
            yield ""
        rows = None if plan.storage.results is None else plan.arch.limits.warp_rows
        for index_map in cluster_maps(maps, plan.tiling, rows):
            yield from index_map.lines()
            yield ""
        yield from plan.indexing.derivation
        return
    for index_map in reuse_maps(plan.problem, plan.reuse).maps:
        yield from index_map.lines()
        yield ""
    yield from plan.indexing.derivation


def _all_lines(maps: Iterable[IndexMap]) -> Iterator[str]:
    for index_map in maps:
        yield from index_map.lines()
        yield ""


def _rejections(rejected: tuple[Rejection, ...]) -> Iterator[str]:
    """Rejected candidates by the rule that they break: how many, and the first of them with its numbers."""
    if not rejected:
        yield "no rejected candidates"
        return
    yield "rejected candidates, by rule:"
    by_rule: dict[str, list[Rejection]] = {}
    for rejection in rejected:
        by_rule.setdefault(rejection.rule, []).append(rejection)
    for rule, found in by_rule.items():
        first = found[0]
        tiling = "any tiling" if first.tiling is None else str(first.tiling)
        such = "" if len(found) == 1 else "for example "
        yield f"  {rule}, {len(found)}: {such}{tiling}: {first.reason}"


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
    if storage.results is not None:
        tile = storage.results
        what = f"tile {tile.name}: {tile.rows} rows of {tile.row_bytes} bytes, swizzle {tile.swizzle}"
        _row(table, "shared", tile.offset, tile.end, f"{what}, {tile.stages} slabs, reuses the stages at the end")
    if storage.residual is not None:
        tile = storage.residual
        what = f"tile {tile.name}: {tile.rows} rows of {tile.row_bytes} bytes, swizzle {tile.swizzle}"
        _row(table, "shared", tile.offset, tile.end, f"{what}, {tile.stages} slabs of the residual")
    if storage.numbers is not None:
        tile = storage.numbers
        _row(table, "shared", tile.offset, tile.end, f"bias: {tile.rows} rows of {tile.row_bytes} bytes")
    for ring in storage.rings:
        what = f"mbarriers {ring.name}[{ring.stages}]: {ring.producer} signals, {ring.consumer} waits"
        _row(table, "shared", ring.offset, ring.end, what)
    if storage.tmem_columns:
        _row(table, "shared", storage.slot_offset, storage.slot_offset + 4, "tensor-memory address")
    table.add_row("shared", "", "", str(storage.smem_bytes), "total")
    for tile in storage.tmem:
        stages = f", {tile.stages} stages" if tile.stages > 1 else ""
        kind = "accumulator" if tile.name == ACC else "operand tile"
        what = f"{kind} {tile.name}: {tile.lanes} lanes of {tile.columns} 32-bit columns{stages}"
        first = tile.column_offset
        size = tile.lanes * (tile.end - first) * 4
        memory = "tensor" if storage.tmem_columns else "registers"
        table.add_row(memory, f"col {first}", f"col {tile.end}", str(size), what)
    if storage.tmem_columns:
        table.add_row("tensor", "", "", str(512 * storage.tmem_columns), f"total: {storage.tmem_columns} columns")
    return table


def _row(table: Table, memory: str, first: int, end: int, what: str) -> None:
    """Add a piece of memory that runs from byte `first` to byte `end`, exclusive."""
    table.add_row(memory, str(first), str(end), str(end - first), what)


SECTIONS: dict[str, tuple[str, Show]] = {
    "schedules": ("schedules", _show_choices),
    "plan": ("plan", _prose(_plan)),
    "loops": ("loop nest", _lines(lambda plan: kernel_nest(plan).lines())),
    "maps": ("index maps", _prose(_maps_lines)),
    "memory": ("memory of one CTA", _show_memory),
    "steps": ("roles and steps", _show_steps),
    "ptx": ("PTX, with the step of each line", _show_text),
}
"""The sections of a layer by the names that pick them, in order: heading, and what prints it."""
