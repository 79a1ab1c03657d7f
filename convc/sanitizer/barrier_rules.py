"""Rules of mbarrier objects: their life, and the scope of who takes part.

* From mbarrier.init to mbarrier.inval the eight bytes belong to mbarrier instructions: any other access of them is
  undefined (PTX manual, "mbarrier", "mbarrier.inval").
* An arrival or a wait that says ``.cta`` orders the threads of one CTA alone. Where another CTA of the cluster arrives,
  both sides need ``.cluster``, which is what they mean when they say nothing (PTX manual, "Scope", "mbarrier.arrive",
  "mbarrier.try_wait"). A wait alone that is too narrow breaks a rule where the other CTA only gives room back, as in
  kernels in wide use; where it has stored into the memory of the one that waits, it is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from convc.ir.findings import Verdict
from convc.machine.isa.observe import actors
from convc.machine.state.observed import ObservedCohort, ObservedStrand
from convc.machine.state.observer import LaneAccess, Transfer
from convc.ptx import Instr
from convc.sanitizer.checker import Checker
from convc.sanitizer.sites import Site, finding

OBJECT = 8
"""Bytes of an mbarrier."""


class BarrierRules(Checker):
    """Watches the first cluster of every cohort."""

    wants = frozenset({"shared"})

    def begin(self, cohort: ObservedCohort) -> None:
        """No CTA has arrived at a barrier of another one."""
        self.cohort = cohort
        self.remote: set[tuple[int, int]] = set()
        self.narrow: set[tuple[int, int]] = set()  # of these, where an arrival says .cta
        self.handed: set[int] = set()  # CTAs in whose memory another one has stored

    # ---- scope -------------------------------------------------------------------------------------------------------

    def arrive(self, strand: ObservedStrand, instr: Instr, barrier: int, homes: np.ndarray | None) -> None:
        """An arrival at a barrier of another CTA."""
        if homes is None or "arrive" not in instr.form.name:
            return
        for at, row, _, warp, lanes in actors(strand):
            if int(homes[at]) == row:
                continue
            self.remote.add((int(homes[at]), barrier))
            if instr.slots.get("scope") == "cta":
                self.narrow.add((int(homes[at]), barrier))
                why = "arrives at an mbarrier of another CTA"
                self._narrow(instr, row, warp, lanes, why, Verdict.error)

    def wait(self, strand: ObservedStrand, instr: Instr, barrier: int, done: np.ndarray) -> None:
        """A wait for what another CTA has said."""
        if instr.slots.get("scope") != "cta" or not self.remote:
            return
        for at, row, _, warp, lanes in actors(strand):
            if done[at] and (row, barrier) in self.remote:
                wrong = row in self.handed or (row, barrier) in self.narrow
                why = "waits for an mbarrier at which another CTA arrives"
                self._narrow(instr, row, warp, lanes, why, Verdict.error if wrong else Verdict.rule)

    def _narrow(self, instr: Instr, row: int, warp: int, lanes: np.ndarray, why: str, verdict: Verdict) -> None:
        message = f"{instr.form.name} {why} with scope .cta: it needs .cluster, the default scope"
        self._report("scope-too-narrow", instr, row, warp, lanes, message, verdict)

    # ---- life --------------------------------------------------------------------------------------------------------

    def shared(self, strand: ObservedStrand, instr: Instr, kind: str, accesses: Sequence[LaneAccess]) -> None:
        """Ordinary accesses; those of mbarrier instructions are told of in another way, or are no matter here."""
        if kind != "ld":
            self.handed.update(access.home for access in accesses if access.home != access.row)
        if self.cohort.barriers and instr.form.opcode != "mbarrier":
            for access in accesses:
                self._touch(instr, kind, access)

    def async_store(self, strand: ObservedStrand, instr: Instr, parts: Sequence[tuple[LaneAccess, int]]) -> None:
        """Asynchronous stores."""
        self.handed.update(access.home for access, _ in parts if access.home != access.row)
        for access, _ in parts:
            self._touch(instr, "st", access)

    def copy(self, strand: ObservedStrand, instr: Instr, transfer: Transfer) -> None:
        """Copies into shared memory."""
        if not len(transfer.writes) or not self.cohort.barriers:
            return
        warp, lane = transfer.thread
        for row, homes in zip(transfer.rows.tolist(), transfer.homes.tolist(), strict=True):
            for home in homes if row < self.cohort.watched else ():
                access = LaneAccess(row, warp, home, np.array([lane]), transfer.writes[None])
                self._touch(instr, "copy", access)

    def _touch(self, instr: Instr, kind: str, access: LaneAccess) -> None:
        low = int(access.places.min())
        high = int(access.places.max())
        for address in self._alive(access.home, low, high):
            reached = ((access.places >= address) & (access.places < address + OBJECT)).any(axis=1)
            if reached.any():
                verb = {"ld": "reads", "atom": "changes"}.get(kind, "writes")
                message = (
                    f"{instr.form.name} {verb} bytes of the mbarrier at shared address {address:#x}, which is "
                    "still initialised: undefined; mbarrier.inval comes first"
                )
                lanes = access.lanes[reached]
                self._report("mbarrier-touched", instr, access.row, access.warp, lanes, message, Verdict.error)
                return

    def _alive(self, home: int, low: int, high: int) -> Iterable[int]:
        """The addresses of mbarriers of a CTA that may lie between two places."""
        for address, barrier in self.cohort.barriers.items():
            if address <= high and address + OBJECT > low and home not in barrier.gone:
                yield address

    def _report(
        self, rule: str, instr: Instr, row: int, warp: int, lanes: np.ndarray, message: str, verdict: Verdict
    ) -> None:
        key = (rule, instr.index)
        if key not in self.found or self.found[key].verdict < verdict:
            site = Site(
                file=instr.span.file,
                line=instr.span.line,
                step=instr.step,
                cta=self.cohort.number(row),
                warp=warp,
                lanes=tuple(lanes.tolist()),
            )
            self.found[key] = finding(verdict, rule, message, site)
