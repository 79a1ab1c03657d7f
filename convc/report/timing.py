"""Times as people read them: one line a layer, or all that is known of one kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from convc.report.console import print_heading
from convc.timing.assembler import Assembly
from convc.timing.attribution import Part
from convc.timing.kernel import Dependence, KernelTime, spread
from convc.timing.passes import steps

if TYPE_CHECKING:
    from convc.report.schemas import AssemblyJson, TimedLayer, TimeJson
    from convc.timing.tensor_core import MmaShape

Row = tuple[str, str, float | None, KernelTime]
"""Name and schedule of a layer, its rate in TFLOP/s, its kernel's time."""

MOST_PARTS = 12
"""Lines of the critical path that are shown."""

COLUMNS = ("layer", "schedule", "cycles", "us", "TFLOP/s", "tensor core", "waits for")

LEGEND = (
    "tensor core: share of the time in which it multiplies; waits for: the largest parts of the critical path. "
    "Estimates of a model: convc time --layer NAME says what each rests on."
)


def print_times(console: Console, rows: Iterable[Row]) -> None:
    """A table with a line for each layer, and the total."""
    table = Table(box=None, pad_edge=False)
    for heading in COLUMNS:
        table.add_column(heading, justify="left" if heading in ("layer", "schedule", "waits for") else "right")
    total = 0.0
    for name, schedule, rate, kernel in rows:
        total += kernel.microseconds
        table.add_row(*cells(name, schedule, rate, kernel))
    console.print(table)
    console.print(f"{total:.1f} us in all, the kernels alone")
    console.print(LEGEND)


def cells(name: str, schedule: str, rate: float | None, kernel: KernelTime) -> tuple[str, ...]:
    """The columns of a layer."""
    busy = kernel.launch.use["tensor core"]
    return (
        name,
        schedule,
        f"{kernel.cycles:.0f}",
        f"{kernel.microseconds:.2f}",
        "" if rate is None else f"{rate:.1f}",
        f"{100 * busy:.0f} %",
        waits(kernel),
    )


def waits(kernel: KernelTime, most: int = 2) -> str:
    """The largest parts of a kernel's critical path, by cause."""
    return ", ".join(f"{cause} {100 * share:.0f} %" for cause, share in list(kernel.waits.items())[:most])


def print_kernel(console: Console, row: Row) -> None:
    """Everything about one kernel."""
    name, schedule, rate, kernel = row
    launch = kernel.launch
    rests = kernel.dependences()
    range_us = kernel.microseconds * spread(rests)
    console.print(f"{name}{f' ({schedule})' if schedule else ''} on {kernel.chip.name}")
    console.print(
        f"{kernel.cycles:.0f} cycles, {kernel.microseconds:.2f} us at {kernel.chip['chip.clock']:g} GHz "
        f"(+- {range_us:.2f} us by the ranges of the parameters)"
    )
    if rate is not None:
        console.print(f"{rate:.1f} TFLOP/s")
    rounds = "1 round" if launch.rounds == 1 else f"{launch.rounds} rounds"
    console.print(
        f"{kernel.ctas} CTAs on {launch.busy} SMs, up to {launch.beside} on each, in {rounds}; L2 gives each SM "
        f"{launch.l2:.0f} B/clk"
    )
    if kernel.assembly is not None:
        _print_assembly(console, kernel.assembly)
    print_heading(console, "units of an SM, share of the first round in which they work")
    for unit, share in launch.use.items():
        console.print(f"{unit:14} {100 * share:5.1f} %")
    print_heading(console, "critical path of the first round: what it waits for")
    _print_parts(console, kernel.parts)
    print_heading(console, "numbers that the answer rests on by 2 % and more")
    for one in rests:
        console.print(_rests(one))
    if not rests:
        console.print("none: no parameter's range moves it as much")


def _print_assembly(console: Console, made: Assembly) -> None:
    """What ptxas made of the text."""
    print_heading(console, "what ptxas made of it")
    console.print(
        f"{len(made.code)} instructions, {made.registers} registers a thread, {made.spill_bytes} bytes of spills, "
        f"{made.stack_bytes} bytes of stack"
    )
    for loop in made.lane_loops:
        console.print(f"line {loop.line}: a loop over lanes around {loop.opcode}, {loop.cycles} cycles a turn")
    if not made.lane_loops:
        console.print("no loop over lanes around a copy or an operation of the tensor core")


def _print_parts(console: Console, parts: tuple[Part, ...]) -> None:
    """The critical path, its largest parts first."""
    total = sum(part.cycles for part in parts)
    table = Table(box=None, pad_edge=False)
    table.add_column("step")
    table.add_column("waits for")
    table.add_column("cycles", justify="right")
    table.add_column("share", justify="right")
    for part in parts[:MOST_PARTS]:
        table.add_row(part.step, part.cause, f"{part.cycles:.0f}", f"{100 * part.cycles / total:.1f} %")
    rest = sum(part.cycles for part in parts[MOST_PARTS:])
    if rest:
        table.add_row("", "all others", f"{rest:.0f}", f"{100 * rest / total:.1f} %")
    console.print(table)


def _rests(one: Dependence) -> str:
    """A number that matters, with its class and what its range does."""
    return f"{one.name} ({one.evidence}): {100 * one.low:+.1f} % to {100 * one.high:+.1f} %"


def print_passes(console: Console, kernel: KernelTime, count: int = 2) -> None:
    """The first steps of the tensor core for each shape of MMA in a kernel."""
    for shape in kernel.shapes:
        print_heading(console, f"{count} tcgen05.mma of {shape.m} x {shape.n}, step by step")
        _print_steps(console, shape, kernel, count)


def _print_steps(console: Console, shape: MmaShape, kernel: KernelTime, count: int) -> None:
    """The steps of a chain, each in a line."""
    console.print("mma cycle cycles unit      sub-core lanes    columns  port bytes  accumulator bytes")
    for step in steps(shape, kernel.chip, count):
        core = "" if step.sub_core is None else str(step.sub_core)
        lanes = "" if step.lanes is None else f"{step.lanes[0]}-{step.lanes[1]}"
        columns = "" if step.columns is None else f"{step.columns[0]}-{step.columns[1]}"
        console.print(
            f"{step.mma:3} {step.cycle:5g} {step.cycles:6g} {step.unit:9} {core:8} {lanes:8} {columns:8} "
            f"{step.port_bytes:10}  {step.accumulator_bytes}"
        )


def _assembly_json(made: Assembly) -> AssemblyJson:
    """What ptxas made of a kernel, as plain data."""
    return {
        "instructions": len(made.code),
        "registers": made.registers,
        "spill_bytes": made.spill_bytes,
        "stack_bytes": made.stack_bytes,
        "lane_loops": [{"line": loop.line, "opcode": loop.opcode, "cycles": loop.cycles} for loop in made.lane_loops],
    }


def times_json(source: str, chip: str, rows: Iterable[Row]) -> TimeJson:
    """The times of a report as plain data."""
    layers: list[TimedLayer] = []
    for name, schedule, rate, kernel in rows:
        launch = kernel.launch
        layers.append(
            {
                "layer": name,
                "schedule": schedule or None,
                "cycles": kernel.cycles,
                "microseconds": kernel.microseconds,
                "tflops": rate,
                "ctas": kernel.ctas,
                "ctas_per_sm": launch.beside,
                "rounds": launch.rounds,
                "l2_bytes_per_clk": launch.l2,
                "use": launch.use,
                "assembly": None if kernel.assembly is None else _assembly_json(kernel.assembly),
                "critical_path": [
                    {"step": part.step, "waits_for": part.cause, "cycles": part.cycles} for part in kernel.parts
                ],
            }
        )
    return {"format": "convc-time/1", "source": source, "chip": chip, "layers": layers}
