"""Kernels that overlap: one that begins before the kernel before it has ended, and lets the dependent one begin.

A kernel with ``griddepcontrol`` may be launched so. What the preceding kernel writes is there for a thread behind
``griddepcontrol.wait``, its own or one of another thread that it has heard from (PTX manual, "griddepcontrol"); what it
reads may be written behind that. The launch file names these buffers (``dependent``). A load ``.nc`` is for what nobody
writes while the kernel runs (PTX manual, "ld.global.nc"), and the preceding kernel may.

``griddepcontrol.launch_dependents`` of one thread counts for its CTA. CTAs of the dependent kernel may then take tensor
memory of this SM, and keep it until this kernel has ended: a CTA that is still to get its own may never get it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from convc.ir.findings import Finding, Region, Verdict
from convc.machine.state.observed import ObservedCohort
from convc.ptx import Instr
from convc.sanitizer.allocations import Key
from convc.sanitizer.clocks import GENERIC, ClockMessage, WarpClocks
from convc.sanitizer.shadow import Access
from convc.sanitizer.sites import Warp, finding, site_of, warp_finding

FRONT = -1
"""The owner of the component of the preceding kernel: no CTA."""


class Grids:
    """Of the first cluster of a cohort.

    Attributes:
        buffers: those that the preceding kernel may write, or read.
        front: the component of that kernel.
        begun: where the dependent kernel was let begin: instruction, warp, and what that warp knew.
    """

    def __init__(self, cohort: ObservedCohort, buffers: frozenset[str], front: int) -> None:
        self.cohort = cohort
        self.buffers = buffers
        self.front = front
        self.begun: list[tuple[Instr, Warp, ClockMessage]] = []

    def control(self, instr: Instr, warp: Warp, clocks: WarpClocks) -> None:
        """griddepcontrol of a warp."""
        if "wait" in instr.mods:
            clocks.learn({self.front: 0})
        else:
            known = ClockMessage()
            known.add(clocks)
            self.begun.append((instr, warp, known))

    def access(
        self, buffer: str, access: Access, lanes: np.ndarray, clocks: WarpClocks
    ) -> tuple[tuple[str, int, str], Finding] | None:
        """An access of global memory that the preceding kernel may still use; or a load that takes it for constant."""
        if buffer not in self.buffers:
            return None
        site = site_of(self.cohort, access, lanes, Region(space="global", buffer=buffer))
        line = access.instr.span.line
        if clocks.time(GENERIC, self.front) < 0:
            message = (
                f"{access} accesses buffer {buffer!r}, which the preceding kernel may still use: "
                "griddepcontrol.wait must come before it"
            )
            return ("dependent", line, buffer), finding(Verdict.error, "dependent-access", message, site)
        if access.instr.form.name == "ld.nc":
            message = (
                f"{access} assumes that buffer {buffer!r} is constant, and the preceding kernel may write it "
                "while this one runs: use ld.global without .nc"
            )
            return ("constant", line, buffer), finding(Verdict.error, "dependent-constant", message, site)
        return None

    def findings(self, got: dict[int, list[tuple[int, int]]]) -> Iterator[tuple[Key, Finding]]:
        """A finding for each thread that let the dependent kernel begin, and did not know of all columns of its CTA."""
        for instr, warp, known in self.begun:
            if any(known.time(GENERIC, component) < time for component, time in got.get(warp[0], ())):
                message = (
                    "the dependent kernel may start before this CTA has allocated its tensor memory, take the "
                    "columns, and wait for this kernel to end: execute griddepcontrol.launch_dependents only "
                    "after tcgen05.alloc"
                )
                found = warp_finding(self.cohort, instr, warp, Verdict.review, "launch-before-allocation", message)
                yield ("launch", instr.index), found
