"""trap and its relatives (PTX manual, "Miscellaneous Instructions")."""

from __future__ import annotations

from convc.errors import MachineFault
from convc.ir.findings import Verdict
from convc.machine.isa.registry import Run, op
from convc.machine.isa.threads import first_active_warp
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr


@op("trap", result=False)
def trap(instr: Instr, table: SlotTable) -> Run:
    """trap: the kernel gives up."""
    why = f" ({instr.mods[0]})" if instr.mods else ""

    def run(strand: Strand) -> None:
        raise MachineFault(f"the kernel executed a trap{why}")

    return run


@op("brkpt", "pmevent", result=False)
def nothing(instr: Instr, table: SlotTable) -> Run:
    """Debugger and profiler events."""
    return lambda strand: None


@op("dropped.printf", result=False)
def printf(instr: Instr, table: SlotTable) -> Run:
    """A call of vprintf: noted, not printed."""

    def run(strand: Strand) -> None:
        text = "the kernel prints; the machine drops the text"
        strand.cohort.findings.report("printf", text, instr, Verdict.clean, who=first_active_warp(strand))

    return run
