"""setmaxnreg: warps give registers back to a pool of their CTA, and take some from it (PTX manual, "setmaxnreg").

The pool is what a CTA has at its launch: as many registers a thread as ``.maxnreg`` says, or as ptxas may give where
``.maxntid`` (or ``.reqntid``) and ``.minnctapersm`` bound them, and no more than the largest count of the text, as
ptxas gives them. A thread's values do not depend on its count; what the machine keeps is who may have how many, and
``.inc`` waits until others have given back enough.
"""

from __future__ import annotations

import math

import numpy as np

from convc.errors import MachineFault
from convc.ir.findings import Verdict
from convc.machine.isa.operands import number
from convc.machine.isa.registry import WHOLE_WARPS, Run, Traits, op
from convc.machine.isa.tcgen05.collective import whole_warps
from convc.machine.isa.threads import first_active_warp
from convc.machine.state.cohort import Cohort
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import BLOCK, Strand
from convc.ptx import Instr, Kernel

SM_REGISTERS = 65536
MOST = 256
STEP = 8
"""Registers of an SM; the most that a thread has; counts come in this step (CUDA guide, "Compute Capabilities")."""


def first_count(kernel: Kernel) -> int | None:
    """Registers of a thread at launch, as the directives and the counts of a kernel bound them; None: they do not."""
    bound = _bound(kernel)
    if bound is None:
        return None
    return min(bound, max(number(instr.args["count"]) for instr in kernel.body if instr.form.name == "setmaxnreg"))


def _bound(kernel: Kernel) -> int | None:
    """Registers of a thread at most, by the directives of a kernel."""
    found = kernel.directives
    if "maxnreg" in found:
        return -(-found["maxnreg"][0] // STEP) * STEP
    threads = found.get("reqntid") or found.get("maxntid")
    if threads is None or "minnctapersm" not in found:
        return None
    each = SM_REGISTERS // (math.prod(threads) * max(1, found["minnctapersm"][0]))
    return min(each // STEP * STEP, MOST)


@op("setmaxnreg", traits=WHOLE_WARPS | Traits.ONCE, result=False)
def set_count(instr: Instr, table: SlotTable) -> Run:
    """setmaxnreg.inc, .dec: the most registers that each thread of the warp may use from here on."""
    count = number(instr.args["count"])
    more = instr.slots["action"] == "inc"
    start = first_count(table.kernel)

    def run(strand: Strand) -> int | None:
        cohort = strand.cohort
        active = whole_warps(strand, "setmaxnreg")
        if start is None:
            message = "setmaxnreg may be ignored: the kernel has neither .maxnreg nor .maxntid with .minnctapersm"
            _report(strand, instr, message, Verdict.review)
            return None
        held = _held(cohort, start)
        rows = cohort.rows_or_all(strand.rows)
        here = np.ix_(rows, strand.warps)
        own = held[here]
        wrong = active & ((own > count) if more else (own < count))
        if wrong.any():
            have = int(own[wrong][0])
            what = "fewer" if more else "more"
            _report(strand, instr, f"setmaxnreg.{instr.slots['action']} to {count}, {what} than the {have} it has")
        new = np.where(active & ~wrong, count, own)
        free = start * cohort.warps - held.sum(axis=1)[rows]
        enough = (new - own).sum(axis=1) <= free
        if more and not enough.all():
            row = int((~enough).argmax())
            strand.waiting = f"registers: {int((new - own)[row].sum())} more a lane, of which {int(free[row])} are free"
            strand.ready = np.broadcast_to(enough[:, None], own.shape) | ~active
            return BLOCK
        held[here] = new
        # Triton has one for each way of a warp: the count is compared, not the place
        cohort.warpgroups.note(rows, strand.warps, active, 2 * count + more, counts=True)
        return None

    return run


def _held(cohort: Cohort, start: int) -> np.ndarray:
    """int64 (ctas, warps): how many registers each thread of a warp may use."""
    if cohort.warpgroups.registers is None:
        if start * cohort.warps * 32 > SM_REGISTERS:
            raise MachineFault(f"{cohort.warps} warps with {start} registers a thread do not fit into an SM")
        cohort.warpgroups.registers = np.full((cohort.ctas, cohort.warps), start, np.int64)
    return cohort.warpgroups.registers


def _report(strand: Strand, instr: Instr, message: str, verdict: Verdict = Verdict.error) -> None:
    strand.cohort.findings.report("register-count", message, instr, verdict, first_active_warp(strand))
