"""The results of integer instructions, as functions of bit patterns (PTX manual, 9.7.1, 9.7.6, 9.7.8, 9.7.9).

`function_of` gives the function of an instruction, or None where the auditor has none: its result is then unknown.
Arguments are patterns of the operands' widths, in source order without the destination.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from convc.auditor.lanes import Numeric
from convc.ptx import Instr

BITS = {"pred": 1, "8": 8, "16": 16, "32": 32, "64": 64, "128": 128}


def width(kind: str) -> int:
    """Bits of a type's name."""
    return BITS.get(kind) or BITS.get(kind[1:]) or 0


def signed(value: int, bits: int) -> int:
    """A pattern as a number in two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _number(kind: str) -> Callable[[int], int]:
    """A pattern as the number that a type makes of it."""
    bits = width(kind)
    mask = (1 << bits) - 1
    return (lambda value: signed(value, bits)) if kind[0] == "s" else (lambda value: value & mask)


def function_of(instr: Instr) -> Numeric | None:
    """The function that an instruction computes, or None."""
    make = _MAKERS.get(instr.form.name)
    if make is None:
        return None
    kind = instr.slots.get("type") or ""
    if instr.form.name not in ("cvt", "cvta", "cvta.to") and not (width(kind) and kind[0] in "usbp"):
        return None
    if instr.slots.get("sat") or "sat" in instr.mods or instr.slots.get("relu"):
        return None
    return make(instr, kind)


def _plain(function: Numeric) -> Callable[[Instr, str], Numeric]:
    """The low bits of a function of whole numbers, as wide as its type."""

    def make(instr: Instr, kind: str) -> Numeric:
        mask = (1 << width(kind)) - 1
        number = _number(kind)

        def low(*values: int) -> int:
            return function(*map(number, values)) & mask

        return low

    return make


def _wide(function: Callable[[int, int], int] | Callable[[int, int, int], int]) -> Callable[[Instr, str], Numeric]:
    """A product twice as wide as its factors; a third argument is as wide as the result."""

    def make(instr: Instr, kind: str) -> Numeric:
        mask = (1 << 2 * width(kind)) - 1
        number = _number(kind)

        def wide(a: int, b: int, *more: int) -> int:
            return function(number(a), number(b), *more) & mask

        return wide

    return make


def _high(instr: Instr, kind: str) -> Numeric:
    bits = width(kind)
    number = _number(kind)
    return lambda a, b: (number(a) * number(b) >> bits) & ((1 << bits) - 1)


def _quotient(a: int, b: int) -> int:
    """Towards zero; a division by zero has any result."""
    if b == 0:
        return 0
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _shift_left(instr: Instr, kind: str) -> Numeric:
    bits = width(kind)
    return lambda a, b: (a << min(b & 0xFFFFFFFF, bits)) & ((1 << bits) - 1)


def _shift_right(instr: Instr, kind: str) -> Numeric:
    bits = width(kind)
    number = _number(kind)
    return lambda a, b: (number(a) >> min(b & 0xFFFFFFFF, bits)) & ((1 << bits) - 1)


_COMPARE = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
_LOGIC = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}


def _setp(instr: Instr, kind: str) -> Numeric | None:
    compare = _COMPARE.get(instr.slots.get("CmpOp") or "")
    if compare is None:
        return None
    number = _number(kind)
    joined = _LOGIC.get(instr.slots.get("BoolOp") or "")
    if joined is None:
        return lambda a, b: int(compare(number(a), number(b)))
    return lambda a, b, c: joined(int(compare(number(a), number(b))), c)


def _cvt(instr: Instr, kind: str) -> Numeric | None:
    to = instr.slots.get("dtype") or ""
    of = instr.slots.get("atype") or ""
    if not (to and of) or to[0] not in "us" or of[0] not in "us" or not (width(to) and width(of)):
        return None
    number = _number(of)
    bits = width(to)
    if to[0] == "u":
        return lambda a: number(a) & ((1 << bits) - 1)
    # A register that is wider than its type is filled with the sign.
    return lambda a: signed(number(a), bits) & (2**64 - 1)


def _extract(instr: Instr, kind: str) -> Numeric:
    bits = width(kind)

    def extract(a: int, at: int, length: int) -> int:
        at &= 0xFF
        length &= 0xFF
        part = (a >> at) & ((1 << length) - 1) if length else 0
        if kind[0] == "s" and length:
            last = min(at + length - 1, bits - 1)
            if a >> last & 1:
                part |= -1 << max(0, min(length, bits - at))
        return part & ((1 << bits) - 1)

    return extract


_MAKERS: dict[str, Callable[[Instr, str], Numeric | None]] = {
    "int.add": _plain(operator.add),
    "int.sub": _plain(operator.sub),
    "int.mul.lo": _plain(operator.mul),
    "int.mul.hi": _high,
    "int.mad.lo": _plain(lambda a, b, c: a * b + c),
    "int.mul.wide": _wide(operator.mul),
    "int.mad.wide": _wide(lambda a, b, c: a * b + c),
    "int.div": _plain(_quotient),
    "int.rem": _plain(lambda a, b: a - b * _quotient(a, b)),
    "int.neg": _plain(int.__neg__),
    "int.abs": _plain(abs),
    "int.min": _plain(min),
    "int.max": _plain(max),
    "int.popc": lambda instr, kind: lambda a: (a & ((1 << width(kind)) - 1)).bit_count(),
    "int.clz": lambda instr, kind: lambda a: width(kind) - (a & ((1 << width(kind)) - 1)).bit_length(),
    "int.bfe": _extract,
    "logic.and": _plain(int.__and__),
    "logic.or": _plain(int.__or__),
    "logic.xor": _plain(int.__xor__),
    "logic.not": _plain(int.__invert__),
    "logic.shl": _shift_left,
    "logic.shr": _shift_right,
    "setp": _setp,
    "selp": lambda instr, kind: lambda a, b, c: a if c else b,
    "mov": _plain(int.__pos__),
    "cvta": lambda instr, kind: lambda a: a,
    "cvta.to": lambda instr, kind: lambda a: a,
    "cvt": _cvt,
}  # fmt: skip
