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
        words: the names and numbers that it consists of, in order; the first one is the guard, if there is one.
        fixed: what the numbers among them mean; None for a name.
        kinds: of what all words meant when the form was found.
        negate: whether the guard is negated; None without a guard.
        head: opcode with its modifiers. head_at: its token, counted from the first one of the line.
        makes: the operands, or None where each is one word.
        found: the form.
        goal_at: the token of the label that it jumps to, counted from the first one of the line.
        length: how many tokens.
    """

    words: tuple[str, ...]
    fixed: tuple[Entry | None, ...]
    kinds: tuple[str, ...]
    negate: bool | None
    head: str
    head_at: int
    makes: tuple[Make, ...] | None
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
        operands: what stands there. kinds: of these.
        found: the form.
    """

    line: tuple[str, ...]
    guard: Guard | None
    head: str
    head_at: int
    starts: Sequence[int]
    operands: Sequence[Operand]
    kinds: Sequence[str]
    found: Resolved


def phrase_of(said: Said, look_up: LookUp) -> Phrase | None:
    """An instruction for the next time that a line says it; None where an operand is unusual.

    ``look_up``: what its names mean.
    """
    line, guard, head, head_at, starts, operands, kinds, found = said
    words = _Words()
    if guard is not None:
        words.one([guard.name], None)
    makes: list[Make] | None = None
    if len(line) <= starts[0] + 2 * len(operands):  # each is one word, with a comma or the semicolon behind it
        for start, operand, kind in zip(starts, operands, kinds, strict=False):
            words.words.append(line[start])
            if isinstance(operand, Imm | Sink):
                words.fixed[line[start]] = operand, kind
        kinds = kinds if guard is None else ("pred", *kinds)
    else:
        makes = []
        for start, end, operand in zip(starts, starts[1:], operands, strict=False):
            make = words.operand(line[start : end if end == starts[-1] else end - 1], operand)
            if make is None:
                return None
            makes.append(make)
        kinds = [(words.fixed.get(word) or look_up(word))[1] for word in words.words]
    return Phrase(
        words=tuple(words.words),
        fixed=tuple(map(words.fixed.get, words.words)),
        kinds=tuple(kinds),
        negate=None if guard is None else guard.negate,
        head=head,
        head_at=head_at,
        makes=None if makes is None else tuple(makes),
        found=found,
        goal_at=0 if found.target is None else starts[found.target],
        length=len(line),
    )


_SCALARS = (Reg, Imm, Sink, Special, Symbol, Label)
"""Operands that are one word."""


class _Words:
    """The words of operands as they are met.

    Attributes:
        words: names and numbers in order. fixed: the numbers, and ``_``.
    """

    def __init__(self) -> None:
        self.words: list[str] = []
        self.fixed: dict[str, Entry] = {}

    def operand(self, tokens: Sequence[str], operand: Operand) -> Make | None:
        """How the operand that stands in these tokens is made from what its words mean; None for an unusual one."""
        match operand:
            case Address(base=Reg() | Symbol(), offset=offset):
                base = self.one(tokens[1:2], None)
                return None if base is None else lambda meanings: Address(meanings[base], offset)
            case TensorAddress(coords=Vector(items=items)):
                base = self.one(tokens[1:2], None)
                part = self.several(tokens[4:-2], items)
                if base is None or part is None:
                    return None
                return lambda meanings: TensorAddress(meanings[base], Vector(meanings[part]))
            case Vector(items=items):
                part = self.several(tokens[1:-1], items)
                return None if part is None else lambda meanings: Vector(meanings[part])
            case Pair(first=first, second=second):
                part = self.several(tokens, (first, second))
                return None if part is None else lambda meanings: Pair(*meanings[part])
            case NotPred():
                at = self.one(tokens[1:], None)
                return None if at is None else lambda meanings: NotPred(meanings[at])
            case _:
                at = self.one(tokens, operand)
                return None if at is None else itemgetter(at)

    def several(self, tokens: Sequence[str], items: Sequence[Operand]) -> slice | None:
        """The words of a list with punctuation between them; None where an item is more than one token."""
        first = len(self.words)
        if len(tokens) != 2 * len(items) - 1:
            return None
        if any(self.one(tokens[2 * at : 2 * at + 1], item) is None for at, item in enumerate(items)):
            return None
        return slice(first, len(self.words))

    def one(self, tokens: Sequence[str], operand: Operand | None) -> int | None:
        """The number of the word that these tokens are, a name where no operand is given; None where they are more."""
        word = "".join(tokens)
        if isinstance(operand, Imm | Sink) and not word[:1].isalpha():  # WARP_SZ is a name
            kind = "_"
            if isinstance(operand, Imm):
                kind = f"#{operand.width}" if operand.is_float else "#"
            self.fixed[word] = operand, kind
        elif len(tokens) != 1 or not isinstance(operand, (*_SCALARS, type(None))):
            return None
        self.words.append(word)
        return len(self.words) - 1


@lru_cache(maxsize=1 << 12)
def guard_of(slot: int, name: str, negate: bool) -> Guard:
    """A guard: kernels have few."""
    return Guard(slot, name, negate)
