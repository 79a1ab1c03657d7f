"""Index expressions: whole numbers times symbols and quotients, added up.

Whatever a convolution computes about positions is a sum of terms, each a whole number times a symbol, a quotient or a
remainder (`convc.compiler.index.symbols`) of another such sum by a constant. So an expression is kept in the one form
in which two equal sums are equal records: a constant, and a coefficient other than zero for each of its *atoms*. Sums,
products with numbers and substitutions are exact for numbers of any size, and give that form again.

This is as much of a computer algebra system as the kernels need. The tests hold it against sympy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

Terms: TypeAlias = "dict[Expr, int]"
"""Coefficients of atoms."""


class Expr(ABC):
    """A number that depends on symbols; it is never changed.

    Attributes:
        divisions: quotients and remainders in it, those inside of others included.
    """

    __slots__ = ("_hash", "divisions")

    divisions: int
    _hash: int

    def __hash__(self) -> int:
        return self._hash

    def put_into(self, terms: Terms, factor: int) -> int:
        """Add the terms, so many times, to those that are given; what is returned is the constant, so many times.

        An atom is its own term.
        """
        terms[self] = terms.get(self, 0) + factor
        return 0

    @abstractmethod
    def xreplace(self, put: Mapping[Symbol, Expr]) -> Expr:
        """The expression with others in place of symbols, all at once."""

    @property
    @abstractmethod
    def free_symbols(self) -> frozenset[Symbol]:
        """The symbols that it reads."""

    def __int__(self) -> int:
        raise TypeError(f"{self} is no number")

    def __add__(self, other: Expr | int) -> Expr:
        return added(self, 1, other)

    def __radd__(self, other: int) -> Expr:
        return added(self, 1, other)

    def __sub__(self, other: Expr | int) -> Expr:
        terms: Terms = {}
        constant = self.put_into(terms, 1)
        constant -= other if isinstance(other, int) else -other.put_into(terms, -1)
        return expression(constant, terms)

    def __rsub__(self, other: int) -> Expr:
        return added(self, -1, other)

    def __neg__(self) -> Expr:
        return added(self, -1, 0)

    def __mul__(self, other: Expr | int) -> Expr:
        if isinstance(other, int):
            return added(self, other, 0)
        if isinstance(other, Integer):
            return added(self, other.value, 0)
        if isinstance(self, Integer):
            return added(other, self.value, 0)
        raise ValueError(f"({self})*({other}) is no sum of whole numbers times symbols and quotients")

    def __rmul__(self, other: int) -> Expr:
        return added(self, other, 0)


class Integer(Expr):
    """A number."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value
        self.divisions = 0
        self._hash = hash(value)

    def __eq__(self, other: object) -> bool:
        return (
            other == self.value if isinstance(other, int) else isinstance(other, Integer) and other.value == self.value
        )

    __hash__ = Expr.__hash__

    def __int__(self) -> int:
        return self.value

    def __str__(self) -> str:
        return str(self.value)

    @property
    def free_symbols(self) -> frozenset[Symbol]:
        return frozenset()

    def put_into(self, terms: Terms, factor: int) -> int:
        return self.value * factor

    def xreplace(self, put: Mapping[Symbol, Expr]) -> Expr:
        return self


class Symbol(Expr):
    """A number that somebody else knows.

    Attributes:
        name: by which it is known, and compared.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        self.divisions = 0
        self._hash = hash(name)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Symbol) and self.name == other.name)

    __hash__ = Expr.__hash__

    def __str__(self) -> str:
        return self.name

    @property
    def free_symbols(self) -> frozenset[Symbol]:
        return frozenset((self,))

    def xreplace(self, put: Mapping[Symbol, Expr]) -> Expr:
        return put.get(self, self)


class Sum(Expr):
    """A constant and terms; made by `expression` alone, so that it is neither a number nor an atom.

    Attributes:
        constant: the number.
        terms: the coefficient of each atom, none of them zero.
    """

    __slots__ = ("constant", "terms")

    def __init__(self, constant: int, terms: Terms) -> None:
        self.constant = constant
        self.terms = terms
        self.divisions = sum(atom.divisions for atom in terms)
        self._hash = hash((constant, frozenset(terms.items())))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Sum) or self._hash != other._hash:
            return False
        return self.constant == other.constant and self.terms == other.terms

    __hash__ = Expr.__hash__

    def __str__(self) -> str:
        terms = [(str(atom), times) for atom, times in self.terms.items()]
        found = ""
        for what, times in (*terms, ("", self.constant)) if self.constant else terms:
            size = str(abs(times)) if abs(times) != 1 or not what else ""
            sign = "-" if times < 0 else "+"
            first = "" if sign == "+" else sign
            found += (f" {sign} " if found else first) + "*".join(filter(None, (size, what)))
        return found

    @property
    def free_symbols(self) -> frozenset[Symbol]:
        return frozenset(symbol for atom in self.terms for symbol in atom.free_symbols)

    def put_into(self, terms: Terms, factor: int) -> int:
        for atom, times in self.terms.items():
            terms[atom] = terms.get(atom, 0) + times * factor
        return self.constant * factor

    def xreplace(self, put: Mapping[Symbol, Expr]) -> Expr:
        terms: Terms = {}
        constant = self.constant
        for atom, times in self.terms.items():
            constant += atom.xreplace(put).put_into(terms, times)
        return expression(constant, terms)


def expression(constant: int, terms: Terms) -> Expr:
    """The expression with this constant and these coefficients: a number, an atom, or a sum."""
    if not all(terms.values()):
        terms = {atom: times for atom, times in terms.items() if times}
    if not terms:
        return Integer(constant)
    if constant == 0 and len(terms) == 1:
        ((atom, times),) = terms.items()
        if times == 1:
            return atom
    return Sum(constant, terms)


def added(one: Expr, factor: int, other: Expr | int) -> Expr:
    """So many times an expression, and another one."""
    terms: Terms = {}
    constant = one.put_into(terms, factor) if factor else 0
    constant += other if isinstance(other, int) else other.put_into(terms, 1)
    return expression(constant, terms)


class Guard(msgspec.Struct, frozen=True, gc=False):
    """A condition on index expressions: ``lhs < rhs`` where it is strict, else ``lhs <= rhs``."""

    lhs: Expr
    rhs: Expr
    strict: bool

    @property
    def free_symbols(self) -> frozenset[Symbol]:
        """The symbols of both sides."""
        return self.lhs.free_symbols | self.rhs.free_symbols

    def xreplace(self, put: Mapping[Symbol, Expr]) -> Guard:
        """The condition with expressions in place of symbols."""
        return Guard(self.lhs.xreplace(put), self.rhs.xreplace(put), self.strict)
