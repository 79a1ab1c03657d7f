"""Cluster launch control: asking to take over the work of a cluster that has not begun (PTX manual, 9.7.13.17-18).

Which cluster is given to who asks, if any, is a policy of the simulator (`convc.machine.state.grants`). One that was
given away does not begin any more: who got it has to do its work. The CTA of a declined request is any number. Whoever
has seen a request declined must not ask again (undefined on hardware; a finding here). The 16 bytes of a response are
opaque; ours are a text that query_cancel recognises, or such a text and the coordinates of the first CTA, so that a
query of anything else (a response that has not been waited for, say) is a fault.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.cluster_ranks import place
from convc.machine.base.values import POISON, Value, array, narrow, split
from convc.machine.isa.copies.issue import (
    CopyTarget,
    IssueGroup,
    aligned,
    complete,
    copy_target,
    issue_groups,
    own_target,
    shared_span,
)
from convc.machine.isa.copies.perform import perform_load
from convc.machine.isa.observe import notify_copy
from convc.machine.isa.operands import shared_address_of
from convc.machine.isa.registry import ORDINARY, PURE, Run, op
from convc.machine.isa.threads import active_lanes, active_only, active_rows, first_active_warp, thread_shape
from convc.machine.state.launch import Launch
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr

RESPONSE = b"cluster declined"
"""The response to a request that was declined."""

GRANTED = b"CTA "
"""The first word of a response to a request that was granted; the first CTA's x, y and z follow, a word each."""

TAKEN = int.from_bytes(GRANTED, "little")
AXES = ("x", "y", "z")


@op("clusterlaunchcontrol.try_cancel", traits=ORDINARY, result=False)
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
            text = "clusterlaunchcontrol.try_cancel after a declined request: undefined"
            who = dataclasses.replace(first_active_warp(strand), row=min(again))
            cohort.findings.report("launch-control-after-decline", text, instr, who=who)
        for group in issue_groups(strand, [destination(regs), barrier(regs)]):
            target = own_target(cohort, group.rows, *group.values)
            if everywhere:
                target = copy_target(cohort, group.rows, target.address, target.barrier, (1 << cohort.cluster_size) - 1)
            aligned(name, **{"shared address": target.address})
            shared_span(cohort, name, target.address, len(RESPONSE))
            perform_load(strand, instr, group, _respond, target)

    return run


def _respond(strand: Strand, instr: Instr, group: IssueGroup, target: CopyTarget) -> None:
    """Put a response into shared memory for each CTA that has asked."""
    cohort = strand.cohort
    where = slice(target.address, target.address + len(RESPONSE))
    responses = np.array([_response(cohort.launch) for _ in range(group.count)])
    rows = slice(None) if target.rows is None else target.rows
    cohort.shared.part(where.start, where.stop)[rows, where] = np.repeat(responses, target.repeat, axis=0)
    cohort.shared.written.mark(where, target.rows)
    complete(cohort, target, len(RESPONSE), instr.form.name)
    notify_copy(strand, instr, group, target, writes=np.arange(where.start, where.stop))


def _response(launch: Launch) -> np.ndarray:
    """The bytes of one response, uint8 (16,)."""
    cluster = launch.grants.take()
    if cluster is None:
        return np.frombuffer(RESPONSE, np.uint8)
    first = place(launch.grid, launch.cluster, cluster * math.prod(launch.cluster), 1).ctaid
    words = np.array([int(axis[0]) for axis in first], np.uint32)
    return np.frombuffer(GRANTED + words.tobytes(), np.uint8)


def _words(strand: Strand, slot: int, name: str) -> list[Value]:
    """The four words of a 128-bit register, lowest first; a fault where an active thread's is no response."""
    words = split(active_only(strand, array(strand.regs[slot], 128)), 32, 4)
    declined = [word == text for word, text in zip(words, np.frombuffer(RESPONSE, np.uint32), strict=True)]
    if not (np.logical_and.reduce(declined) | (words[0] == TAKEN)).all():
        raise MachineFault(
            f"{name}: the operand is not a response of clusterlaunchcontrol.try_cancel",
            hint="load the 16-byte response with ld.shared.b128 after a wait for the request's mbarrier",
        )
    return words


def declined(response: Value) -> np.ndarray:
    """bool (rows | 1, warps | 1, lanes | 1): where a 128-bit register says that a request was declined."""
    words = split(array(response, 128), 32, 4)
    return np.asarray(words[0] != TAKEN)


@op("clusterlaunchcontrol.query_cancel.is_canceled", traits=PURE)
def is_canceled(instr: Instr, table: SlotTable) -> Run:
    """query_cancel.is_canceled p, response: whether a cluster was given to who asked."""
    target = table.target(instr.operands[0])
    response = table.slot(instr.operands[1], 128)
    name = instr.form.name

    def run(strand: Strand) -> None:
        taken = np.asarray(_words(strand, response, name)[0] == TAKEN)
        declined = np.broadcast_to(~taken & active_lanes(strand), thread_shape(strand)).any(axis=(1, 2))
        strand.cohort.declined.update(strand.cohort.rows_or_all(strand.rows)[declined].tolist())
        if target is not None:
            strand.write(target, narrow(taken))

    return run


@op("clusterlaunchcontrol.query_cancel.get_first_ctaid", traits=PURE)
def first_ctaid(instr: Instr, table: SlotTable) -> Run:
    """query_cancel.get_first_ctaid d, response: x, y and z of the first CTA, or one of them; anything if declined."""
    targets = table.targets(instr.operands[0])
    response = table.slot(instr.operands[1], 128)
    name = instr.form.name
    dimension = instr.slots.get("dimension")
    chosen = range(len(AXES)) if dimension is None else [AXES.index(dimension[-1])]

    def run(strand: Strand) -> None:
        first, *place_of_first = _words(strand, response, name)
        if np.any(first != TAKEN):  # checkers follow where that goes
            place_of_first = [np.where(first == TAKEN, axis, POISON[32]).astype(np.uint32) for axis in place_of_first]
        for target, axis in zip(targets, chosen, strict=False):  # the fourth element of a vector is none
            if target is not None:
                strand.write(target, narrow(place_of_first[axis]))

    return run
