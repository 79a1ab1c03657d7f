"""Which form an instruction is.

Two steps, both remembered, because a kernel says the same things again and again:

1. `match_head`: the text ``add.u32`` to the rows it may be, each with its modifiers sorted into slots. Modifiers are
   tried in the order of the row; if no row fits, in any order, as ptxas allows (``ld.global.acquire.gpu.b32``), except
   that the literals a row begins with (``mbarrier.try_wait.parity``), types, layouts and state spaces keep their
   places.
2. `resolve`: one of these rows by the operands, keyed by their kinds and types.

A text that fits no row goes to `diagnose`, which says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, product
from typing import NamedTuple, TypeAlias

from convc.ptx.operands import SPACES, Spec, accepts, spec_of, unwrapped
from convc.ptx.syntax import TYPE_BITS, Form, Operand, Pair
from convc.ptx.tables import Choice, Condition, Group, Place, Row, choices, opcodes, rows_of

MAX_REMEMBERED = 20_000
"""Entries after which the memories are emptied (they are filled by strangers' texts)."""

MAX_MODIFIERS = 24
"""More than any instruction has."""

LAYOUTS = ("row", "col")
"""Of a matrix (mma)."""

Chosen: TypeAlias = tuple[tuple[Choice, str], ...]
"""The choices of a row, each with the value that the text has."""

Tried: TypeAlias = Callable[[int, Choice], None]
"""Hears of every attempt: number of the modifier, and what was looked for there."""


class Match(NamedTuple):
    """A row that a head fits.

    Attributes:
        names: of all operands that rows of this form have.
        shapes: the operand lists it may have, one for each choice of optional ones.
    """

    form: Form
    mods: tuple[str, ...]
    slots: Mapping[str, str | None]
    names: frozenset[str]
    shapes: tuple[tuple[Spec, ...], ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Resolved:
    """What all instructions with one head and the same kinds of operands have in common; called, `Instr.named`.

    Attributes:
        names: of the operands in order; a pair of names where the row says ``d|p``.
        absent: the names of the form's operands that are not there, each with None.
        numbered: some place wants a particular number, so operands are looked at each time.
        target: position of the operand that is a label or a list of labels, or None.
        wrapped: some operand is a ``{a}`` that stands for ``a``.
        single: the names where all operands are there and each has one; else None.
    """

    form: Form
    mods: tuple[str, ...]
    slots: Mapping[str, str | None]
    names: tuple[str | tuple[str, str], ...]
    absent: Mapping[str, None]
    specs: tuple[Spec, ...]
    numbered: bool
    target: int | None
    wrapped: bool
    single: tuple[str, ...] | None

    def fits(self, operands: Sequence[Operand]) -> bool:
        """Whether each operand is what is wanted at its place."""
        return all(map(accepts, self.specs, operands))

    def __call__(self, operands: Sequence[Operand]) -> Mapping[str, Operand | None]:
        """Operands by name."""
        if self.single is not None:
            return dict(zip(self.single, operands, strict=True))
        args: dict[str, Operand | None] = dict(self.absent)
        for name, operand in zip(self.names, operands, strict=True):
            if isinstance(name, str):
                args[name] = operand
            elif isinstance(operand, Pair):
                args[name[0]] = operand.first
                args[name[1]] = operand.second
            else:
                args[name[0]] = operand
        return args


_heads: dict[str, tuple[Match, ...]] = {}
_resolved: dict[tuple[str, str], Resolved] = {}


def forms() -> tuple[Form, ...]:
    """Every form of the table, one for each row."""
    return tuple(row.form for opcode in opcodes() for row in rows_of(opcode))


def match_head(head: str) -> tuple[Match, ...]:
    """The rows that ``opcode.modifier.modifier`` may be; () if it fits none."""
    matches = _heads.get(head)
    if matches is None:
        matches = tuple(_matches(head))
        if matches:
            if len(_heads) >= MAX_REMEMBERED:
                _heads.clear()
            _heads[head] = matches
    return matches


def _matches(head: str) -> Iterator[Match]:
    """What `match_head` finds, one after the other."""
    opcode, *mods = head.split(".")
    if len(mods) > MAX_MODIFIERS:
        return
    rows = rows_of(opcode)
    for how in in_order, in_any_order:
        found = False
        for row in rows:
            chosen = how(row, mods) if row.literals.issubset(mods) else None
            if chosen is not None:
                found = True
                if broken_rule(row, chosen) is None:
                    yield _build(row, chosen)
        if found:
            return


def resolve(head: str, operands: Sequence[Operand], kinds: str) -> Resolved | None:
    """The row that ``head`` with these operands is, or None. ``kinds`` stands for their kinds and types."""
    key = (head, kinds)
    found = _resolved.get(key)
    if found is not None and (not found.numbered or found.fits(operands)):
        return found
    for match in _heads.get(head) or _matches(head):
        for specs in match.shapes:
            if len(specs) == len(operands) and _all_fit(specs, operands):
                found = _resolve(match, specs, operands)
                if len(_resolved) >= MAX_REMEMBERED:
                    _resolved.clear()
                _resolved[key] = found
                return found
    return None


def _all_fit(specs: Sequence[Spec], operands: Sequence[Operand]) -> bool:
    return all(map(accepts, specs, operands))


def _resolve(match: Match, specs: tuple[Spec, ...], operands: Sequence[Operand]) -> Resolved:
    targets = [index for index, spec in enumerate(specs) if spec.kind in ("label", "targets")]
    absent = dict.fromkeys(match.names - {spec.name for spec in specs})
    return Resolved(
        form=match.form,
        mods=match.mods,
        slots=match.slots,
        names=tuple((spec.name, spec.second) if spec.second else spec.name for spec in specs),
        absent=absent,
        specs=specs,
        numbered=any(spec.numbers is not None for spec in specs),
        target=targets[0] if targets else None,
        wrapped=any(unwrapped(spec, each) is not each for spec, each in zip(specs, operands, strict=True)),
        single=None if absent or any(spec.second for spec in specs) else tuple(spec.name for spec in specs),
    )


def in_order(row: Row, mods: Sequence[str]) -> Chosen | None:
    """The choices that spell ``mods`` in the order of the row, or None."""
    return _spelled(row, (), 0, tuple(mods), 0)


def _spelled(row: Row, pending: tuple[Choice, ...], number: int, mods: tuple[str, ...], at: int) -> Chosen | None:
    """The first way to read ``mods[at:]`` as ``pending`` and the items of a row from one on; None where none is.

    It is the first that `walk` finds, which looks at all items of all rows; here most rows end with the first ones.
    """
    chosen: list[tuple[Choice, str]] = []
    while pending or number < row.length:
        if pending:
            item = pending[0]
            pending = pending[1:]
        else:
            item = row.item(number)
            number += 1
        word = mods[at] if at < len(mods) else ""
        if isinstance(item, Group):
            more = _spelled(row, item.items, number, mods, at) if word in item.items[0].words else None
            if more is not None:
                return (*chosen, *more)
            continue
        if word not in item.words:
            return None
        if not item.several:  # nearly always
            chosen.append((item, word))
            at += 1
            continue
        fits = [(value, parts) for value, parts in item.values.items() if parts == mods[at : at + len(parts)]]
        for value, parts in fits[:-1]:
            more = _spelled(row, pending, number, mods, at + len(parts))
            if more is not None:
                return (*chosen, (item, value), *more)
        if not fits:
            return None
        value, parts = fits[-1]
        chosen.append((item, value))
        at += len(parts)
    return tuple(chosen) if at == len(mods) else None


def walk(items: Sequence[Choice | Group], mods: Sequence[str], at: int, tried: Tried | None = None) -> Iterator[Chosen]:
    """All ways to read ``mods[at:]`` as ``items``."""
    if not items:
        if at == len(mods):
            yield ()
        return
    item, *rest = items
    if isinstance(item, Group):
        yield from walk((*item.items, *rest), mods, at, tried)
        yield from walk(rest, mods, at, tried)
        return
    if tried is not None:
        tried(at, item)
    for value, parts in item.values.items():
        if tuple(mods[at : at + len(parts)]) == parts:
            for more in walk(rest, mods, at + len(parts), tried):
                yield ((item, value), *more)


def in_any_order(row: Row, mods: Sequence[str]) -> Chosen | None:
    """The choices that spell ``mods`` in some order, or None."""
    if not row.words.issuperset(mods):
        return None
    left = list(mods)
    chosen: list[tuple[Choice, str]] = []
    for item in choices(row.items[: row.fixed]):
        (value,) = item.values
        if left[:1] != [value]:
            return None
        del left[0]
        chosen.append((item, value))
    for item in row.items[row.fixed :]:
        together = item.items if isinstance(item, Group) else (item,)
        values = ((choice, _take(choice, left)) for choice in together)
        taken = [(choice, value) for choice, value in values if value is not None]
        if len(taken) == len(together):
            chosen += taken
        elif taken or not isinstance(item, Group):  # half of a group, or what is not optional is absent
            return None
    return None if left else tuple(chosen)


def _take(choice: Choice, left: list[str]) -> str | None:
    """Remove the first value of ``choice`` that stands in ``left``. Types keep their order; layouts and spaces too."""
    ordered = {_kind(value) for value in choice.values} - {""}
    for at in range(len(left)):
        for value, parts in choice.values.items():
            if tuple(left[at : at + len(parts)]) == parts:
                del left[at : at + len(parts)]
                return value
        if _kind(left[at]) in ordered:
            return None
    return None


def _kind(word: str) -> str:
    """Modifiers of one kind must not change places: ``.f32.s32``, ``.row.col``, ``.shared::cta.global``."""
    if word in TYPE_BITS:
        return "type"
    if word in LAYOUTS:
        return "layout"
    return "space" if word.partition("::")[0] in SPACES else ""


def slots_of(chosen: Chosen) -> dict[str, str]:
    """Modifier chosen for each slot."""
    return {choice.slot: value for choice, value in chosen if choice.slot is not None}


def broken_rule(row: Row, chosen: Chosen) -> tuple[tuple[Condition, ...], Condition] | None:
    """The first ``if`` line that the choices break: its condition, and what should hold."""
    if not row.rules:
        return None
    slots = slots_of(chosen)
    for when, then in row.rules:
        if all(_holds(condition, slots) for condition in when):
            for condition in then:
                if not _holds(condition, slots):
                    return when, condition
    return None


def _holds(condition: Condition, slots: Mapping[str, str]) -> bool:
    slot, values = condition
    return slots.get(slot, "none") in values if values else slot in slots


@lru_cache(maxsize=1 << 10)
def _in_common(opcode: str, name: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """The slots and the names of operands that rows of one form have."""
    alike = [row for row in rows_of(opcode) if row.name == name]
    slots = tuple([slot for row in alike for slot in row.slots])
    return slots, frozenset([each for row in alike for each in row.names])


def _build(row: Row, chosen: Chosen) -> Match:
    """A row with its modifiers chosen; slots and names are those of all rows of the form, as in an `Instr`."""
    form = row.form
    all_slots, names = _in_common(form.opcode, form.name)
    slots: dict[str, str | None] = dict.fromkeys(all_slots)
    sizes: dict[str, int] = {}
    mods: list[str] = []
    for choice, value in chosen:
        mods += choice.values[value]
        if choice.slot is not None:
            slots[choice.slot] = value
            if value in choice.sizes:
                sizes[choice.slot] = choice.sizes[value]
    default = row.default_type
    specs: list[Spec] = []
    free: list[tuple[bool, ...]] = []
    for place in row.places:
        present = _present(place, slots)
        if present is not False:
            specs.append(spec_of(place, slots, sizes, default))
            free.append((True, False) if present is None else (True,))
    shapes = [tuple(compress(specs, picked)) for picked in product(*free)]
    return Match(form, tuple(mods), slots, names, tuple(shapes))


def _present(place: Place, slots: Mapping[str, str | None]) -> bool | None:
    """Whether the modifiers demand (True) or forbid (False) an operand; None where it is free."""
    if "when" in place.words:
        return slots.get(place.words[place.words.index("when") + 1]) is not None
    return None if place.optional else True
