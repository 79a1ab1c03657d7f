"""Straight runs of instructions that work on many registers alike, found once for each kernel.

An epilogue loads 32 registers, adds a bias to each, converts them in pairs and stores them four at a time: sixty
instructions, and each of them the same few array operations again. A *segment* is such a run inside a basic block; what
its instructions do alike is one *pack*, performed as one operation on arrays with a last axis for the registers
(`convc.machine.execute.segments` runs them).

Without segments the layers of ResNet-50 take 1.3 times as long.

Instructions of a segment are of two kinds. *Scalar* ones compute addresses and predicates; all of them run first, one
after the other. Packs come after them: they read what is in the registers then, or what earlier packs made. A run ends
before the first instruction for which that would be another order than the text's. Only the address of a load is taken
on the way, after as many scalar instructions as the text has before it: a loop that is written out moves one register
from load to load.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from convc.machine.execute.kinds import kind_of, slots_in
from convc.machine.isa.all import forms_with
from convc.machine.isa.registry import NO_RESULT, Traits
from convc.machine.state.flow import Flow
from convc.machine.state.slots import SlotTable
from convc.ptx import Address, Guard, Instr, Reg

FIRST = frozenset(("tensor", "load", "ld.shared", "ld.cluster", "apply"))
"""Kinds of packs that a segment may begin with."""

STORES = frozenset(("store", "st.shared"))
"""Kinds of packs that end a segment."""

FEWEST = 12
"""Instructions in packs that make a segment worth its while."""

COPIES = (["load", "st.shared"], ["tensor", "st.shared"], ["tensor"])
"""Kinds of packs that are worth a segment however few instructions they are: what touches data in segments alone may be
repeated (`convc.machine.execute.repeat`). A tcgen05.ld stands alone where a warp gives the columns back behind it."""

Element = tuple["Pack", int]
"""A pack, and the position on the last axis of its result."""

Source = Element | int
"""Where a value comes from: a pack, or the register of this slot."""


@dataclass(slots=True, eq=False)
class Pack:
    """Instructions that are performed together.

    Attributes:
        kind: ``tensor`` (tcgen05.ld), ``load``, ``apply``, ``store``, and ``ld.shared``, ``ld.cluster``, ``st.shared``.
        members: their indices in the body.
        level: how many packs one after the other its operands need.
        sources: for each operand, where the value comes from in each member.
        targets: slots, one for each element of the result.
        guard: of all members, loads from global memory and stores alone. Where it does not hold elements are anything.
        only: of all members, arithmetic and loads from clusters alone. Where it does not hold elements are those of
            ``olds``, what the targets held before; anything where ``olds`` are empty, as they are not looked at there.
        before: how many scalar instructions of the segment run before a load takes its address.
    """

    kind: str
    members: list[int]
    level: int
    sources: list[list[Source]]
    targets: list[int] = field(default_factory=list)
    guard: Guard | None = None
    only: Guard | None = None
    olds: list[Source] = field(default_factory=list)
    before: int = 0


@dataclass(slots=True, kw_only=True)
class Segment:
    """A run of instructions of which packs are made.

    Attributes:
        start, stop: indices in the body.
        scalars: indices of the instructions that run first.
        packs: in the order in which they are performed; of stores to either memory there is at most one, the last.
        left: for each pack, (position, slot) of what its elements leave in registers that are read after the segment.
        values: the slots that packs compute with as they are in the registers, before any pack.
    """

    start: int
    stop: int
    scalars: list[int]
    packs: list[Pack]
    left: list[list[tuple[int, int]]]
    values: set[int]


def segments_of(body: tuple[Instr, ...], table: SlotTable, flow: Flow) -> list[Segment]:
    """The segments of a kernel, which do not overlap."""
    loads = forms_with(Traits.LOADS)
    begins = sorted(table.applied.keys() | [i for i, instr in enumerate(body) if instr.form.name in loads])
    if len(begins) < FEWEST:
        return []
    leaders = {fact.target for fact in flow.facts if fact.target is not None}
    found: list[Segment] = []
    end = 0
    for start in begins:
        if start >= end and kind_of(body[start], table) in FIRST:
            run = _Run(body, table, start)
            end = run.extend(leaders)
            members = sum(len(pack.members) for pack in run.packs)
            kinds = [pack.kind for pack in run.packs]
            if members >= FEWEST or kinds in COPIES or "ld.cluster" in kinds:
                found.append(run.segment(end, flow.live_in(end)))
    return found


class _Run:
    """A segment that grows."""

    def __init__(self, body: tuple[Instr, ...], table: SlotTable, start: int) -> None:
        self.body = body
        self.table = table
        self.start = start
        self.scalars: list[int] = []
        self.packs: list[Pack] = []
        self.made: dict[int, Element] = {}  # by the slot that holds it
        self.read: set[int] = set()  # slots that packs read as they are in the registers
        self.open: dict[tuple[object, ...], Pack] = {}  # packs that may grow
        self.values: dict[int, int] = {}  # by the slot: how many scalar instructions have written it
        self.guarded = False  # whether a pack was loaded under a guard

    def extend(self, leaders: set[int]) -> int:
        """Take instructions as long as they fit; returns the index behind the last."""
        at = self.start
        take = {
            "tensor": self._tensor,
            "load": self._load,
            "ld.shared": self._load,
            "ld.cluster": self._load,
            "apply": self._apply,
            "store": self._store,
            "st.shared": self._store_shared,
            "scalar": self._scalar,
        }
        stored = ""
        while at < len(self.body) and (at == self.start or at not in leaders):
            kind = kind_of(self.body[at], self.table)
            if not kind or (stored and kind != stored) or not take[kind](self.body[at]):
                break
            stored = kind if kind in STORES else ""
            at += 1
        return at

    def segment(self, stop: int, live: frozenset[int]) -> Segment:
        """What was found, where ``live`` slots are read after it."""
        packs = sorted(self.packs, key=lambda pack: (pack.level, pack.members[0]))
        left: dict[Pack, list[tuple[int, int]]] = {pack: [] for pack in packs}
        for slot, (pack, at) in self.made.items():
            if slot in live:
                left[pack].append((at, slot))
        if any(pack.olds for pack in packs):
            self._forget_olds(packs, left)
        values: set[int] = set()
        for pack in packs:
            for sources in (*pack.sources, pack.olds):
                values.update([source for source in sources if isinstance(source, int)])
        return Segment(
            start=self.start,
            stop=stop,
            scalars=self.scalars,
            packs=packs,
            left=[sorted(slots) for slots in left.values()],
            values=values,
        )

    @staticmethod
    def _forget_olds(packs: list[Pack], left: dict[Pack, list[tuple[int, int]]]) -> None:
        """What targets held before matters where they are looked at under another guard, or later."""
        looked_at = {pack for pack in packs if left[pack]}
        for pack in packs:
            own = _name(pack.only or pack.guard)
            elements = [e for sources in (*pack.sources, pack.olds) for e in sources if not isinstance(e, int)]
            looked_at.update(other for other, _ in elements if _name(other.only) != own)
        for pack in packs:
            if pack not in looked_at:
                pack.olds = []

    def _scalar(self, instr: Instr) -> bool:
        slots = [s for operand in instr.operands for s in slots_in(operand)]
        guard = [] if instr.guard is None else [instr.guard.slot]
        if any(slot in self.made for slot in (*slots, *guard)):
            return False
        if instr.form.name not in NO_RESULT and slots and slots[0] in self.read:
            return False
        self.scalars.append(instr.index)
        if slots:
            self.values[slots[0]] = self.values.get(slots[0], 0) + 1
        return True

    def _outside(self, operand: object) -> tuple[int, int] | None:
        """The slot of an address that no pack made, and which of its values the address is."""
        base = operand.base if isinstance(operand, Address) else None
        if not isinstance(base, Reg) or base.slot in self.made:
            return None
        return base.slot, self.values.get(base.slot, 0)

    def _source(self, slot: int) -> Source:
        made = self.made.get(slot)
        if made is not None:
            return made
        self.read.add(slot)
        return slot

    def _old(self, slot: int, guard: Guard) -> Source:
        """What a target holds where a guard does not hold: packs under the same guard have left it there."""
        source = self._source(slot)
        if not isinstance(source, int) and _name(source[0].only) == _name(guard):
            return source[0].olds[source[1]]
        return source

    def _grow(self, key: tuple[object, ...], pack: Pack) -> None:
        """Add to a pack that is open under a key, or open this one."""
        known = self.open.get(key)
        if known is None:
            self.packs.append(pack)
            self.open[key] = known = pack
        else:
            known.members += pack.members
            known.olds += pack.olds
            for sources, more in zip(known.sources, pack.sources, strict=True):
                sources += more
            known.targets += pack.targets
        self.guarded = self.guarded or pack.guard is not None
        first = len(known.targets) - len(pack.targets)
        for i, slot in enumerate(pack.targets):
            self.made[slot] = known, first + i

    def _tensor(self, instr: Instr) -> bool:
        base = self._outside(instr.args["taddr"])
        if base is None:
            return False
        pack = Pack("tensor", [instr.index], 0, [], slots_in(instr.args["r"]), before=len(self.scalars))
        self._grow(("tensor", instr.index), pack)
        return True

    def _load(self, instr: Instr) -> bool:
        address = instr.operands[1]
        slots = slots_in(instr.operands[0])
        guard = instr.guard
        if guard is not None and any(slot in self.made for slot in (guard.slot, *slots)):
            return False
        base = self._outside(address)
        if base is None or not isinstance(address, Address):
            return False
        if guard is not None:
            self.read.add(guard.slot)
        # A pack reads one row: words that follow one another.
        kind = kind_of(instr, self.table)
        pack = Pack(kind, [instr.index], 0, [], slots, guard, before=len(self.scalars))
        if kind == "ld.cluster" and guard is not None:
            pack.guard = None
            pack.only = guard
            pack.olds = [self._source(slot) for slot in slots]
        self._follow(base, address.offset, pack, len(slots))
        return True

    def _follow(self, base: tuple[int, int], offset: int, pack: Pack, words: int) -> None:
        """Continue the pack whose words end where these begin, or open one that may be continued where they end."""
        size = 4 * words
        kind = (pack.kind, _name(pack.guard), _name(pack.only))
        known = self.open.pop((kind, base, size, offset), None)
        key = (kind, base, size, offset + size)
        self.open.pop(key, None)
        if known is not None:
            self.open[key] = known
        self._grow(key, pack)

    def _apply(self, instr: Instr) -> bool:
        applied = self.table.applied[instr.index]
        made = self.made
        guard = instr.guard
        target = applied.target
        slots = applied.sources if guard is None else [*applied.sources, target]
        if not self._whole(slots, None) or (guard is not None and guard.slot in made):
            return False
        sources = [self._source(slot) for slot in applied.sources]
        olds = [] if guard is None else [self._old(target, guard)]
        if guard is not None:
            self.read.add(guard.slot)
        level = 1
        for source in sources if guard is None else olds + sources:
            if not isinstance(source, int) and source[0].level >= level:
                level = source[0].level + 1
        key = ("apply", instr.form.name, instr.mods, level, self.table.widths[target], _name(guard))
        pack = self.open.get(key)
        if pack is None:  # many are added to one: `_grow` would take a pack for each of them
            pack = self.open[key] = Pack("apply", [], level, [[] for _ in sources], only=guard)
            self.packs.append(pack)
        pack.members.append(instr.index)
        for column, source in zip(pack.sources, sources, strict=True):
            column.append(source)
        pack.olds += olds
        made[target] = pack, len(pack.targets)
        pack.targets.append(target)
        return True

    def _store(self, instr: Instr) -> bool:
        address = instr.operands[0]
        if instr.guard is not None and instr.guard.slot in self.made:
            return False
        base = self._outside(address)
        if base is None or not isinstance(address, Address):
            return False
        slots = slots_in(instr.operands[1])
        if any(pack.kind == "store" for pack in self.packs):
            key = (("store", _name(instr.guard), None), base, 4 * len(slots), address.offset)
            if key not in self.open:
                return False
        if not self._whole(slots, instr.guard):
            return False
        pack = Pack("store", [instr.index], 1 << 30, [[self._source(slot) for slot in slots]], guard=instr.guard)
        if instr.guard is not None:
            self.read.add(instr.guard.slot)
        self._follow(base, address.offset, pack, len(slots))
        return True

    def _store_shared(self, instr: Instr) -> bool:
        """Every store has an address of its own: rows of shared memory are swizzled."""
        slots = slots_in(instr.operands[1])
        guard = instr.guard
        if (guard is not None and guard.slot in self.made) or not self._whole(slots, guard):
            return False
        key = ("st.shared", len(slots), _name(guard))
        if key not in self.open and any(pack.kind == "st.shared" for pack in self.packs):
            return False
        if self._outside(instr.operands[0]) is None:
            return False
        if guard is not None:
            self.read.add(guard.slot)
        self._grow(key, Pack("st.shared", [instr.index], 1 << 30, [[self._source(s) for s in slots]], guard=guard))
        return True

    def _whole(self, slots: Iterable[int], guard: Guard | None) -> bool:
        """Whether what packs left in registers is known wherever a guard holds: it was loaded under none other."""
        if not self.guarded:
            return True
        guards = [self.made[slot][0].guard for slot in slots if slot in self.made]
        return all(other is None or _name(other) == _name(guard) for other in guards)


def _name(guard: Guard | None) -> tuple[int, bool] | None:
    return None if guard is None else (guard.slot, guard.negate)


def places_of(segment: Segment, body: tuple[Instr, ...], loads: bool = True) -> set[int]:
    """The slots that say where packs load (unless told not to) and store, and in which threads."""
    found: set[int] = set()
    for pack in segment.packs:
        found.update(guard.slot for guard in (pack.guard, pack.only) if guard is not None)
        if pack.kind not in STORES and not loads:
            continue
        for member in pack.members if pack.kind == "st.shared" else pack.members[:1]:
            bases = [operand.base for operand in body[member].operands if isinstance(operand, Address)]
            found.update(base.slot for base in bases if isinstance(base, Reg))
    return found


def handed_on(segments: list[Segment]) -> frozenset[int]:
    """The slots that one segment leaves values in for another to compute with."""
    left = {slot for segment in segments for elements in segment.left for _, slot in elements}
    return frozenset(left.intersection(set[int]().union(*[segment.values for segment in segments])))
