"""The nodes of integer expressions, the functions that build them and fold constants, and their text.

The functions `add`, `mul`, `floor_div`, `mod`, and the operators ``+ - * // %`` on nodes, fold constants; the
classes themselves build exactly what they are told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast


class _Node:
    """Operators of every node; they fold constants."""

    __slots__ = ()

    def __add__(self, other: IntExpr | int) -> IntExpr:
        return add(self._expr, other)

    def __sub__(self, other: IntExpr | int) -> IntExpr:
        return add(self._expr, mul(other, -1))

    def __mul__(self, other: IntExpr | int) -> IntExpr:
        return mul(self._expr, other)

    def __floordiv__(self, other: IntExpr | int) -> IntExpr:
        return floor_div(self._expr, other)

    def __mod__(self, other: IntExpr | int) -> IntExpr:
        return mod(self._expr, other)

    def __str__(self) -> str:
        return _text(self._expr, _SELECT)

    def variables(self) -> frozenset[str]:
        """Names of the variables that the expression reads."""
        found: set[str] = set()
        left = [self._expr]
        while left:  # without the recursion of `subterms`, which takes twice as long
            node = left.pop()
            if isinstance(node, Var):
                found.add(node.name)
            else:
                left += children(node)
        return frozenset(found)

    @property
    def _expr(self) -> IntExpr:
        # The nodes of the union `IntExpr` are all the classes that derive from this one; a type checker cannot know.
        return cast("IntExpr", self)


@dataclass(frozen=True, slots=True)
class Const(_Node):
    """A number."""

    value: int

    def __post_init__(self) -> None:
        if type(self.value) is not int:
            raise ValueError(f"Const takes an int, got {type(self.value).__name__}")


@dataclass(frozen=True, slots=True)
class Var(_Node):
    """A variable; its name is an identifier."""

    name: str

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name.isidentifier() or not self.name.isascii():
            raise ValueError(f"a variable's name is an identifier, got {self.name!r}")


@dataclass(frozen=True, slots=True)
class Add(_Node):
    """Sum of the arguments."""

    args: tuple[IntExpr, ...]


@dataclass(frozen=True, slots=True)
class Mul(_Node):
    """Product of the arguments."""

    args: tuple[IntExpr, ...]


@dataclass(frozen=True, slots=True)
class FloorDiv(_Node):
    """``a // b``, rounded towards minus infinity; b is positive."""

    a: IntExpr
    b: IntExpr


@dataclass(frozen=True, slots=True)
class Mod(_Node):
    """``a % b``, in 0..b-1 also for negative a; b is positive."""

    a: IntExpr
    b: IntExpr


@dataclass(frozen=True, slots=True)
class Less(_Node):
    """The condition ``a < b``."""

    a: IntExpr
    b: IntExpr


@dataclass(frozen=True, slots=True)
class And(_Node):
    """All of the arguments, which are conditions."""

    args: tuple[IntExpr, ...]

    def __post_init__(self) -> None:
        for arg in self.args:
            _check_condition(arg)


@dataclass(frozen=True, slots=True)
class Select(_Node):
    """``a`` where the condition holds, else ``b``."""

    cond: IntExpr
    a: IntExpr
    b: IntExpr

    def __post_init__(self) -> None:
        _check_condition(self.cond)


IntExpr = Const | Var | Add | Mul | FloorDiv | Mod | Less | And | Select
"""Any expression."""


def _node(value: IntExpr | int) -> IntExpr:
    return value if isinstance(value, _Node) else Const(value)


def add(*args: IntExpr | int) -> IntExpr:
    """Sum, with nested sums opened and constants collected at the end."""
    terms: list[IntExpr] = []
    constant = 0
    for arg in map(_node, args):
        for term in arg.args if isinstance(arg, Add) else (arg,):
            if isinstance(term, Const):
                constant += term.value
            else:
                terms.append(term)
    if constant or not terms:
        terms.append(Const(constant))
    return terms[0] if len(terms) == 1 else Add(tuple(terms))


def mul(*args: IntExpr | int) -> IntExpr:
    """Product, with nested products opened and constants collected at the end."""
    factors: list[IntExpr] = []
    constant = 1
    for arg in map(_node, args):
        for factor in arg.args if isinstance(arg, Mul) else (arg,):
            if isinstance(factor, Const):
                constant *= factor.value
            else:
                factors.append(factor)
    if constant == 0:
        return Const(0)
    if constant != 1 or not factors:
        factors.append(Const(constant))
    return factors[0] if len(factors) == 1 else Mul(tuple(factors))


def floor_div(a: IntExpr | int, b: IntExpr | int) -> IntExpr:
    """``a // b``; ValueError where b is a constant that is not positive."""
    dividend = _node(a)
    divisor = _divisor(b)
    if divisor == Const(1):
        return dividend
    if isinstance(dividend, Const) and isinstance(divisor, Const):
        return Const(dividend.value // divisor.value)
    return FloorDiv(dividend, divisor)


def mod(a: IntExpr | int, b: IntExpr | int) -> IntExpr:
    """``a % b``; ValueError where b is a constant that is not positive."""
    dividend = _node(a)
    divisor = _divisor(b)
    if divisor == Const(1):
        return Const(0)
    if isinstance(dividend, Const) and isinstance(divisor, Const):
        return Const(dividend.value % divisor.value)
    return Mod(dividend, divisor)


def _divisor(value: IntExpr | int) -> IntExpr:
    divisor = _node(value)
    if isinstance(divisor, Const) and divisor.value <= 0:
        raise ValueError(f"a divisor is positive, got {divisor.value}")
    return divisor


def _check_condition(expr: IntExpr) -> None:
    if not isinstance(expr, Less | And):
        raise ValueError(f"expected a condition (Less or And), got {type(expr).__name__}")


def children(expr: IntExpr) -> tuple[IntExpr, ...]:
    """The operands of a node, in order."""
    match expr:
        case Const() | Var():
            return ()
        case Add(args) | Mul(args) | And(args):
            return args
        case FloorDiv(a, b) | Mod(a, b) | Less(a, b):
            return (a, b)
        case Select(cond, a, b):
            return (cond, a, b)


def subterms(expr: IntExpr) -> Iterator[IntExpr]:
    """Every node of the tree, operands before the node that uses them."""
    for child in children(expr):
        yield from subterms(child)
    yield expr


_SELECT, _AND, _LESS, _SUM, _PRODUCT, _ATOM = range(6)
"""How strongly an operator binds, weakest first."""


def _text(expr: IntExpr, level: int) -> str:
    """Infix text (Python's spelling), in parentheses where it binds weaker than ``level``."""
    text, own = _spelled(expr)
    return text if own >= level else f"({text})"


def _spelled(expr: IntExpr) -> tuple[str, int]:
    """Infix text without parentheses around it, and how strongly it binds."""
    match expr:
        case Const(value):
            return str(value), _ATOM if value >= 0 else _SUM
        case Var(name):
            return name, _ATOM
        case Add(args):
            return _spelled_sum(args), _SUM
        case Mul((*rest, Const(value))) if rest and value < 0:
            factors = rest if value == -1 else [*rest, Const(-value)]
            return f"-{_spelled_product(factors)}", _SUM
        case Mul(args):
            return _spelled_product(args), _PRODUCT
        case FloorDiv(a, b):
            return f"{_text(a, _ATOM)} // {_text(b, _ATOM)}", _PRODUCT
        case Mod(a, b):
            return f"{_text(a, _ATOM)} % {_text(b, _ATOM)}", _PRODUCT
        case Less(a, b):
            return f"{_text(a, _SUM)} < {_text(b, _SUM)}", _LESS
        case And(args):
            return " and ".join(_text(arg, _LESS) for arg in args), _AND
        case Select(cond, a, b):
            return f"{_text(a, _AND)} if {_text(cond, _AND)} else {_text(b, _AND)}", _SELECT


def _spelled_product(args: Sequence[IntExpr]) -> str:
    if len(args) == 1:
        return _text(args[0], _PRODUCT)
    return "*".join(_text(arg, _ATOM) for arg in args)


def _spelled_sum(args: tuple[IntExpr, ...]) -> str:
    """Terms with plus and minus; a sum inside a sum keeps its parentheses, so that the text says how it is nested."""
    text = _text(args[0], _SUM)
    for arg in args[1:]:
        term = _text(arg, _SUM + 1 if isinstance(arg, Add) else _SUM)
        text += f" - {term[1:]}" if term.startswith("-") else f" + {term}"
    return text
