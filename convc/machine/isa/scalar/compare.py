"""setp, set, selp and slct (PTX manual, "Comparison and Selection", "Half Precision Comparison")."""

from __future__ import annotations

import numpy as np

from convc.machine.base.values import BITWISE, DTYPE, Binary, Value, array, width
from convc.machine.isa.float import floating
from convc.machine.isa.operands import Read, apply, negated, reader, type_of
from convc.machine.isa.registry import PURE, SCALAR, Run, op
from convc.machine.isa.scalar import integer
from convc.machine.isa.scalar.integer_forms import integer_bits
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr

FLOATS = ("f16", "bf16", "f32", "f64")


def comparison(instr: Instr, kind: str) -> tuple[Binary, int]:
    """(function, bits of one operand) of a scalar comparison."""
    name = instr.mods[0]
    if kind in FLOATS:
        function = floating.compare(name, kind)
        bits = width(kind)
        return (_flushed(function, bits) if "ftz" in instr.mods else function), bits
    bits = integer_bits(instr, kind)
    return integer.compare(name, bits, kind.startswith("s")), bits


def _flushed(function: Binary, bits: int) -> Binary:
    flush = floating.flush(bits)
    return lambda a, b: function(flush(a), flush(b))


def _combination(instr: Instr, table: SlotTable) -> tuple[Binary, Read] | None:
    """``.BoolOp``, and what reads the predicate that it combines a result with."""
    name = next((m for m in instr.mods[1:] if m in BITWISE), None)
    return None if name is None else (BITWISE[name], reader(instr.operands[3], table))


def _halves(value: Value) -> tuple[Value, Value]:
    if isinstance(value, np.ndarray):
        return value.astype(np.uint16), (value >> np.uint32(16)).astype(np.uint16)
    return value & 0xFFFF, value >> 16


@op("setp", traits=SCALAR)
def setp(instr: Instr, table: SlotTable) -> Run:
    """setp.CMP{.BOOL}.type p{|q}, a, b{, c}: p compares, q takes the opposite.

    Of a packed pair p has the lower half's result and q the upper one's. With .BOOL each is combined with c.
    """
    kind = type_of(instr)
    packed = kind.endswith("x2")
    function, bits = comparison(instr, kind[:-2] if packed else kind)
    bits = 32 if packed else bits
    p, q = table.pair(instr.operands[0])
    combination = _combination(instr, table)
    if combination is None and q is None and p is not None and not packed:
        return apply(instr, table, function, bits, bits)
    a, b = (table.slot(o, bits) for o in instr.operands[1:3])

    def run(strand: Strand) -> None:
        regs = strand.regs
        if packed:
            results = [function(x, y) for x, y in zip(_halves(regs[a]), _halves(regs[b]), strict=True)]
        else:
            holds = function(regs[a], regs[b])
            results = [holds, negated(holds)]
        if combination is not None:
            join, read = combination
            c = read(regs)
            results = [join(result, c) for result in results]
        for slot, result in zip((p, q), results, strict=True):
            if slot is not None:
                strand.write(slot, result)

    return run


ONE = {"f32": 0x3F800000, "f16": 0x3C00, "f16x2": 0x3C00, "bf16": 0x3F80, "bf16x2": 0x3F80}
"""Bit pattern of 1.0."""


@op("set", traits=PURE)
def set_(instr: Instr, table: SlotTable) -> Run:
    """set.CMP{.BOOL}.dtype.stype: all ones (integers) or 1.0 where the comparison holds, else zero."""
    target, kind = instr.mods[-2:]
    packed = kind.endswith("x2")
    function, bits = comparison(instr, kind[:-2] if packed else kind)
    combination = _combination(instr, table)
    to = 16 if packed else width(target)
    one = ONE.get(target, (1 << to) - 1)
    d = table.slot(instr.operands[0])
    a, b = (table.slot(o, 32 if packed else bits) for o in instr.operands[1:3])

    def result(x: Value, y: Value, regs: list[Value]) -> Value:
        holds: Value = function(x, y)
        if combination is not None:
            join, read = combination
            holds = join(holds, read(regs))
        if isinstance(holds, np.ndarray):
            return np.where(holds, one, 0).astype(DTYPE[to])
        return one if holds else 0

    def run(strand: Strand) -> None:
        regs = strand.regs
        if not packed:
            strand.write(d, result(regs[a], regs[b], regs))
            return
        low, high = (result(x, y, regs) for x, y in zip(_halves(regs[a]), _halves(regs[b]), strict=True))
        if isinstance(low, np.ndarray) or isinstance(high, np.ndarray):
            strand.write(d, (array(high, 16).astype(np.uint32) << np.uint32(16)) | array(low, 16))
        else:
            strand.write(d, high << 16 | low)

    return run


@op("selp", traits=SCALAR)
def selp(instr: Instr, table: SlotTable) -> Run:
    """selp d, a, b, p."""
    bits = width(type_of(instr))
    return apply(instr, table, lambda a, b, p: integer.select(a, b, p, bits), bits, bits, 1)


@op("slct", traits=PURE)
def slct(instr: Instr, table: SlotTable) -> Run:
    """slct d, a, b, c: a where c >= 0, else b (b for a NaN); -0.0 counts as zero."""
    target, kind = instr.mods[-2:]
    bits = width(target)
    if kind == "f32":
        positive = floating.compare("ge", "f32")
        if "ftz" in instr.mods:
            positive = _flushed(positive, 32)
    else:
        positive = integer.compare("ge", 32, True)
    return apply(instr, table, lambda a, b, c: integer.select(a, b, positive(c, 0), bits), bits, bits, 32)
