"""Integer expressions as plain JSON, and back: ``["+", ["*", "tile_m", 128], "lane"]``."""

from __future__ import annotations

from typing import Any

from convc.ir.expr.nodes import Add, And, Const, FloorDiv, IntExpr, Less, Mod, Mul, Select, Var, children

_LISTS = {"+": Add, "*": Mul, "and": And}
"""Operators that take any number of operands."""

_PAIRS = {"//": FloorDiv, "%": Mod, "<": Less}
"""Operators that take two."""

_SYMBOLS = {Add: "+", Mul: "*", FloorDiv: "//", Mod: "%", Less: "<", And: "and", Select: "select"}


def to_json(expr: IntExpr) -> Any:
    """Plain JSON: number, name, or list of operator and operands."""
    match expr:
        case Const(value):
            return value
        case Var(name):
            return name
        case _:
            return [_SYMBOLS[type(expr)], *map(to_json, children(expr))]


def from_json(data: Any) -> IntExpr:
    """The expression that `to_json` wrote; ValueError where it is none."""
    match data:
        case int() if type(data) is int:
            return Const(data)
        case str():
            return Var(data)
        case [str(symbol), *parts] if symbol in _SYMBOLS.values():
            return _built(symbol, [from_json(part) for part in parts])
        case _:
            known = ", ".join(_SYMBOLS.values())
            raise ValueError(f"expected a number, a name, or a list of one of {known} and operands, got {data!r}")


def _built(symbol: str, parts: list[IntExpr]) -> IntExpr:
    if symbol in _LISTS:
        return _LISTS[symbol](tuple(parts))
    if symbol in _PAIRS and len(parts) == 2:
        return _PAIRS[symbol](*parts)
    if symbol == "select" and len(parts) == 3:
        return Select(*parts)
    raise ValueError(f"{symbol} does not take {len(parts)} operand(s)")
