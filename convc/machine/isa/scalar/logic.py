"""lop3, funnel shifts, byte permutation (PTX manual, "Logic and Shift", "prmt")."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convc.machine.base.values import DTYPE, ArrayFunction, Function, Operator, Value, lifted, width
from convc.machine.isa.operands import apply, number, reader
from convc.machine.isa.registry import PURE, Run, Traits, op
from convc.machine.isa.scalar.bitfields import Made, Mods, form
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr


@form("logic.cnot")
def cnot(mods: Mods) -> Made:
    """1 for zero, else 0."""
    bits = width(mods[-1])
    return lambda a: (a == 0).astype(DTYPE[bits]), (bits,)


def _look_up(table: int) -> ArrayFunction:
    """The bitwise function of three operands whose truth table is ``table`` (PTX manual, lop3)."""

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        out = a & np.uint32(0)
        for index in range(8):
            if table >> index & 1:
                x, y, z = (v if index >> bit & 1 else ~v for v, bit in ((a, 2), (b, 1), (c, 0)))
                out = out | (x & y & z)
        return out

    return run


@op("logic.lop3", traits=PURE | Traits.BITWISE)
def lop3(instr: Instr, table: SlotTable) -> Run:
    """lop3.b32 d, a, b, c, table."""
    function = _bitwise(instr)
    return apply(instr, table, lambda a, b, c, _: function(a, b, c), 32, 32, 32, 32)


def _bitwise(instr: Instr) -> Function:
    return lifted(_look_up(number(instr.args["immLut"]) & 0xFF), 32, 32, 32)


@op("logic.lop3.bool", traits=PURE)
def lop3_bool(instr: Instr, table: SlotTable) -> Run:
    """lop3.BoolOp.b32 d|p, a, b, c, table, q: p = (d != 0) BoolOp q."""
    function = _bitwise(instr)
    d, p = table.pair(instr.operands[0])
    sources = [table.slot(o, 32) for o in instr.operands[1:4]]
    q = reader(instr.args["q"], table)
    join: Operator = np.logical_or if "or" in instr.mods else np.logical_and

    def run(strand: Strand) -> None:
        regs = strand.regs
        value = function(*[regs[s] for s in sources])
        holds: Value = join(value != 0, q(regs))
        if d is not None:
            strand.write(d, value)
        if p is not None:
            strand.write(p, holds if isinstance(holds, np.ndarray) else bool(holds))

    return run


@form("logic.shf")
def shf(mods: Mods) -> Made:
    """Funnel shift of b:a by c: left gives the upper half, right the lower one; .wrap takes c modulo 32."""

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        amount = (c & np.uint32(31) if "wrap" in mods else np.minimum(c, 32)).astype(np.uint64)
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        return ((both << amount) >> np.uint64(32) if "l" in mods else both >> amount).astype(np.uint32)

    return run, (32, 32, 32)


_PICK: dict[str, Callable[[np.ndarray], list[np.ndarray]]] = {
    "f4e": lambda c: [c, c + 1, c + 2, c + 3],
    "b4e": lambda c: [c, c + 7, c + 6, c + 5],
    "rc8": lambda c: [c, c, c, c],
    "ecl": lambda c: [np.maximum(c, i) for i in range(4)],
    "ecr": lambda c: [np.minimum(c, i) for i in range(4)],
    "rc16": lambda c: [(c & 1) * 2, (c & 1) * 2 + 1] * 2,
}
"""Byte numbers (of b:a, modulo 8) that prmt's special modes choose, lowest result byte first."""


@form("logic.prmt")
def prmt(mods: Mods) -> Made:
    """Four bytes out of b:a; in the general mode the top bit of a selector replicates the byte's sign."""
    mode = next((m for m in mods if m in _PICK), None)

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        if mode is None:
            chosen = [(c >> np.uint32(4 * i)) & np.uint32(15) for i in range(4)]
        else:
            chosen = [np.asarray(n) & 7 for n in _PICK[mode]((c & np.uint32(3)).astype(np.int64))]
        out = np.zeros((1, 1, 1), np.uint32)
        for i, selector in enumerate(chosen):
            byte = (both >> ((selector & 7).astype(np.uint64) * np.uint64(8))) & np.uint64(0xFF)
            byte = np.where(selector & 8, np.where(byte & np.uint64(0x80), 0xFF, 0), byte).astype(np.uint32)
            out = out | (byte << np.uint32(8 * i))
        return out

    return run, (32, 32, 32)
