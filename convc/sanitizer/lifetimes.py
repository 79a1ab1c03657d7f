"""Exits: a CTA must not be gone while somebody may still reach its memory.

Shared and tensor memory live as long as the CTA. Asynchronous work on it, and everything that a peer of the cluster
does to it (stores, loads, arrivals, multicast copies and commits), has to be known to a warp of the CTA before the last
one exits: by a wait on the barrier that is signalled, or by meeting at a barrier of the cluster (PTX manual,
"barrier.cluster", "mapa").
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

    def visit(self, access: Access, lanes: np.ndarray) -> None:
        """Note an access that its home may not know of: by a peer, a copy or the tensor core; the first at one time."""
        key = access.home, access.component
        if key not in self.visits or self.visits[key][0].time < access.time:
            self.visits[key] = access, lanes

    def findings(self, warps: dict[tuple[int, int], WarpClocks]) -> Iterator[tuple[tuple, Finding]]:
        """A finding for every visit that the CTA's warps, whose last clocks are given, have not heard of."""
        told: dict[int, ClockMessage] = {}
        for (row, _), clocks in warps.items():
            told.setdefault(row, ClockMessage()).add(clocks)
        for (home, component), (access, lanes) in self.visits.items():
            if home in told and told[home].time(GENERIC, component) >= access.time:
                continue
            if access.home == access.row:
                rule = "exit-before-completion"
                key = "unobserved"
                message = f"the CTA exits although nobody has waited for the {access}"
            else:
                rule = "exit-before-peer"
                key = "unordered"
                gone = self.cohort.number(home)
                message = f"CTA {gone} may exit before the {access}, which reaches its memory: nothing orders the two"
            site = site_of(self.cohort, access, lanes, None)
            yield (key, access.instr.span.line), finding(Verdict.error, rule, message, site)
