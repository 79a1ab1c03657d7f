"""Products and differences of parts, dot products, carry chains (PTX manual, 9.7.1.5-7, 23-24, 9.7.2, 9.7.18.2)."""

from __future__ import annotations

import numpy as np

from convc.machine.base.values import DTYPE, MASK, SIGNED, ArrayFunction, width
from convc.machine.isa.operands import type_of
from convc.machine.isa.registry import PURE, Builder, Run, Traits, op
from convc.machine.isa.scalar.bitfields import Made, Maker, Mods, form
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr


@form("int.sad")
def sad(mods: Mods) -> Made:
    """|a - b| + c."""
    bits = width(mods[-1])
    is_signed = mods[-1][0] == "s"

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        less = a.view(SIGNED[bits]) < b.view(SIGNED[bits]) if is_signed else a < b
        return np.where(less, b - a, a - b) + c

    return run, (bits, bits, bits)


def _product24(mods: Mods) -> ArrayFunction:
    """Bits 0 and up, or 16 and up, of the product of the low 24 bits."""
    is_signed = mods[-1][0] == "s"
    low = "lo" in mods

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if is_signed:
            x, y = ((v << np.uint32(8)).view(np.int32).astype(np.int64) >> 8 for v in (a, b))
        else:
            x, y = ((v & np.uint32(0xFFFFFF)).astype(np.int64) for v in (a, b))
        return ((x * y) >> (0 if low else 16)).astype(np.uint64)

    return run


@form("int.mul24")
def mul24(mods: Mods) -> Made:
    """Product of the low 24 bits: its low 32 bits, or its bits 16..47."""
    product = _product24(mods)
    return lambda a, b: product(a, b).astype(np.uint32), (32, 32)


@form("int.mad24")
def mad24(mods: Mods) -> Made:
    """mul24, plus c."""
    product = _product24(mods)

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        part = product(a, b).astype(np.uint32)
        if "sat" not in mods:
            return part + c
        total = part.view(np.int32).astype(np.int64) + c.view(np.int32)
        return np.clip(total, -(1 << 31), (1 << 31) - 1).astype(np.int32).view(np.uint32)

    return run, (32, 32, 32)


def _elements(a: np.ndarray, bits: int, is_signed: bool) -> list[np.ndarray]:
    """The parts of ``bits`` bits of a 32-bit register, lowest first, as int64."""
    kind = SIGNED[bits] if is_signed else DTYPE[bits]
    return [(a >> np.uint32(bits * i)).astype(DTYPE[bits]).view(kind).astype(np.int64) for i in range(32 // bits)]


@form("int.dp4a")
def dp4a(mods: Mods) -> Made:
    """Sum of the products of four bytes each, plus c."""

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        pairs = zip(_elements(a, 8, mods[-2][0] == "s"), _elements(b, 8, mods[-1][0] == "s"), strict=True)
        return (sum(x * y for x, y in pairs) + c.astype(np.int64)).astype(np.uint64).astype(np.uint32)

    return run, (32, 32, 32)


@form("int.dp2a")
def dp2a(mods: Mods) -> Made:
    """Sum of the products of two halves of a and two bytes of b (the lower or the upper ones), plus c."""
    first = 0 if "lo" in mods else 2

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        bytes_of = _elements(b, 8, mods[-1][0] == "s")[first : first + 2]
        total = sum(x * y for x, y in zip(_elements(a, 16, mods[-2][0] == "s"), bytes_of, strict=True))
        return (total + c.astype(np.int64)).astype(np.uint64).astype(np.uint32)

    return run, (32, 32, 32)


def _absolute_differences(bits: int) -> Maker:
    """Maker of vabsdiff2 and vabsdiff4: of parts of ``bits`` bits, side by side or, with .add, summed up on c."""

    def make(mods: Mods) -> Made:
        d_type, a_type, b_type = (mod for mod in mods if mod in ("u32", "s32"))
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if d_type == "s32" else (0, (1 << bits) - 1)

        def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
            pairs = zip(_elements(a, bits, a_type == "s32"), _elements(b, bits, b_type == "s32"), strict=True)
            parts = [np.abs(x - y) for x, y in pairs]
            if "add" in mods:
                return sum(parts, c.astype(np.int64)).astype(np.uint32)
            if "sat" in mods:
                parts = [np.clip(part, low, high) for part in parts]
            lanes = [(part & ((1 << bits) - 1)) << (bits * i) for i, part in enumerate(parts)]
            return np.bitwise_or.reduce(lanes).astype(np.uint32)

        return run, (32, 32, 32)

    return make


form("vabsdiff2")(_absolute_differences(16))
form("vabsdiff4")(_absolute_differences(8))


# ---- carry chains ----------------------------------------------------------------------------------------------------


def _carry_builder(name: str) -> Builder:
    """add, sub and mad with .cc (write the carry) or of the c family (read it); the carry is one bit per thread.

    sub counts its borrow in the same bit (PTX manual, "Extended-Precision Arithmetic").
    """
    family = name.rstrip("c")
    takes = name.endswith("c")

    def builder(instr: Instr, table: SlotTable) -> Run:
        kind = type_of(instr)
        gives = "cc" in instr.mods
        bits = width(kind)
        d = table.slot(instr.operands[0])
        carry = table.carry()
        sources = [table.slot(o, bits) for o in instr.operands[1:]]
        sign = -1 if family == "sub" else 1

        def total(*v: int) -> int:
            if family != "mad":
                return v[0] + sign * v[1] + sign * v[-1]
            return _part(v[0], v[1], bits, kind[0] == "s", "hi" in instr.mods) + v[2] + v[-1]

        exact = np.frompyfunc(lambda *v: total(*map(int, v)), len(sources) + 1, 1)

        def run(strand: Strand) -> None:
            regs = strand.regs
            values = [regs[s] for s in sources]
            values.append(regs[carry] if takes else 0)
            if any(isinstance(v, np.ndarray) for v in values):
                full = exact(*values)
                result = np.asarray(full & MASK[bits]).astype(DTYPE[bits])
                over = np.asarray((full < 0) | (full > MASK[bits])).astype(bool)
            else:
                full = total(*map(int, values))
                result = full & MASK[bits]
                over = not 0 <= full <= MASK[bits]
            strand.write(d, result)
            if gives:
                strand.write(carry, over)

        return run

    return builder


def _part(a: int, b: int, bits: int, is_signed: bool, high: bool) -> int:
    """The low or the high half of a product, as an unsigned number."""
    if is_signed:
        a, b = (v - (1 << bits) if v >> (bits - 1) else v for v in (a, b))
    return ((a * b) >> (bits if high else 0)) & MASK[bits]


for _name in ("add", "sub", "mad"):
    op(f"int.{_name}.cc", traits=PURE | Traits.CARRY)(_carry_builder(_name))
    op(f"int.{_name}c", traits=PURE | Traits.CARRY | Traits.CARRY_IN)(_carry_builder(f"{_name}c"))
