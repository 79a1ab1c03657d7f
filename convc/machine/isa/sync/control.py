"""Branches, exits, traps and hints (PTX manual, "Control Flow Instructions", "Miscellaneous Instructions")."""

from __future__ import annotations

import numpy as np

from convc.errors import MachineFault
from convc.ir.findings import Verdict
from convc.machine.isa.operands import expect
from convc.machine.isa.registry import BLIND, ORDINARY, Run, Traits, op
from convc.machine.isa.threads import first_active_warp
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Guard, Instr, Label

# ---- branches --------------------------------------------------------------------------------------------------------


@op("bra", traits=BLIND | Traits.JUMP | Traits.POLLING, result=False)
def bra(instr: Instr, table: SlotTable) -> Run:
    """bra: jump; a predicate that differs between warps or CTAs splits the strand, between lanes it parts them."""
    return _jump(instr, expect(instr.operands[0], Label).target)


@op("ret", "exit", traits=BLIND | Traits.JUMP, result=False)
def leave(instr: Instr, table: SlotTable) -> Run:
    """ret and exit from a kernel: a jump behind the last instruction, where the active lanes retire."""
    return _jump(instr, len(table.kernel.body))


def _jump(instr: Instr, target: int) -> Run:
    here = instr.index
    if instr.guard is None:
        return lambda strand: target
    slot = instr.guard.slot
    negate = instr.guard.negate

    def run(strand: Strand) -> int | None:
        predicate = strand.regs[slot]
        if not isinstance(predicate, np.ndarray):
            return target if bool(predicate) != negate else None
        taken = ~predicate if negate else predicate
        kind, taken = _keep_alike(strand, _kinds(strand, taken), taken, here)
        match kind:
            case 0:
                return None
            case 1:
                return target
            case _:
                return strand.diverge(here, target, taken)

    return run


def by_whole_warps(run: Run, guard: Guard, here: int) -> Run:
    """A guarded instruction that warps execute as one and may wait in: warps without a lane for it go on at once."""
    slot = guard.slot
    negate = guard.negate

    def guarded(strand: Strand) -> int | None:
        chosen = strand.regs[slot]
        if not isinstance(chosen, np.ndarray):
            return run(strand) if bool(chosen) != negate else None
        chosen = ~chosen if negate else chosen
        kind, chosen = _keep_alike(strand, _kinds(strand, chosen) > 0, chosen, here)
        if strand.mask is None and chosen.all():
            return run(strand)
        return strand.under(chosen, run) if kind else None

    return guarded


def _keep_alike(strand: Strand, kinds: np.ndarray, value: np.ndarray, here: int) -> tuple[int, np.ndarray]:
    """Split off the CTAs and warps of another kind than the first, to execute instruction ``here`` by themselves.

    Args:
        strand: keeps those that are like its first warp.
        kinds: (rows | 1, warps): numbers that stand for kinds.
        value: of a register, (rows | 1, warps | 1, lanes | 1).

    Returns:
        The kind of the warps that stay, and their part of ``value``.
    """
    # CTAs go first: those of a convolution differ at the borders of the image, and then in all of their warps.
    if len(kinds) > 1 and (kinds != kinds[:1]).any():
        same = (kinds == kinds[:1]).all(axis=1)
        strand.pc = here
        strand.split_rows(same)
        value = value[same] if value.shape[0] > 1 else value
    if len(strand.warps) > 1 and (kinds[0] != kinds[0, 0]).any():
        same = kinds[0] == kinds[0, 0]
        strand.pc = here
        strand.split_warps(same)
        value = value[:, same] if value.shape[1] > 1 else value
    return int(kinds[0, 0]), value


def _kinds(strand: Strand, taken: np.ndarray) -> np.ndarray:
    """Per (CTA, warp): 0 no active lane jumps, 1 all do, 2 lanes differ. Warps without active lanes count as 0."""
    if strand.mask is None:
        jumps = np.logical_or.reduce(taken, axis=2)
        all_jump = np.logical_and.reduce(taken, axis=2)
    else:
        jumping = taken & strand.mask
        jumps = np.logical_or.reduce(jumping, axis=2)
        all_jump = ~np.logical_or.reduce(jumping != strand.mask, axis=2)
    kind = np.where(jumps, 2 - all_jump, 0)
    return kind if kind.shape[1] == len(strand.warps) else np.broadcast_to(kind, (len(kind), len(strand.warps)))


# ---- the end ---------------------------------------------------------------------------------------------------------


@op("trap", traits=ORDINARY, result=False)
def trap(instr: Instr, table: SlotTable) -> Run:
    """trap: the kernel gives up."""
    why = f" ({instr.mods[0]})" if instr.mods else ""

    def run(strand: Strand) -> None:
        raise MachineFault(f"the kernel executed a trap{why}")

    return run


@op("dropped.printf", traits=ORDINARY, result=False)
def printf(instr: Instr, table: SlotTable) -> Run:
    """A call of vprintf: noted, not printed."""

    def run(strand: Strand) -> None:
        text = "the kernel calls printf; the simulator drops the text"
        strand.cohort.findings.report("printf", text, instr, Verdict.clean, first_active_warp(strand))

    return run


# ---- no effect -------------------------------------------------------------------------------------------------------


@op("brkpt", "pmevent", traits=ORDINARY, result=False)
@op("prefetch", "prefetchu", traits=ORDINARY, result=False)
@op("nanosleep", traits=Traits.POLLING, result=False)
@op("prefetch.tensormap", traits=BLIND, result=False)
def no_effect(instr: Instr, table: SlotTable) -> Run:
    """Prefetches, hints, and events for debuggers and profilers change nothing that the simulator computes."""
    return lambda strand: None


@op("griddepcontrol", traits=ORDINARY, result=False)
def grid_control(instr: Instr, table: SlotTable) -> Run:
    """griddepcontrol: kernels run one after the other here, so it does nothing; an observer is told."""

    def run(strand: Strand) -> None:
        if strand.cohort.observer is not None:
            strand.cohort.observer.control(strand, instr)

    return run
