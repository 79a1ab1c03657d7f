"""Instructions that fill a line, remembered: kernels say the same lines again and again.

What a line says depends on what its names mean, and that changes from kernel to kernel: the registers have other slots.
Which form it is depends on the kinds of these meanings alone, and they are nearly always those of the last time. So a
*phrase* keeps the form, and how the operands are put together from what the words mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from convc.ptx.grammar import Resolved
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

LookUp = Callable[[str], Entry]
"""What a name means, be it a label."""

Make = Callable[[tuple[Any, ...]], Operand]
"""From what the words of a phrase mean to an operand; their kinds have told what they are."""


class Phrase(NamedTuple):
    """An instruction that fills a line.

    Attributes:
        words: the names in it, in order; the first one is the guard, if there is one. A lone one is there twice.
        look_up: from what names mean to that of the words; None where there are none, or one may be a label.
        kinds: of what they meant when the form was found.
        numbers: the numbers in it.
        makes: the operands, from what the words mean and the numbers behind that; None where they are just these.
        negate: whether the guard is negated; None without a guard.
        head: opcode with its modifiers. head_at: its token, counted from the first one of the line.
        found: the form.
        goal_at: the token of the label that it jumps to, counted from the first one of the line.
        length: how many tokens.
    """

    words: tuple[str, ...]
    look_up: Callable[[dict[str, Entry]], tuple[Entry, ...]] | None
    kinds: tuple[str, ...]
    numbers: tuple[Operand, ...]
    makes: tuple[Make, ...] | None
    negate: bool | None
    head: str
    head_at: int
    found: Resolved
    goal_at: int
    length: int


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


def phrase_of(said: Said, look_up: LookUp) -> Phrase | None:
    """An instruction for the next time that a line says it; None where an operand is unusual.

    ``look_up``: what its names mean.
    """
    line, guard, head, head_at, starts, operands, found = said
    words = _Words()
    if guard is not None:
        words.names.append(guard.name)
    makes: list[Make] | None = None
    if len(line) <= starts[0] + 2 * len(operands):  # each is one word, with a comma or the semicolon behind it
        at = [words.one(line[start], operand) for start, operand in zip(starts, operands, strict=False)]
        in_order = [*range(0 if guard is None else 1, len(words.names)), -1]
        if len(words.names) == 1 or at != (in_order if words.numbers else in_order[:-1]):
            makes = [itemgetter(each) for each in at]
    else:
        makes = []
        for start, end, operand in zip(starts, starts[1:], operands, strict=False):
            make = words.operand(line[start : end if end == starts[-1] else end - 1], operand)
            if make is None:
                return None
            makes.append(make)
    names = tuple(words.names) if len(words.names) != 1 else (*words.names, *words.names)
    return Phrase(
        names,
        itemgetter(*names) if names and found.target is None else None,
        tuple([look_up(name)[1] for name in names]),
        tuple(reversed(words.numbers)),
        None if makes is None else tuple(makes),
        None if guard is None else guard.negate,
        head,
        head_at,
        found,
        0 if found.target is None else starts[found.target],
        len(line),
    )


_SCALARS = (Reg, Imm, Sink, Special, Symbol, Label)
"""Operands that are one word."""


class _Words:
    """The words of operands as they are met.

    Attributes:
        names: in order. numbers: those, and ``_``; the first one is the last of what operands are made of.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.numbers: list[Operand] = []

    def operand(self, tokens: Sequence[str], operand: Operand) -> Make | None:
        """How the operand that stands in these tokens is made; None for an unusual one."""
        match operand:
            case Address(base=Reg() | Symbol(), offset=offset):
                base = self.name(tokens[1])
                return lambda known: Address(known[base], offset)
            case TensorAddress(coords=Vector(items=items)):
                base = self.name(tokens[1])
                part = self.several(tokens[4:-2], items)
                return None if part is None else lambda known: TensorAddress(known[base], Vector(part(known)))
            case Vector(items=items):
                part = self.several(tokens[1:-1], items)
                return None if part is None else lambda known: Vector(part(known))
            case Pair(first=first, second=second):
                part = self.several(tokens, (first, second))
                return None if part is None else lambda known: Pair(*part(known))
            case NotPred():
                at = self.name(tokens[1])
                return lambda known: NotPred(known[at])
            case _:
                word = "".join(tokens)
                lone = len(tokens) == 1 and isinstance(operand, _SCALARS)
                return itemgetter(self.one(word, operand)) if lone or isinstance(operand, Imm) else None

    def several(self, tokens: Sequence[str], items: Sequence[Operand]) -> Callable[[tuple[Any, ...]], Any] | None:
        """The words of a list with punctuation between them; None where an item is more than one token."""
        if len(tokens) != 2 * len(items) - 1 or not all(isinstance(item, _SCALARS) for item in items):
            return None
        at = [self.one(token, item) for token, item in zip(tokens[::2], items, strict=True)]
        if at == list(range(at[0], at[0] + len(at))) and at[0] >= 0:
            return itemgetter(slice(at[0], at[0] + len(at)))
        return lambda known: tuple([known[each] for each in at])

    def one(self, word: str, operand: Operand) -> int:
        """Where among what operands are made of stands what a word means."""
        if isinstance(operand, Imm | Sink) and not word[:1].isalpha():  # WARP_SZ is a name
            self.numbers.append(operand)
            return -len(self.numbers)
        return self.name(word)

    def name(self, word: str) -> int:
        """Where among what operands are made of stands what a name means."""
        self.names.append(word)
        return len(self.names) - 1


@lru_cache(maxsize=1 << 12)
def guard_of(slot: int, name: str, negate: bool) -> Guard:
    """A guard: kernels have few."""
    return Guard(slot, name, negate)
