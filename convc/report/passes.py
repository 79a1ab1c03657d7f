"""The steps of the tensor core for the MMAs of a kernel: as text and as CSV."""

from __future__ import annotations

import csv
import io

from rich.console import Console

from convc.errors import InputError
from convc.report.console import print_heading
from convc.timing.kernel import KernelTime
from convc.timing.passes import steps
from convc.timing.tensor_core import MmaShape

COUNT = 2
"""MMAs of a shape that are opened up: the second one shows what is done ahead of it."""

HINT = "of a warp's products steps are published for f16 only: wmma m16n16k16 (convc draw hmma), mma.m8n8k4, m16n8k8"
"""The way out for a kernel that multiplies by wmma or mma.sync, of which nothing is written to a file."""

HOPPER = "sm_90"
"""The architecture that multiplies by wgmma, as chips name it."""

CSV_COLUMNS: tuple[str, ...] = (
    "shape", "mma", "cycle", "cycles", "unit", "sub_core", "first_lane", "last_lane", "first_column", "last_column",
    "first_k_byte", "last_k_byte", "port_bytes", "accumulator_bytes",
)  # fmt: skip
"""``shape`` is M x N with ``pair`` and ``A in tensor memory`` behind it; cells are empty where nothing is to be said.
The lanes of a read of A are rows of it."""


def opened(kernel: KernelTime) -> tuple[MmaShape, ...]:
    """The shapes of MMA of a kernel whose steps are known; `InputError` where it has none.

    Those of a wgmma are not: it keeps its sums in registers, and no strips of tensor memory.
    """
    if not kernel.shapes or HOPPER in kernel.chip.targets:
        raise InputError(
            "there are no passes to show: the kernel issues no tcgen05.mma",
            hint=HINT if kernel.products else "",
            where=f"{kernel.name} on {kernel.chip.name}",
        )
    return kernel.shapes


def print_passes(console: Console, kernel: KernelTime) -> None:
    """The first steps of the tensor core for each shape of MMA in a kernel."""
    for shape in opened(kernel):
        print_heading(console, f"{COUNT} tcgen05.mma of {shape.m} x {shape.n}, step by step")
        _print_steps(console, shape, kernel)


def _print_steps(console: Console, shape: MmaShape, kernel: KernelTime) -> None:
    console.print("mma cycle cycles unit      sub-core lanes    columns  port bytes  accumulator bytes")
    for step in steps(shape, kernel.chip, COUNT):
        core = "" if step.sub_core is None else str(step.sub_core)
        lanes = "" if step.lanes is None else f"{step.lanes[0]}-{step.lanes[1]}"
        columns = "" if step.columns is None else f"{step.columns[0]}-{step.columns[1]}"
        console.print(
            f"{step.mma:3} {step.cycle:5g} {step.cycles:6g} {step.unit:9} {core:8} {lanes:8} {columns:8} "
            f"{step.port_bytes:10}  {step.accumulator_bytes}"
        )


def passes_csv(kernel: KernelTime) -> bytes:
    """The steps of each shape as CSV (RFC 4180, UTF-8, lines end with LF), a row each."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for shape in opened(kernel):
        for step in steps(shape, kernel.chip, COUNT):
            core = "" if step.sub_core is None else step.sub_core
            lanes = step.lanes or ("", "")
            columns = step.columns or ("", "")
            first = (called(shape), step.mma, f"{step.cycle:g}", f"{step.cycles:g}", step.unit, core)
            writer.writerow((*first, *lanes, *columns, *step.k_bytes, step.port_bytes, step.accumulator_bytes))
    return out.getvalue().encode()


def called(shape: MmaShape) -> str:
    """A shape in words: ``128 x 256 pair, A in tensor memory``."""
    more = (" pair" if shape.pair else "") + (", A in tensor memory" if shape.a_in_tensor else "")
    return f"{shape.m} x {shape.n}{more}"
