"""Formulas that `convc.derive` has derived, with the numbers of a problem put in.

``derived.json`` beside this file has the formulas of every form of a schedule, in which sizes are names: index maps,
what a problem has to meet, loop nests. A formula is a sum of terms, each a number of sizes times an axis or a division.
With numbers in place of sizes it is an expression (`convc.ir.expr`).

The file names the digest of the folder that it was derived by. Where that has changed, everything is derived anew
(`convc.derived.rederived`).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from convc.ir import expr as intexpr
from convc.ir.expr import Const, Interval, IntExpr, Var

FILE = Path(__file__).with_name("derived.json")
SOURCES = Path(__file__).parents[1] / "derive"

Sizes = Mapping[str, int]
"""The numbers that stand for sizes."""

Products = list[list[int | str]]
"""A number of sizes: a sum of products, each a number and names."""

ANY: Interval = (-(2**63), 2**63)
"""The range of a number of which none is known."""


class Term(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """So many times an axis or a division."""

    times: Products
    atom: str | Division


class Formula(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A sum: a number of sizes, and terms, those of outer loops first."""

    constant: Products
    terms: list[Term]

    def at(self, sizes: Sizes, ranges: Mapping[str, Interval] | None = None) -> IntExpr:
        """The expression with numbers in place of sizes: terms in the order of loops, axes as variables.

        A division is left out where the ranges of its variables say that the dividend is below the divisor.
        """
        times = ((number_of(term.times, sizes), term.atom) for term in self.terms)
        terms = (intexpr.mul(atom_at(atom, sizes, ranges or {}), each) for each, atom in times if each)
        return intexpr.add(*terms, number_of(self.constant, sizes))

    def number(self, sizes: Sizes) -> int:
        """The number of a formula, of axes too, as if they were sizes."""
        total = number_of(self.constant, sizes)
        for term in self.terms:
            atom = term.atom
            total += number_of(term.times, sizes) * (sizes[atom] if isinstance(atom, str) else atom.number(sizes))
        return total

    def value(self, values: Mapping[str, Any]) -> Any:
        """The number of a formula; of arrays or expressions in place of the numbers of axes, what they make."""
        total: Any = None
        for term in self.terms:
            part = _value(term.atom, values) * number_of(term.times, values)
            total = part if total is None else total + part
        constant = number_of(self.constant, values)
        return constant if total is None else total + constant

    def names(self) -> Iterator[str]:
        """Sizes and axes outside of divisions."""
        for products in (self.constant, *(term.times for term in self.terms)):
            yield from (str(name) for product in products for name in product[1:])
        yield from (term.atom for term in self.terms if isinstance(term.atom, str))


class Division(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A quotient (``//``), or a remainder (``%``)."""

    sign: str
    dividend: Formula
    divisor: Products

    def number(self, sizes: Sizes) -> int:
        """The number, as of `Formula.number`."""
        dividend = self.dividend.number(sizes)
        divisor = number_of(self.divisor, sizes)
        return dividend // divisor if self.sign == "//" else dividend % divisor


class Bound(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """``low < high`` or ``low <= high``, by the numbers of formulas."""

    sign: str
    low: int
    high: int

    def holds(self, sizes: Sizes) -> bool:
        """Whether it is so for these numbers."""
        low, high = (derived().expressions[side].number(sizes) for side in (self.low, self.high))
        return low < high if self.sign == "<" else low <= high


class MapRecord(msgspec.Struct, array_like=True, frozen=True):
    """An index map: its axes, the numbers of its results' formulas, and where it means something."""

    axes: list[str]
    results: list[tuple[str, int]]
    guard: list[Bound]


class LoadRecord(msgspec.Struct, frozen=True):
    """The pixels that come to the rows of a tile before each iteration of a loop."""

    inside: str
    row: str
    rows: int
    pixel: list[tuple[str, int]]
    since: int | None
    words: str


class MoveRecord(msgspec.Struct, frozen=True):
    """A move of rows behind each iteration of a loop but the last."""

    inside: str
    lanes: int
    words: str


class MaskRecord(msgspec.Struct, frozen=True):
    """The lanes that are left out: they need padding, and hold none."""

    axis: str
    need: int
    end: int
    held: int
    held_end: int
    since: int | None


class NestRecord(msgspec.Struct, frozen=True):
    """A loop nest (`convc.derive.nests.Nest`), its expressions by their numbers; `pixel` where no load brings any."""

    loops: list[tuple[str, int, str]]
    space: list[tuple[str, int]]
    guard: list[Bound]
    accumulate: str | None
    load: LoadRecord | None
    pixel: list[tuple[str, int]]
    read: int | None
    move: MoveRecord | None
    masks: list[MaskRecord]
    swapped: bool
    lets: list[LetRecord] = []
    added: str | None = None
    updates: str = "y"


class Condition(msgspec.Struct, frozen=True):
    """A condition that a problem has to meet: one of some bounds; for people as text and in words, with its theorem."""

    text: str
    words: str
    theorem: str
    either: list[Bound]


class DemandRecord(msgspec.Struct, array_like=True, frozen=True):
    """One of several bounds has to hold: those with a limit hold from there on, up or down; the others do or do not."""

    least: bool
    limits: list[int | None]
    bounds: list[Bound]


class SolvedRecord(msgspec.Struct, array_like=True, frozen=True):
    """A number that a schedule chooses (`convc.derive.solve.Solved`): the largest that is legal, or the smallest."""

    greatest: bool
    demands: list[DemandRecord]
    theorems: list[int]


class FormRecord(msgspec.Struct, frozen=True):
    """A form of a schedule: titles, nests and rewrites of its algorithms; maps, theorems, conditions, numbers."""

    algorithms: list[tuple[str, int, list[int]]]
    maps: dict[str, MapRecord]
    theorems: list[int]
    conditions: list[int]
    solved: dict[str, int]


class CaseRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A number, by a formula, where the formula `key` is below a limit; the last case has no key."""

    value: int
    key: int | None
    limit: Products | None


class LetRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A number that the kernel works out inside of a loop, or finds there, in the place of another loop's."""

    inside: str
    axis: str
    cases: list[CaseRecord]
    found: str


class ChangeRecord(msgspec.Struct, frozen=True):
    """Loops that are counted in another way: what `convc.derive.reindex` has of it."""

    title: str
    step: int
    old: list[str]
    loops: list[tuple[str, int, str]]
    lets: list[LetRecord]
    guard: list[Bound]
    inside: dict[str, str]
    added: str | None
    maps: dict[str, MapRecord]
    conditions: list[int]

    def let(self, axis: str) -> LetRecord:
        """The let of an axis."""
        return next(each for each in self.lets if each.axis == axis)


class ShareRecord(msgspec.Struct, frozen=True):
    """A map that kernels of several forms have, and the numbers of its theorems."""

    map: MapRecord
    theorems: list[int]


class FactRecord(msgspec.Struct, frozen=True):
    """Something that an instruction takes for granted: what `convc.derive.results` has of it."""

    says: str
    theorem: str
    theorems: list[int]
    conditions: list[int]
    maps: dict[str, MapRecord]


class Derived(msgspec.Struct, frozen=True):
    """The whole record; what entries of `steps` and `theorems` are is up to who shows them."""

    format: str
    digest: str
    forms: dict[str, FormRecord]
    changes: dict[str, ChangeRecord]
    shares: dict[str, ShareRecord]
    facts: dict[str, FactRecord]
    expressions: list[Formula]
    conditions: list[Condition]
    theorems: msgspec.Raw
    steps: msgspec.Raw
    nests: list[NestRecord]
    numbers: list[SolvedRecord]


def number_of(products: Products, sizes: Sizes) -> int:
    """A number of sizes."""
    total = 0
    for first, *names in products:
        assert isinstance(first, int)
        for name in names:
            first *= sizes[name]  # pyright: ignore[reportArgumentType]
        total += first
    return total


def _value(atom: str | Division, values: Mapping[str, Any]) -> Any:
    if isinstance(atom, str):
        return values[atom]
    dividend = atom.dividend.value(values)
    divisor = number_of(atom.divisor, values)
    return dividend // divisor if atom.sign == "//" else dividend % divisor


def atom_at(atom: str | Division, sizes: Sizes, ranges: Mapping[str, Interval]) -> IntExpr:
    """An axis, or a division with numbers in place of sizes; `ranges` as of `Formula.at`."""
    if isinstance(atom, str):
        return Var(atom)
    dividend = atom.dividend.at(sizes, ranges)
    divisor = number_of(atom.divisor, sizes)
    quotient = atom.sign == "//"
    if ranges:
        low, high = intexpr.bounds(dividend, {name: ranges.get(name, ANY) for name in dividend.variables()})
        if low >= 0 and high < divisor:
            return Const(0) if quotient else dividend
    return intexpr.floor_div(dividend, divisor) if quotient else intexpr.mod(dividend, divisor)


@functools.cache
def derived() -> Derived:
    """The record: the one that came with convc, or, where `convc.derive` is not what it was derived by, a new one.

    Raises:
        DerivationError: `convc.derive` was changed, and what it derives is refused.
    """
    digest = digest_of(SOURCES)
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        found = msgspec.json.decode(FILE.read_bytes(), type=Derived)
        if found.digest == digest:
            return found
    # Imported here because a record that is as it was released needs no cache.
    from convc.derived.rederived import rederived

    return msgspec.json.decode(rederived(digest), type=Derived)


def digest_of(folder: Path) -> str:
    """SHA-256 of the sources of the derivation, as `convc.derive.write` takes it."""
    found = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        content = path.read_bytes()
        found.update(f"{path.name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()
