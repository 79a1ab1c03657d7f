"""Instructions that fill a line, remembered: kernels say the same lines again and again.

What a line says depends on what its names mean, and that changes from kernel to kernel: the registers have other slots.
Which form it is depends on the kinds of these meanings alone. So a *pattern* keeps the form, and how the operands are
put together from what names mean and from numbers; all lines have it that differ in names and numbers alone. A line is
a *phrase*: a pattern, with names and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from convc.ptx.grammar import Resolved
from convc.ptx.numbers import read_number
from convc.ptx.scope import Entry
from convc.ptx.syntax import (
    Address,
    Guard,
    Imm,
    Label,
    NotPred,
    Operand,
    Pair,
    Reg,
    Sink,
    Special,
    Symbol,
    TensorAddress,
    Vector,
)

MAX_REMEMBERED = 1 << 12
"""Patterns after which the memory of them is emptied."""

LookUp = Callable[[str], Entry]
"""What a name means, be it a label."""

LookUpAll = Callable[[dict[str, Entry]], tuple[Entry, ...]]
"""From what names mean to what some of them mean."""

Known = tuple[Any, ...]
"""What the names of a phrase mean, and its numbers; offsets are plain ones."""

Make = Callable[[Known], Any]
"""From that to an operand, or to several; the kinds of the meanings have told what they are."""


class Wording(NamedTuple):
    """A line that is one instruction, taken apart.

    Attributes:
        shape: its tokens, without the names and numbers.
        names: in order; the first one is the guard, if there is one. A lone one is there twice.
        numbers: in order.
    """

    shape: tuple[str, ...]
    names: tuple[str, ...]
    numbers: tuple[Imm, ...]


class Pattern(NamedTuple):
    """An instruction without its names and numbers: many have the same one.

    Attributes:
        kinds: of what the names mean.
        makes: the operands; None where they are just what names mean, and numbers behind these.
        offsets: which numbers are those of addresses.
        negate: whether the guard is negated; None without a guard.
        head: opcode with its modifiers. head_at: its token, counted from the first one of the line.
        found: the form.
        goal_at: the token of the label that it jumps to, counted from the first one of the line.
        length: how many tokens.
    """

    kinds: tuple[str, ...]
    makes: tuple[Make, ...] | None
    offsets: frozenset[int]
    negate: bool | None
    head: str
    head_at: int
    found: Resolved
    goal_at: int
    length: int

    def operands(self, known: Known) -> tuple[Operand, ...]:
        """The operands of a phrase."""
        if self.makes is not None:
            return tuple([make(known) for make in self.makes])
        return known if self.negate is None else known[1:]


class Phrase(NamedTuple):
    """An instruction that fills a line.

    Attributes:
        pattern: what it has in common with others.
        names: as in `Wording`.
        look_up: from what names mean to that of these; None where there are none, or one may be a label.
        numbers: as in `Known`.
    """

    pattern: Pattern
    names: tuple[str, ...]
    look_up: LookUpAll | None
    numbers: Known


class Said(NamedTuple):
    """An instruction that was read one token after the other. Tokens are counted from the first one of the line.

    Attributes:
        line: the tokens, of the instruction alone.
        guard: the guard.
        head: opcode with its modifiers. head_at: its token.
        starts: the first token of each operand, and the semicolon.
        operands: what stands there.
        found: the form.
    """

    line: tuple[str, ...]
    guard: Guard | None
    head: str
    head_at: int
    starts: Sequence[int]
    operands: Sequence[Operand]
    found: Resolved


_CLASSES = {
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$%", "%"),
    **dict.fromkeys("0123456789", "#"),
}
"""What stands for a name or a number in a shape, by the first character."""

_patterns: dict[tuple[str, ...], Pattern] = {}
"""By shape, and the kinds of names and numbers."""


def wording_of(line: tuple[str, ...]) -> Wording | None:
    """The tokens of a line that begins with an instruction, taken apart; None where it is more than that."""
    if line[-1] != ";" or line.count(";") > 1:
        return None
    head_at = 0
    if line[0] == "@":
        head_at = 3 if line[1] == "!" else 2
    shape: list[str] = []
    names: list[str] = []
    numbers: list[Imm] = []
    for at, token in enumerate(line):
        kind = _CLASSES.get(token[0])
        if kind is None or at == head_at or token == "_":
            shape.append(token)
            continue
        shape.append(kind)
        if kind == "%":
            names.append(token)
            continue
        number = read_number(token) if line[at - 1] != "-" else read_number(token, negative=True)
        if number is None:
            return None
        numbers.append(number)
    return Wording(tuple(shape), tuple(names if len(names) != 1 else names * 2), tuple(numbers))


def phrase_of(wording: Wording, look_up: LookUp) -> Phrase | None:
    """The phrase of a line whose pattern is known; None for another line.

    ``look_up``: what its names mean.
    """
    entries = [look_up(name) for name in wording.names]
    pattern = _patterns.get(_key(wording, entries))
    if pattern is None:
        return None
    phrase = _phrase(wording, pattern)
    if pattern.found.numbered:
        known = (*[meaning for meaning, _ in entries], *phrase.numbers)
        if not pattern.found.fits(pattern.operands(known)):
            return None
    return phrase


def learn(wording: Wording, said: Said, look_up: LookUp) -> Phrase | None:
    """Remember the pattern of a line; None where an operand is unusual.

    ``look_up``: what its names mean.
    """
    words = _Words(len(wording.names))
    if said.guard is not None:
        words.name()
    makes: list[int | Make] = []
    for start, end, operand in zip(said.starts, said.starts[1:], said.operands, strict=False):
        make = words.operand(said.line[start : end if end == said.starts[-1] else end - 1], operand)
        if make is None:
            return None
        makes.append(make)
    entries = [look_up(name) for name in wording.names]
    just = makes == list(range(0 if said.guard is None else 1, len(wording.names) + len(wording.numbers)))
    target = said.found.target
    pattern = Pattern(
        tuple([kind for _, kind in entries]),
        None if just else tuple([itemgetter(make) if isinstance(make, int) else make for make in makes]),
        frozenset(words.offsets),
        None if said.guard is None else said.guard.negate,
        said.head,
        said.head_at,
        said.found,
        0 if target is None else said.starts[target],
        len(said.line),
    )
    if len(_patterns) >= MAX_REMEMBERED:
        _patterns.clear()
    _patterns[_key(wording, entries)] = pattern
    return _phrase(wording, pattern)


def _key(wording: Wording, entries: Sequence[Entry]) -> tuple[str, ...]:
    kinds = [kind for _, kind in entries]
    return (*wording.shape, *kinds, *[f"#{each.width}" if each.is_float else "#" for each in wording.numbers])


def _phrase(wording: Wording, pattern: Pattern) -> Phrase:
    names = wording.names
    numbers: Known = wording.numbers
    if pattern.offsets:
        numbers = tuple([each.value if at in pattern.offsets else each for at, each in enumerate(numbers)])
    no_label = names and pattern.found.target is None
    return Phrase(pattern, names, itemgetter(*names) if no_label else None, numbers)


_SCALARS = (Reg, Imm, Special, Symbol, Label)
"""Operands that are one word."""


class _Words:
    """The words of operands as they are met; each is a place in what is `Known`.

    Attributes:
        offsets: which of the numbers are those of addresses.
    """

    def __init__(self, names: int) -> None:
        self.offsets: list[int] = []
        self._first_number = names
        self._names = 0
        self._numbers = 0

    def operand(self, tokens: Sequence[str], operand: Operand) -> int | Make | None:
        """How the operand that stands in these tokens is made; None for an unusual one."""
        match operand:
            case Address(base=Reg() | Symbol()):
                return self._address(tokens)
            case TensorAddress(coords=Vector(items=items)):
                base = self.name()
                part = self._several(tokens[4:-2], items)
                return None if part is None else lambda known: TensorAddress(known[base], Vector(part(known)))
            case Vector(items=items):
                part = self._several(tokens[1:-1], items)
                return None if part is None else lambda known: Vector(part(known))
            case Pair(first=first, second=second):
                part = self._several(tokens, (first, second))
                return None if part is None else lambda known: Pair(*part(known))
            case NotPred():
                at = self.name()
                return lambda known: NotPred(known[at])
            case _:
                return self._one(tokens, operand)

    def _address(self, tokens: Sequence[str]) -> Make | None:
        """``[name]`` or ``[name+number]``; None where more is added."""
        base = self.name()
        if len(tokens) == 3:
            return lambda known: Address(known[base])
        if tokens.count("+") != 1:
            return None
        offset = self._number()
        self.offsets.append(offset - self._first_number)
        return lambda known: Address(known[base], known[offset])

    def _several(self, tokens: Sequence[str], items: Sequence[Operand]) -> Make | None:
        """The words of a list with punctuation between them; None where an item is more than one."""
        parts = [list(part) for between, part in groupby(tokens, (",", "|").__contains__) if not between]
        if len(parts) != len(items):
            return None
        found = [self._one(part, item) for part, item in zip(parts, items, strict=True)]
        if None in found:
            return None
        places = [place for place in found if isinstance(place, int)]
        if places and places == list(range(places[0], places[0] + len(items))):
            return itemgetter(slice(places[0], places[0] + len(items)))
        makes = [itemgetter(place) if isinstance(place, int) else place for place in found if place is not None]
        return lambda known: tuple([make(known) for make in makes])

    def _one(self, tokens: Sequence[str], operand: Operand) -> int | Make | None:
        """A name, a number, or ``_``; None for more than one word."""
        if isinstance(operand, Sink):
            return lambda _: operand
        if isinstance(operand, Imm) and tokens[-1][0].isdigit():  # WARP_SZ is a name
            return self._number()
        return self.name() if len(tokens) == 1 and isinstance(operand, _SCALARS) else None

    def name(self) -> int:
        """The place of the next name."""
        self._names += 1
        return self._names - 1

    def _number(self) -> int:
        """The place of the next number."""
        self._numbers += 1
        return self._first_number + self._numbers - 1


@lru_cache(maxsize=1 << 12)
def guard_of(slot: int, name: str, negate: bool) -> Guard:
    """A guard: kernels have few."""
    return Guard(slot, name, negate)
