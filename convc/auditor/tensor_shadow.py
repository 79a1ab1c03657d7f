"""All that was done to the tensor memory of a CTA, and whether the next access may be.

Columns are 32-bit cells of 128 lanes. Of an access whose lanes or columns are not certain only what it uses for sure is
kept. Source: PTX manual, 9.7.16.6 (memory consistency of tcgen05), 9.7.16.8.5, 9.7.16.11.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from convc.auditor.clocks import Clock
from convc.auditor.ledger import Doer, Ledger
from convc.ir.findings import Verdict

Span = tuple[int, int]
Kind = Literal["ld", "st", "mma", "dealloc"]
"""``mma`` stands for all that is complete with a tcgen05.commit: mma, cp, shift."""


@dataclass(slots=True)
class Cells:
    """An access of some lanes and columns; a ``ld`` or ``st`` that no wait has covered has no time."""

    kind: Kind
    writes: bool
    lanes: Span
    columns: Span
    warp: int
    time: int | None
    who: Doer

    def meets(self, other: Cells) -> bool:
        """Whether they share a cell, and one writes it."""
        return (
            (self.writes or other.writes)
            and self.columns[0] < other.columns[1]
            and other.columns[0] < self.columns[1]
            and self.lanes[0] < other.lanes[1]
            and other.lanes[0] < self.lanes[1]
        )


_Name = tuple[Kind, int, int, Span, Span, bool]
"""Of an access: all that tells it from others."""


@dataclass(slots=True)
class TensorShadow:
    """The accesses that a later one has to be held against, the last of each warp, instruction and place."""

    ledger: Ledger
    kept: dict[_Name, Cells] = field(default_factory=dict[_Name, Cells])

    def use(self, clock: Clock, cells: Cells) -> None:
        """Hold an access of a warp with this clock against those before it, and keep it."""
        for earlier in list(self.kept.values()):
            if earlier.meets(cells):
                self._compare(clock, earlier, cells)
        name = (cells.kind, cells.warp, cells.who.instr.index, cells.lanes, cells.columns, cells.writes)
        self.kept[name] = cells

    def _compare(self, clock: Clock, earlier: Cells, cells: Cells) -> None:
        asynchronous = earlier.kind == "mma"
        if earlier.warp == cells.warp and (not asynchronous or cells.kind == "mma"):
            return
        ledger = self.ledger
        index = cells.who.instr.index
        ledger.look("tcgen05-order", index)
        name = cells.who.instr.form.name
        before = f"{earlier.who.instr.form.name} of line {earlier.who.instr.span.line}"
        if earlier.time is None:
            what = f"{name} uses tensor memory that {before} may still use: no tcgen05.wait completes it"
            ledger.accuse("tcgen05-wait", what, cells.who, earlier.who)
            return
        plain, fenced = ("issued", "finished") if asynchronous else ("did", "took")
        if clock.get((plain, earlier.warp), 0) < earlier.time:
            how = "no wait for a later tcgen05.commit is known" if asynchronous else "nothing orders the two warps"
            ledger.accuse("tcgen05-order", f"{name} uses tensor memory after {before}: {how}", cells.who, earlier.who)
            return
        ledger.look("tcgen05-fence", index)
        if clock.get((fenced, earlier.warp), 0) >= earlier.time:
            return
        handed = asynchronous or clock.get(("handed", earlier.warp), 0) >= earlier.time
        which = "::after_thread_sync after the wait" if handed else "::before_thread_sync before the synchronisation"
        what = f"{name} uses tensor memory after {before} without tcgen05.fence{which}"
        ledger.accuse("tcgen05-fence", what, cells.who, earlier.who, level=Verdict.review)
