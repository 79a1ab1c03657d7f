"""Strong accesses: atomics, and loads and stores with an order and a scope (PTX manual, "Memory Consistency Model").

Two strong accesses whose scopes include each other do not race. A release at a location and an acquire that observes
it order what comes before the one and after the other; so does a fence before a relaxed write, and one behind a relaxed
read. What a read observes is the last write that the simulator performed; atomics in between pass a release on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from convc.machine.isa.all import forms_with
from convc.machine.isa.registry import Traits
from convc.ptx import Instr
from convc.sanitizer.clocks import ClockMessage, WarpClocks

STRONG = forms_with(Traits.STRONG)
ATOMICS = forms_with(Traits.ATOMIC)

SCOPES = ("cta", "cluster", "gpu", "sys")


@dataclass(frozen=True, slots=True)
class Strength:
    """Order and scope of a strong access.

    Attributes:
        scope: one of `SCOPES`.
        acquire, release: what it does besides being performed.
    """

    scope: str
    acquire: bool
    release: bool

    @property
    def wide(self) -> bool:
        """Whether it reaches other CTAs of the cluster."""
        return self.scope != "cta"

    @property
    def widest(self) -> bool:
        """Whether it reaches other clusters."""
        return self.scope in ("gpu", "sys")


RELAXED = Strength("gpu", False, False)
"""What the asynchronous reductions into global memory are (PTX manual, cp.reduce.async.bulk)."""


def strength_of(instr: Instr) -> Strength | None:
    """Of a load, store or atomic; None where it is weak."""
    return _strength(instr.form.opcode, instr.form.name, instr.mods)


@lru_cache(maxsize=1024)
def _strength(opcode: str, form: str, mods: tuple[str, ...]) -> Strength | None:
    """The strength by the name of a form and its modifiers; one that names no order is weak, unless it is atomic.

    Of multimem those that name no order are relaxed, of the whole system (PTX manual, multimem).
    """
    if opcode == "multimem":
        scope = next((mod for mod in mods if mod in SCOPES), "sys")
        return None if "weak" in mods else Strength(scope, "acquire" in mods, "release" in mods)
    ordered = form in STRONG and not {"relaxed", "acquire", "release", "volatile"}.isdisjoint(mods)
    if not ordered and form not in ATOMICS:
        return None
    default = "sys" if "volatile" in mods else "gpu"
    scope = next((mod for mod in mods if mod in SCOPES), default)
    both = "acq_rel" in mods
    return Strength(scope, both or "acquire" in mods, both or "release" in mods)


def apart(first: Strength | None, second: Strength | None, same_cta: bool) -> bool:
    """Whether two accesses may meet without racing: both strong, and each in the scope of the other."""
    return first is not None and second is not None and (same_cta or (first.wide and second.wide))


Location = tuple[str, int | str, int]
"""A place that strong accesses meet at: the space, the CTA or the buffer, and the offset there."""


def advice(first: Strength | None, second: Strength | None) -> str:
    """Say what to do where an ordinary access meets an atomic or another strong one; else nothing."""
    if (first is None) == (second is None):
        return ""
    return (
        "; one of them is a weak access: make it strong (ld.relaxed, st.relaxed or volatile), or order the two by "
        "a barrier"
    )


class Locations:
    """Messages of the latest writes of single locations, by the CTA that released them and whether others may hear.

    Attributes:
        seen: (CTA, CTA), the second of which has read where the first had released. unheard: those of them where one of
            the two did so for its own threads alone.
    """

    def __init__(self) -> None:
        self.held: dict[Location, dict[tuple[int, bool], ClockMessage]] = {}
        self.unheard: set[tuple[int, int]] = set()
        self.seen: set[tuple[int, int]] = set()

    def read(self, place: Location, row: int, clocks: WarpClocks, strength: Strength) -> None:
        """A strong read: hear now, or behind the next acquire fence."""
        held = self.held.get(place, {})
        for (source, wide), message in held.items():
            if source != row:
                self.seen.add((source, row))
                if not strength.wide or (source, True) not in held:
                    self.unheard.add((source, row))
                if not (wide and strength.wide):
                    continue
            if strength.acquire:
                clocks.add(message)
            else:
                clocks.pending.setdefault(source != row, ClockMessage()).add(message)

    def narrow(self, row: int) -> None:
        """A CTA has a fence for its own threads alone, behind what it has read of others."""
        self.unheard |= {pair for pair in self.seen if pair[1] == row}

    def write(self, place: Location, row: int, clocks: WarpClocks, strength: Strength | None, update: bool) -> None:
        """A write; an atomic ``update`` passes on what was held there."""
        if not update:
            self.held.pop(place, None)
        if strength is None:
            return
        for wide in (False, True) if strength.wide else (False,):
            # A relaxed write passes on what a release fence before it has prepared, if there was one.
            message = clocks if strength.release else clocks.released.get(wide)
            if message is not None:
                self.held.setdefault(place, {}).setdefault((row, wide), ClockMessage()).add(message)
