"""Integer expressions: what an index map becomes once the algebra is done.

The algebra of `convc.compiler.index` ends in a handful of integer operations, and this is all of them: a constant, a
variable, sum, product, floor division, floor remainder, comparison, conjunction and selection. A difference
is a sum with a product by -1. Expressions are plain immutable trees: they are hashed (so equal subtrees are
computed once when they are turned into instructions), written to disk in plans as small JSON lists, and
evaluated on Python ints and on numpy integer arrays alike.

Division has *floor* semantics, as in Python: ``-1 // 7 == -1`` and ``-1 % 7 == 6``. The division of a GPU
truncates towards zero, which is the same thing exactly where the dividend is not negative. `nonnegative`
answers that question by interval arithmetic over the ranges of the variables.

The functions `add`, `mul`, `floor_div`, `mod`, and the operators ``+ - * // %`` on nodes, fold constants; the
classes themselves build exactly what they are told.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

Interval = tuple[int, int]
"""Lowest and highest value, both included."""


class _Node:
    """Operators of every node; they fold constants."""

    __slots__ = ()

    def __add__(self, other: IntExpr | int) -> IntExpr:
        return add(self, other)

    def __sub__(self, other: IntExpr | int) -> IntExpr:
        return add(self, mul(other, -1))

    def __mul__(self, other: IntExpr | int) -> IntExpr:
        return mul(self, other)

    def __floordiv__(self, other: IntExpr | int) -> IntExpr:
        return floor_div(self, other)

    def __mod__(self, other: IntExpr | int) -> IntExpr:
        return mod(self, other)

    def __str__(self) -> str:
        return _text(self, 0)

    def variables(self) -> frozenset[str]:
        """Names of the variables that the expression reads."""
        return frozenset(node.name for node in subterms(self) if isinstance(node, Var))


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
        if not isinstance(self.name, str) or not self.name.isidentifier() or not self.name.isascii():
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
    a, b = _node(a), _divisor(b)
    if b == Const(1):
        return a
    return Const(a.value // b.value) if isinstance(a, Const) and isinstance(b, Const) else FloorDiv(a, b)


def mod(a: IntExpr | int, b: IntExpr | int) -> IntExpr:
    """``a % b``; ValueError where b is a constant that is not positive."""
    a, b = _node(a), _divisor(b)
    if b == Const(1):
        return Const(0)
    return Const(a.value % b.value) if isinstance(a, Const) and isinstance(b, Const) else Mod(a, b)


def _divisor(b: IntExpr | int) -> IntExpr:
    b = _node(b)
    if isinstance(b, Const) and b.value <= 0:
        raise ValueError(f"a divisor is positive, got {b.value}")
    return b


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


_FOLDING = {Add: add, Mul: mul, FloorDiv: floor_div, Mod: mod}


def substitute(expr: IntExpr, values: Mapping[str, IntExpr]) -> IntExpr:
    """The expression with variables replaced; constants that meet are folded."""
    if isinstance(expr, Const | Var):
        return values.get(expr.name, expr) if isinstance(expr, Var) else expr
    parts = [substitute(child, values) for child in children(expr)]
    if isinstance(expr, And):
        return And(tuple(parts))
    return _FOLDING.get(type(expr), type(expr))(*parts)


def evaluate(expr: IntExpr, env: Mapping[str, Any]) -> Any:
    """Value of the expression.

    Args:
        env: value of each variable: ints, or signed numpy integer arrays that broadcast together.

    Returns:
        an int (a bool for conditions), or an array where an array came in.

    Only Python's operators are used, on both arms of a selection. Numpy's ``//`` and ``%`` on signed integers
    are floor division and remainder. KeyError names a variable that env lacks.
    """
    match expr:
        case Const(value):
            return value
        case Var(name):
            return env[name]
    values = [evaluate(child, env) for child in children(expr)]
    match expr:
        case Add():
            return reduce(operator.add, values)
        case Mul():
            return reduce(operator.mul, values)
        case FloorDiv():
            return values[0] // values[1]
        case Mod():
            return values[0] % values[1]
        case Less():
            return values[0] < values[1]
        case And():
            return reduce(operator.and_, values)
        case Select():
            holds, yes, no = values
            return no + holds * (yes - no)


def bounds(expr: IntExpr, ranges: Mapping[str, Interval], known: Mapping[IntExpr, Interval] | None = None) -> Interval:
    """An interval that holds every value of the expression (interval arithmetic).

    Args:
        ranges: interval of each variable.
        known: intervals that whole subtrees are known to keep, say because a guard was tested before.

    Sound always, and exact for affine expressions in which every variable occurs once. Conditions answer within
    (0, 1). ValueError where a divisor may be zero or negative; KeyError names a variable without a range.
    """
    lo, hi = _bounds(expr, ranges, [bounds(child, ranges, known) for child in children(expr)])
    if known and expr in known:
        first, last = known[expr]
        lo, hi = max(lo, first), min(hi, last)
    return lo, hi


def _bounds(expr: IntExpr, ranges: Mapping[str, Interval], parts: list[Interval]) -> Interval:
    match expr:
        case Const(value):
            return value, value
        case Var(name):
            return ranges[name]
        case Add():
            return sum(lo for lo, _ in parts), sum(hi for _, hi in parts)
        case Mul():
            lo, hi = 1, 1
            for first, last in parts:
                corners = (lo * first, lo * last, hi * first, hi * last)
                lo, hi = min(corners), max(corners)
            return lo, hi
        case FloorDiv() | Mod():
            (lo, hi), (low, high) = parts
            if low <= 0:
                raise ValueError(f"the divisor in {expr} may be {low}; divisors are positive")
            if isinstance(expr, FloorDiv):
                return min(lo // low, lo // high), max(hi // low, hi // high)
            if low == high and lo // low == hi // low:
                return lo % low, hi % low
            return 0, min(high - 1, hi) if lo >= 0 else high - 1
        case Less():
            (lo, hi), (low, high) = parts
            return int(hi < low), int(lo < high)
        case And():
            return min(lo for lo, _ in parts), min(hi for _, hi in parts)
        case Select():
            (never, ever), yes, no = parts
            arms = ([yes] if ever else []) + ([] if never else [no])
            return min(lo for lo, _ in arms), max(hi for _, hi in arms)


def nonnegative(expr: IntExpr, ranges: Mapping[str, Interval]) -> bool:
    """Whether interval arithmetic shows that the expression is never negative.

    Asked of the dividend of a `FloorDiv` or `Mod`, a yes means that unsigned division and remainder are right.
    """
    return bounds(expr, ranges)[0] >= 0


_SELECT, _AND, _LESS, _SUM, _PRODUCT, _ATOM = range(6)


def _text(expr: IntExpr, level: int) -> str:
    """Infix text (Python's spelling), in parentheses where it binds weaker than ``level``."""
    match expr:
        case Const(value):
            text, own = str(value), _ATOM if value >= 0 else _SUM
        case Var(name):
            text, own = name, _ATOM
        case Add(args):
            text, own = _text(args[0], _SUM), _SUM
            for arg in args[1:]:
                term = _text(arg, _SUM + 1) if isinstance(arg, Add) else _text(arg, _SUM)
                text += f" - {term[1:]}" if term.startswith("-") else f" + {term}"
        case Mul((*rest, Const(value))) if rest and value < 0:
            text, own = f"-{_text(mul(*rest, -value), _PRODUCT)}", _SUM
        case Mul(args):
            text, own = "*".join(_text(arg, _ATOM) for arg in args), _PRODUCT
        case FloorDiv(a, b):
            text, own = f"{_text(a, _ATOM)} // {_text(b, _ATOM)}", _PRODUCT
        case Mod(a, b):
            text, own = f"{_text(a, _ATOM)} % {_text(b, _ATOM)}", _PRODUCT
        case Less(a, b):
            text, own = f"{_text(a, _SUM)} < {_text(b, _SUM)}", _LESS
        case And(args):
            text, own = " and ".join(_text(arg, _LESS) for arg in args), _AND
        case Select(cond, a, b):
            text, own = f"{_text(a, _AND)} if {_text(cond, _AND)} else {_text(b, _AND)}", _SELECT
    return text if own >= level else f"({text})"


_SYMBOLS = {Add: "+", Mul: "*", FloorDiv: "//", Mod: "%", Less: "<", And: "and", Select: "select"}
_NODES = {symbol: kind for kind, symbol in _SYMBOLS.items()}


def to_json(expr: IntExpr) -> Any:
    """Plain JSON: number, name, or list of operator and operands: ``["+", ["*", "tile_m", 128], "lane"]``."""
    match expr:
        case Const(value):
            return value
        case Var(name):
            return name
        case _:
            return [_SYMBOLS[type(expr)], *map(to_json, children(expr))]


def from_json(data: Any) -> IntExpr:
    """The expression that `to_json` wrote; ValueError where it is none."""
    if type(data) is int:
        return Const(data)
    if isinstance(data, str):
        return Var(data)
    kind = _NODES.get(data[0]) if isinstance(data, list | tuple) and data and isinstance(data[0], str) else None
    if kind is None:
        raise ValueError(
            f"expected a number, a name, or a list of one of {', '.join(_NODES)} and operands, got {data!r}"
        )
    parts = tuple(from_json(part) for part in data[1:])
    try:
        return kind(parts) if kind in (Add, Mul, And) else kind(*parts)
    except TypeError:
        raise ValueError(f"{data[0]} does not take {len(parts)} operand(s)") from None
