"""Matrices whose descriptor has another swizzle than the copies that brought them.

The copy engine writes a tile in the order that its tensor map says, the tensor core reads one in the order that its
descriptor says (PTX manual, "Swizzling modes", "Shared memory descriptor"). No sentence makes the two one: data that a
host has laid out so may come without a swizzle and be read with one. So it is a matter for review, and only where the
last writers of all bytes of a matrix are tensor copies, none of which has its swizzle, and these bytes change places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from convc.ir.findings import Finding, Verdict
from convc.machine.base.swizzle import swizzle
from convc.machine.state.observed import ObservedCohort
from convc.machine.tensor_core.footprints import Operand
from convc.sanitizer.shadow import Access, Shadow
from convc.sanitizer.sites import finding, site_of


def disordered(shadow: Shadow, log: Sequence[Access], access: Access, copy: Access) -> Operand | None:
    """The matrix of an access that was brought in another order, by such a copy; None where there is none."""
    for operand in access.operands:
        order = operand.descriptor.swizzle
        if copy.swizzle is None or order == copy.swizzle:
            continue
        writers = [log[number] for number in shadow.before(shadow.tables.number(operand.places), False)]
        if copy not in writers or any(writer.swizzle in (None, order) for writer in writers):
            continue
        read = swizzle(order, operand.places, operand.descriptor.base_offset)
        if not np.array_equal(read, swizzle(copy.swizzle, operand.places)):
            return operand
    return None


def mismatch(
    cohort: ObservedCohort, access: Access, copy: Access, operand: Operand
) -> tuple[tuple[str, int, int], Finding]:
    """The finding about a matrix that is read in another order than the one in which a copy has brought it."""
    lines = access.instr.span.line, copy.instr.span.line
    message = (
        f"the descriptor of {operand.name} has swizzle {operand.descriptor.swizzle}, and its bytes were written with "
        f"swizzle {copy.swizzle}, that of the tensor map ({copy}): they change places unless global memory is laid "
        "out for that"
    )
    sites = (site_of(cohort, each, np.array([each.lane or 0]), None) for each in (access, copy))
    return ("swizzle", *lines), finding(Verdict.review, "swizzle-mismatch", message, *sites)
