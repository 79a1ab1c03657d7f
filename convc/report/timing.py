"""Times as people read them: one line a layer with the totals, or all that is known of one kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console

from convc.report.console import print_heading
from convc.report.grid import Column, print_grid
from convc.report.grid import Row as GridRow
from convc.support.short_names import with_short_names
from convc.timing.assembler import Assembly
from convc.timing.attribution import StepTime, by_step
from convc.timing.clock import Load
from convc.timing.kernel import Dependence, KernelTime, gaps, spread, waits_of_all

Row = tuple[str, str, float | None, KernelTime]
"""Name and schedule of a layer, its rate in TFLOP/s, its kernel's time."""

MOST_STEPS = 12
"""Steps of the critical path that are shown."""

COLUMNS: tuple[Column, ...] = (
    Column("layer", "left", name=True),
    Column("schedule", "left"),
    Column("cycles", "right"),
    Column("us", "right"),
    Column("share", "right"),
    Column("cumulative", "right"),
    Column("TFLOP/s", "right"),
    Column("tensor core", "right"),
    Column("waits for", "left", below=True),
)
"""A line for each layer; ``cumulative``: the share of this layer and those above it."""

STEP_COLUMNS: tuple[Column, ...] = (
    Column("step", "left", name=True),
    Column("cycles", "right"),
    Column("share", "right"),
    Column("waits for", "left", below=True),
)

LEGEND = (
    "share: of the time of all kernels; cumulative: with the rows above; tensor core: its utilization; waits for: the "
    "largest parts of the critical path. Estimates of a model; convc time --layer NAME shows their sensitivity."
)


def print_times(console: Console, rows: Sequence[Row]) -> None:
    """A table with a line for each layer, the total, and what the time goes to."""
    total = sum(kernel.microseconds for _, _, _, kernel in rows)
    table: list[GridRow] = []
    so_far = 0.0
    for name, schedule, rate, kernel in rows:
        so_far += kernel.microseconds
        table.append(
            GridRow(
                (
                    name,
                    schedule,
                    f"{kernel.cycles:.0f}",
                    f"{kernel.microseconds:.2f}",
                    percent(kernel.microseconds / total),
                    percent(so_far / total),
                    "" if rate is None else f"{rate:.1f}",
                    f"{100 * kernel.launch.use['tensor core']:.0f} %",
                    waits(kernel.waits),
                )
            )
        )
    print_grid(console, list(COLUMNS), table)
    largest = waits(waits_of_all(kernel for _, _, _, kernel in rows), 3)
    console.print(f"total: {total:.1f} us of kernels; largest waits: {largest}", soft_wrap=True)
    slowed = [kernel.chip["chip.clock"] for _, _, _, kernel in rows if kernel.load is not None]
    if slowed:
        clocks = f"{min(slowed):.4g} to {max(slowed):.4g} GHz in {len(slowed)} of {len(rows)} kernels"
        console.print(f"clock under tensor load: {clocks}", soft_wrap=True)
    between = gaps([kernel for _, _, _, kernel in rows])
    console.print(f"gaps between kernels in a CUDA graph: {between:.1f} us more", soft_wrap=True)
    console.print(LEGEND, soft_wrap=True)


def percent(share: float) -> str:
    """A share with one digit behind the point."""
    return f"{100 * share:.1f} %"


def waits(shares: Mapping[str, float], most: int = 2) -> str:
    """The largest causes, most first."""
    return ", ".join(f"{cause} {100 * share:.0f} %" for cause, share in list(shares.items())[:most])


def print_kernel(console: Console, row: Row) -> None:
    """Everything about one kernel."""
    name, schedule, rate, kernel = row
    launch = kernel.launch
    rests = kernel.dependences()
    range_us = kernel.microseconds * spread(rests)
    chosen = "".join(f", {key}={setting}" for key, setting in kernel.chip.choices.items())
    console.print(f"{with_short_names(name)}{f' ({schedule})' if schedule else ''} on {kernel.chip.name}{chosen}")
    console.print(
        f"{kernel.cycles:.0f} cycles, {kernel.microseconds:.2f} us at {kernel.chip['chip.clock']:.4g} GHz "
        f"(+- {range_us:.2f} us from the ranges of the parameters)"
    )
    if kernel.load is not None:
        console.print(_slower(kernel.load))
    if rate is not None:
        console.print(f"{rate:.1f} TFLOP/s")
    waves = "1 wave" if launch.rounds == 1 else f"{launch.rounds} waves"
    console.print(
        f"{kernel.ctas} CTAs on {launch.busy} SMs, up to {launch.beside} per SM, {waves}; L2 bandwidth {launch.l2:.0f} "
        "B/clk per SM"
    )
    if kernel.assembly is not None:
        _print_assembly(console, kernel.assembly)
    print_heading(console, "utilization in the first wave")
    for unit, share in launch.use.items():
        console.print(f"{unit:14} {percent(share):>7}")
    print_heading(console, "critical path of the first wave, by step and cause")
    _print_steps(console, by_step(kernel.parts), launch.lengths[0], launch.spread if launch.rounds == 1 else 0.0)
    print_heading(console, "sensitivity: change of the time over the range of a parameter, if 2 % or more")
    for one in rests:
        console.print(_rests(one))
    if not rests:
        console.print("no parameter changes the time by 2 %")


def _slower(load: Load) -> str:
    """Why a launch goes slower than the chip's clock."""
    return (
        f"clock under load: tensor core utilization is {percent(load.use)} ({load.kind}), and {load.full:g} GHz allows "
        f"{percent(load.most)}; --clock {load.full:g} times it without that limit"
    )


def _print_assembly(console: Console, assembly: Assembly) -> None:
    print_heading(console, "ptxas")
    console.print(
        f"{len(assembly.code)} instructions, {assembly.registers} registers a thread, "
        f"{assembly.spill_bytes} bytes of spills, {assembly.stack_bytes} bytes of stack"
    )
    for loop in assembly.lane_loops:
        console.print(f"line {loop.line}: {loop.opcode} is in a loop over lanes, {loop.cycles} cycles per iteration")
    if not assembly.lane_loops:
        console.print("no copy or tensor-core instruction is in a loop over lanes")


def _print_steps(console: Console, steps: Sequence[StepTime], own: float, spread: float) -> None:
    """The critical path by step, most first, which adds up to ``own``; then the CTAs that are not as early."""
    total = own + spread
    shown = [(one.step or "entry", one.cycles, waits(one.waits, 3)) for one in steps[:MOST_STEPS]]
    rest = sum(one.cycles for one in steps[MOST_STEPS:])
    if rest:
        shown.append(("other steps", rest, ""))
    if spread:
        shown.append(("CTA skew", spread, "CTAs that start or advance later"))
    shown.append(("total", total, ""))
    rows = [GridRow((step, f"{cycles:.0f}", percent(cycles / total), causes)) for step, cycles, causes in shown]
    print_grid(console, list(STEP_COLUMNS), rows)


def _rests(one: Dependence) -> str:
    """A number that matters, with its class and what its range does."""
    return f"{one.name} ({one.evidence}): {100 * one.low:+.1f} % to {100 * one.high:+.1f} %"
