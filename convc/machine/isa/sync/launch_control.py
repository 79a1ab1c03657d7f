"""Cluster launch control: asking to take over the work of a cluster that has not started (PTX manual, 9.7.13.17-18).

Here every cluster of the grid is launched, so none is ever left to give away: each request is declined, which is what
the hardware answers too once all clusters have started. A kernel that relies on the answer being yes would be wrong on
hardware. Whoever has seen a request declined must not ask again (undefined on hardware; a finding here). The 16 bytes
of a response are opaque; ours are a text that query_cancel recognises, so that a query of anything else (a response
that has not been waited for, say) is a fault.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.values import array
from convc.machine.isa.copies.issue import aligned, complete, copy_target, issue_groups, own_target, shared_span
from convc.machine.isa.observe import notify_copy
from convc.machine.isa.operands import shared_address_of
from convc.machine.isa.registry import Run, op
from convc.machine.isa.threads import active_only, active_rows, first_active_warp
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr

RESPONSE = b"cluster declined"
"""The response to a request that was declined."""


@op("clusterlaunchcontrol.try_cancel", result=False)
def try_cancel(instr: Instr, table: SlotTable) -> Run:
    """try_cancel [addr], [mbar]: write a response and complete 16 bytes, in this CTA or in all of the cluster."""
    destination, barrier = (shared_address_of(instr.args[key], table) for key in ("addr", "mbar"))
    everywhere = "multicast::cluster::all" in instr.mods
    name = instr.form.name

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        regs = strand.regs
        cohort.core.seal()
        again = cohort.declined.intersection(cohort.rows_or_all(active_rows(strand)).tolist())
        if again:
            text = "the CTA asks for another cluster after it has seen a request declined: undefined"
            who = dataclasses.replace(first_active_warp(strand), row=min(again))
            cohort.findings.report("launch-control-after-decline", text, instr, who=who)
        for group in issue_groups(strand, [destination(regs), barrier(regs)]):
            target = own_target(cohort, group.rows, *group.values)
            if everywhere:
                target = copy_target(cohort, group.rows, target.address, target.barrier, (1 << cohort.cluster_size) - 1)
            aligned(name, **{"shared address": target.address})
            where = shared_span(cohort, name, target.address, len(RESPONSE))
            rows = slice(None) if target.rows is None else target.rows
            cohort.shared.bytes[rows, where] = np.frombuffer(RESPONSE, np.uint8)
            cohort.shared.written.mark(where, target.rows)
            complete(cohort, target, len(RESPONSE), name)
            notify_copy(strand, instr, group, target, writes=np.arange(where.start, where.stop))

    return run


def _check_response(strand: Strand, slot: int, name: str) -> None:
    """Fault where an active thread's 128-bit register is no response."""
    value = np.ascontiguousarray(active_only(strand, array(strand.regs[slot], 128)))
    if (value.view(np.uint8).reshape(-1, 16) != np.frombuffer(RESPONSE, np.uint8)).any():
        raise MachineFault(
            f"{name}: the operand is not a response of clusterlaunchcontrol.try_cancel",
            hint="load the 16 bytes with ld.shared.b128 after waiting for the request's mbarrier",
        )


@op("clusterlaunchcontrol.query_cancel.is_canceled")
def is_canceled(instr: Instr, table: SlotTable) -> Run:
    """query_cancel.is_canceled p, response: false, as every request is declined."""
    target = table.target(instr.operands[0])
    response = table.slot(instr.operands[1], 128)
    name = instr.form.name

    def run(strand: Strand) -> None:
        _check_response(strand, response, name)
        strand.cohort.declined.update(strand.cohort.rows_or_all(active_rows(strand)).tolist())
        if target is not None:
            strand.write(target, False)

    return run


@op("clusterlaunchcontrol.query_cancel.get_first_ctaid")
def first_ctaid(instr: Instr, table: SlotTable) -> Run:
    """query_cancel.get_first_ctaid d, response: undefined after a declined request, so always a fault."""
    response = table.slot(instr.operands[1], 128)
    name = instr.form.name

    def run(strand: Strand) -> None:
        _check_response(strand, response, name)
        raise MachineFault(
            f"{name}: the request was declined, so there is no CTA to ask for",
            hint="branch on clusterlaunchcontrol.query_cancel.is_canceled first",
        )

    return run
