"""All that was done to the shared memory of a CTA, and whether the next access may be.

Of a matrix operand only the start of it is kept, of an ordinary access its first and last lane: those bytes are used
for sure, so that nothing is accused for what is kept too widely.

Source: PTX manual, 8.9 (causality order), 8.6 (proxies), 9.7.9.25.2 (completion of asynchronous copies).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from convc.auditor.clocks import Clock
from convc.auditor.ledger import Doer, Ledger
from convc.ir.findings import Verdict

Kind = Literal["ld", "st", "mma", "wgmma", "store", "copy"]
BUCKET = 10
WORDS = {
    "ld": "the ordinary read",
    "st": "the ordinary write",
    "mma": "the tcgen05 read",
    "wgmma": "the wgmma read",
    "store": "the bulk copy out",
    "copy": "the copy",
}


@dataclass(slots=True)
class Access:
    """An access of the bytes from ``low`` to before ``high``.

    Attributes:
        owner: whose clock says that it is done: a warp, or an mbarrier for copies. time: the number there.
        swizzle: of a copy by a tensor map; "" where it is not known or there is none.
        brought: of a read: whether a copy had brought the bytes.
    """

    kind: Kind
    low: int
    high: int
    owner: object
    time: int
    who: Doer
    swizzle: str = ""
    brought: bool = False

    def known(self, clock: Clock) -> bool:
        """Whether a warp with this clock may rely on it as done."""
        kind = {"mma": "issued", "wgmma": "multiplied", "store": "read", "copy": "phase"}.get(self.kind, "did")
        return clock.get((kind, self.owner), 0) >= self.time

    def fenced(self, clock: Clock) -> bool:
        """Whether a proxy fence stands behind it."""
        return clock.get(("fenced", self.owner), 0) >= self.time


_Name = tuple[Kind, object, int, int, int]
"""Of an access: its kind, who does it, which instruction, and the bytes."""


@dataclass(slots=True)
class SharedShadow:
    """The accesses that a later one has to be held against."""

    ledger: Ledger
    buckets: dict[int, dict[_Name, Access]] = field(default_factory=dict[int, dict[_Name, Access]])

    def _over(self, low: int, high: int) -> list[Access]:
        """Those that share a byte."""
        found: dict[int, Access] = {}
        for bucket in range(low >> BUCKET, (high - 1 >> BUCKET) + 1):
            for access in self.buckets.get(bucket, {}).values():
                if access.low < high and low < access.high:
                    found[id(access)] = access
        return list(found.values())

    def _keep(self, access: Access) -> None:
        name = (access.kind, access.owner, access.who.instr.index, access.low, access.high)
        for bucket in range(access.low >> BUCKET, (access.high - 1 >> BUCKET) + 1):
            self.buckets.setdefault(bucket, {})[name] = access

    def _forget(self, low: int, high: int) -> None:
        """What lies wholly inside is written over: whatever comes is held against the writer."""
        for bucket in range(low >> BUCKET, (high - 1 >> BUCKET) + 1):
            kept = self.buckets.get(bucket)
            if kept:
                self.buckets[bucket] = {name: each for name, each in kept.items() if each.low < low or each.high > high}

    def read(self, clock: Clock, access: Access) -> Access | None:
        """Hold a read, by a warp with this clock, against the writes before it.

        What copies bring has to have come; what threads wrote has to be fenced for another proxy.

        Returns: the copy that brought the bytes, where one did.
        """
        brought = None
        for earlier in self._over(access.low, access.high):
            if earlier.kind == "copy":
                brought = earlier
                self.ledger.look("copy-arrival", access.who.instr.index)
                if not earlier.known(clock):
                    what = "bytes of a copy are used without a wait for its mbarrier phase"
                    self.ledger.accuse("copy-arrival", what, access.who, earlier.who)
            elif earlier.kind == "st" and access.kind != "ld":
                self._handed_to_proxy(clock, earlier, access.who, "reads")
        access.brought = brought is not None
        self._keep(access)
        return brought

    def _handed_to_proxy(self, clock: Clock, access: Access, who: Doer, does: str) -> None:
        """An ordinary access, then an asynchronous one.

        Compilers leave the fence out behind reads of what threads wrote, once, and are not known to fail.
        """
        self.ledger.look("proxy-fence", who.instr.index)
        word = WORDS[access.kind]
        if not access.known(clock):
            what = f"{who.instr.form.name} {does} bytes before {word} is known to be complete"
            self.ledger.accuse("memory-reuse", what, who, access.who)
        elif not access.fenced(clock):
            self.ledger.accuse(
                "proxy-fence",
                f"{who.instr.form.name} {does} bytes after {word} of line {access.who.instr.span.line} without a "
                "fence.proxy.async in between",
                who,
                access.who,
                level=Verdict.review if access.kind == "ld" and not access.brought else Verdict.error,
            )

    def write(self, clock: Clock, access: Access) -> None:
        """A write by a warp with this clock: all that was done to the bytes before has to be over."""
        copies = access.kind == "copy"
        for earlier in self._over(access.low, access.high):
            if earlier.kind in ("ld", "st"):
                if copies:
                    self._handed_to_proxy(clock, earlier, access.who, "overwrites")
                continue
            if copies and earlier.kind == "copy" and (earlier.owner, earlier.time) == (access.owner, access.time):
                continue
            self.ledger.look("memory-reuse", access.who.instr.index)
            if not earlier.known(clock):
                line = earlier.who.instr.span.line
                what = (
                    f"{WORDS[earlier.kind]} of line {line} is not known to be complete when its bytes are overwritten"
                )
                self.ledger.accuse("memory-reuse", what, access.who, earlier.who)
        if copies:
            self._forget(access.low, access.high)
        self._keep(access)
