"""Exits: a CTA must not be gone while another may still reach its memory.

Shared and tensor memory live as long as the CTA. Asynchronous work on it, and everything that a peer of the cluster
does to it (stores, loads, arrivals, multicast copies and commits), has to be known to a warp of the CTA before the last
one exits: by a wait on the barrier that is signalled, or by meeting at a barrier of the cluster (PTX manual,
"barrier.cluster", "mapa").

A commit of a peer arrives some time after the operations that it waits for: who knows of these, by a later commit, does
not know that the arrival has been made. Only a wait on that barrier does, so that the producers of a ring wait at their
end for room in all of its stages (CUTLASS, ``producer_tail``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from convc.ir.findings import Finding, Verdict
from convc.machine.state.observed import ObservedCohort
from convc.sanitizer.clocks import GENERIC, ClockMessage, WarpClocks
from convc.sanitizer.shadow import Access
from convc.sanitizer.sites import finding, site_of


class Exits:
    """The last visit of every component to the memory of every CTA; a stream of work completes in order."""

    def __init__(self, cohort: ObservedCohort) -> None:
        self.cohort = cohort
        self.visits: dict[tuple[int, int], tuple[Access, np.ndarray]] = {}
        self.arrivals: dict[tuple[int, int], tuple[Access, np.ndarray]] = {}

    def visit(self, access: Access, lanes: np.ndarray) -> None:
        """Note an access that its home may not know of: by a peer, a copy or the tensor core; the first at one time."""
        _keep_last(self.visits, access, lanes)

    def arrive(self, access: Access, lanes: np.ndarray) -> None:
        """Note the arrival that a commit of a peer makes, at that phase of the barrier's component."""
        _keep_last(self.arrivals, access, lanes)

    def findings(self, warps: dict[tuple[int, int], WarpClocks]) -> Iterator[tuple[tuple[str | int, ...], Finding]]:
        """A finding for every visit that the CTA's warps, whose last clocks are given, have not heard of."""
        told: dict[int, ClockMessage] = {}
        for (row, _), clocks in warps.items():
            told.setdefault(row, ClockMessage()).add(clocks)
        for (home, component), (access, lanes) in self.visits.items():
            if home in told and told[home].time(GENERIC, component) >= access.time:
                continue
            verdict = Verdict.error
            if access.home == access.row:
                # The hardware keeps the memory of a CTA until its copies have read it; the manual does not say so.
                verdict = Verdict.rule if access.kind == "copy" and not access.write else Verdict.error
                rule = "exit-before-completion"
                key = "unobserved"
                message = f"the CTA exits without a wait for the {access}"
            else:
                rule = "exit-before-peer"
                key = "unordered"
                gone = self.cohort.number(home)
                message = f"CTA {gone} may exit before the {access}, which accesses its memory: the two are not ordered"
            site = site_of(self.cohort, access, lanes, None)
            yield (key, access.instr.span.line), finding(verdict, rule, message, site)
        for (home, component), (access, lanes) in self.arrivals.items():
            if home not in told or told[home].time(GENERIC, component) < access.time:
                message = (
                    f"CTA {self.cohort.number(home)} may exit before a commit by warp {access.warp} of CTA "
                    f"{self.cohort.number(access.row)} arrives at its mbarrier: no thread of it waits for that phase"
                )
                site = site_of(self.cohort, access, lanes, None)
                found = finding(Verdict.review, "exit-before-arrival", message, site)
                yield ("arrival", access.instr.step or access.instr.span.line), found  # one for all turns of a step


def _keep_last(visits: dict[tuple[int, int], tuple[Access, np.ndarray]], access: Access, lanes: np.ndarray) -> None:
    """Keep the last visit of a component; of several at one time the first."""
    key = access.home, access.component
    if key not in visits or visits[key][0].time < access.time:
        visits[key] = access, lanes
