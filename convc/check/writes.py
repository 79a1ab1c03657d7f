"""Do CTAs write the same bytes of global memory?

CTAs run in no particular order, so two that store to one place race (PTX manual, "Memory Consistency Model"). The
check remembers, per `GRANULE` bytes of every buffer, which CTA wrote there; atomics and reductions are not stores. In
a kernel with atomics a lock may order the stores, so a person has to look.
"""

from __future__ import annotations

import numpy as np

from convc.findings import Finding, Verdict
from convc.machine.events import Observer

GRANULE = 2
"""Bytes told apart; single-byte stores of neighbours count as one place and are only reported for review."""


class Writes(Observer):
    """One finding per pair of a store instruction and a buffer."""

    def __init__(self) -> None:
        self.found: dict[tuple, Finding] = {}
        self.owner: dict[str, np.ndarray] = {}

    def begin(self, cohort) -> None:
        """Owners are kept from cohort to cohort."""
        self.cohort = cohort
        self.atomics = any(i.form.name.startswith(("atom", "red")) for i in cohort.launch.program.kernel.body)

    def global_store(self, strand, instr, buffer, offset, size, mask) -> None:
        """Compare the bytes stored with their owners so far, and own them."""
        cohort = self.cohort
        if buffer not in self.owner:
            length = cohort.launch.memory.by_name[buffer].size
            self.owner[buffer] = np.full(-(-length // GRANULE), -1, np.int32)
        owner = self.owner[buffer]
        shape = (strand.row_count, len(strand.warps), 32)
        rows = np.arange(cohort.ctas) if strand.rows is None else strand.rows
        cta = np.broadcast_to(cohort.place.number[rows][:, None, None], shape)
        places = np.broadcast_to(offset, shape)
        if mask is not None:
            active = np.broadcast_to(mask, shape)
            cta, places = cta[active], places[active]
        cta, places = cta.reshape(-1), places.reshape(-1)
        for step in range(0, size, GRANULE):
            at = (places + step) // GRANULE
            clash = (owner[at] >= 0) & (owner[at] != cta)
            owner[at] = cta
            clash |= owner[at] != cta
            if clash.any():
                self._report(instr, buffer, int(places[clash][0]), size, int(cta[clash][0]))
                return

    def _report(self, instr, buffer: str, offset: int, size: int, cta: int) -> None:
        key = (instr.index, buffer)
        if key in self.found:
            return
        self.found[key] = Finding(
            verdict=Verdict.review if size < GRANULE or self.atomics else Verdict.error, rule="race-global-memory",
            message=f"more than one CTA stores to buffer {buffer!r} at byte {offset}",
            file=instr.span.file, line=instr.span.line, step=instr.step, cta=cta,
        )  # fmt: skip
