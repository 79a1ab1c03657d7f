"""Bit fields and counting (PTX manual, "Integer Arithmetic").

Each function takes unsigned arrays of its operands' widths and returns one; `lifted` gives them ints as well.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convc.machine.base.values import DTYPE, MASK, OneToFourArrays, lifted, width
from convc.machine.isa.operands import apply
from convc.machine.isa.registry import PURE, Run, op
from convc.machine.state.slots import SlotTable
from convc.ptx import Instr

Mods = tuple[str, ...]
"""Modifiers of an instruction; the last one is its type."""

Made = tuple[OneToFourArrays, tuple[int, ...]]
"""A function of arrays, and the widths of its operands in bits."""

Maker = Callable[[Mods], Made]


def form(*names: str) -> Callable[[Maker], Maker]:
    """Register what makes the function of some forms."""

    def register(make: Maker) -> Maker:
        def builder(instr: Instr, table: SlotTable) -> Run:
            function, widths = make(instr.mods)
            return apply(instr, table, lifted(function, *widths), *widths)

        op(*names, traits=PURE)(builder)
        return make

    return register


def highest_bit(a: np.ndarray) -> np.ndarray:
    """Number of the highest one, -1 for zero."""
    position = np.full(a.shape, -1, np.int64)
    rest = a.astype(np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        upper = rest >> np.uint64(step)
        some = upper != 0
        position = np.where(some, position + step, position)
        rest = np.where(some, upper, rest)
    return np.where(rest != 0, position + 1, position)


@form("int.popc")
def popc(mods: Mods) -> Made:
    """Number of ones."""
    return lambda a: np.bitwise_count(a).astype(np.uint32), (width(mods[-1]),)


@form("int.clz")
def clz(mods: Mods) -> Made:
    """Number of leading zeros."""
    bits = width(mods[-1])
    return lambda a: (bits - 1 - highest_bit(a)).astype(np.uint32), (bits,)


@form("int.bfind")
def bfind(mods: Mods) -> Made:
    """Number of the highest bit that is not a copy of the sign; .shiftamt: how far from the top. None: all ones."""
    bits = width(mods[-1])

    def run(a: np.ndarray) -> np.ndarray:
        if mods[-1][0] == "s":
            a = np.where(a >> a.dtype.type(bits - 1) != 0, ~a, a)
        found = highest_bit(a)
        answer = bits - 1 - found if "shiftamt" in mods else found
        return np.where(found < 0, -1, answer).astype(np.uint32)

    return run, (bits,)


@form("int.brev")
def brev(mods: Mods) -> Made:
    """Bits in reverse order."""
    bits = width(mods[-1])

    def run(a: np.ndarray) -> np.ndarray:
        part = a.dtype.type
        distance = 1
        while distance < bits:
            keep = part(sum(((1 << distance) - 1) << at for at in range(0, bits, 2 * distance)))
            a = ((a >> part(distance)) & keep) | ((a & keep) << part(distance))
            distance *= 2
        return a

    return run, (bits,)


def _shift_left(a: np.ndarray, amount: np.ndarray, bits: int) -> np.ndarray:
    part = DTYPE[bits].type
    return np.where(amount < bits, a << (np.minimum(amount, bits - 1)).astype(DTYPE[bits]), part(0))


@form("int.bfe")
def bfe(mods: Mods) -> Made:
    """c bits of a from bit b on; signed: extended by the field's highest bit, or by a's where the field ends beyond."""
    bits = width(mods[-1])
    is_signed = mods[-1][0] == "s"

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        part = DTYPE[bits].type
        zero: np.unsignedinteger = part(0)
        all_ones: np.unsignedinteger = part(MASK[bits])
        start = b & np.uint32(0xFF)
        length = c & np.uint32(0xFF)
        ones = _shift_left(np.full((1, 1, 1), 1, DTYPE[bits]), length, bits) - part(1)
        field = np.where(start < bits, a >> np.minimum(start, bits - 1).astype(DTYPE[bits]), zero) & ones
        if not is_signed:
            return field
        last = np.minimum(start.astype(np.int64) + length - 1, bits - 1)
        sign = (a >> np.maximum(last, 0).astype(DTYPE[bits])) & part(1)
        filled = np.where((sign != 0) & (start < bits), all_ones, zero)
        filled = np.where(start >= bits, np.where(a >> part(bits - 1) != 0, all_ones, zero), filled)
        inside = np.minimum(length, np.maximum(bits - start.astype(np.int64), 0)).astype(np.uint32)
        kept = _shift_left(np.full((1, 1, 1), 1, DTYPE[bits]), inside, bits) - part(1)
        return np.where(length == 0, zero, (field & kept) | (filled & ~kept))

    return run, (bits, 32, 32)


@form("int.bfi")
def bfi(mods: Mods) -> Made:
    """b with its c-th and the following e bits replaced by the low bits of a (operands a, b, c, e)."""
    bits = width(mods[-1])

    def run(a: np.ndarray, b: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
        start = start & np.uint32(0xFF)
        length = length & np.uint32(0xFF)
        ones = _shift_left(np.full((1, 1, 1), 1, DTYPE[bits]), length, bits) - DTYPE[bits].type(1)
        field = _shift_left(ones, start, bits)
        return (b & ~field) | (_shift_left(a & ones, start, bits) & field)

    return run, (bits, bits, 32, 32)


@form("int.bmsk")
def bmsk(mods: Mods) -> Made:
    """b ones from bit a on; .clamp or .wrap (modulo 32) of both operands."""

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if "wrap" in mods:
            a = a & np.uint32(31)
            b = b & np.uint32(31)
        ones = _shift_left(np.full((1, 1, 1), 1, np.uint32), b, 32) - np.uint32(1)
        return _shift_left(ones, a, 32)

    return run, (32, 32)


@form("int.szext")
def szext(mods: Mods) -> Made:
    """The low b bits of a, extended by sign or zero; .clamp or .wrap (modulo 32) of b."""
    is_signed = mods[-1][0] == "s"

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        count = b & np.uint32(31) if "wrap" in mods else np.minimum(b, 32)
        room = (32 - count.astype(np.int64)).astype(np.uint32)
        moved = _shift_left(a, room, 32)
        amount = np.minimum(room, 31).astype(np.uint32)
        back = (moved.view(np.int32) >> amount.astype(np.int32)).view(np.uint32) if is_signed else moved >> amount
        return np.where(count == 0, np.uint32(0), back)

    return run, (32, 32)


@form("int.fns")
def fns(mods: Mods) -> Made:
    """Where the offset-th one of mask is, counted from bit base up (offset > 0) or down; all ones: nowhere."""

    def one(mask: int, base: int, offset: int) -> int:
        offset = offset - (1 << 32) if offset >> 31 else offset
        step = 1 if offset >= 0 else -1
        if offset == 0:
            return base if base < 32 and mask >> base & 1 else MASK[32]
        at = base
        left = abs(offset)
        while 0 <= at < 32:
            left -= mask >> at & 1
            if left == 0:
                return at
            at += step
        return MASK[32]

    return np.vectorize(lambda *v: one(*map(int, v)), otypes=[np.uint32]), (32, 32, 32)
