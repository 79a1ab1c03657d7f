"""setp, set, selp and slct (PTX manual, "Comparison and Selection", "Half Precision Comparison")."""

from __future__ import annotations

import operator

import numpy as np

from convc.machine.base.values import DTYPE, Value, array, width
from convc.machine.isa.float import floating
from convc.machine.isa.operands import negated, reader, type_of
from convc.machine.isa.registry import Run, op
from convc.machine.isa.scalar import integer
from convc.machine.isa.scalar.integer_forms import apply, integer_bits
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr, Pair

JOIN = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
FLOATS = ("f16", "bf16", "f32", "f64")


def comparison(instr: Instr, kind: str):
    """(function, bits of one operand) of a scalar comparison."""
    name = instr.mods[0]
    if kind in FLOATS:
        function = floating.compare(name, kind)
        bits = width(kind)
        return (_flushed(function, bits) if "ftz" in instr.mods else function), bits
    bits = integer_bits(instr, kind)
    return integer.compare(name, bits, kind.startswith("s")), bits


def _flushed(function, bits: int):
    flush = floating.flush(bits)
    return lambda a, b: function(flush(a), flush(b))


def _combiner(instr: Instr, table: SlotTable, position: int):
    """(function, reader) of ``.BoolOp`` and its predicate, or (None, None)."""
    name = next((m for m in instr.mods[1:] if m in JOIN), None)
    if name is None:
        return None, None
    return JOIN[name], reader(instr.operands[position], table)


def _halves(value: Value) -> tuple[Value, Value]:
    if isinstance(value, np.ndarray):
        return value.astype(np.uint16), (value >> np.uint32(16)).astype(np.uint16)
    return value & 0xFFFF, value >> 16


@op("setp")
def setp(instr: Instr, table: SlotTable) -> Run:
    """setp.CMP{.BOOL}.type p{|q}, a, b{, c}: p compares, q takes the opposite; of a packed pair p the lower half, q the
    upper one. With .BOOL each is combined with c."""
    kind = type_of(instr)
    pair = kind.endswith("x2")
    function, bits = comparison(instr, kind[:-2] if pair else kind)
    bits = 32 if pair else bits
    target = instr.operands[0]
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    p = table.target(first)
    q = None if second is None else table.target(second)
    join, other = _combiner(instr, table, 3)
    if join is None and q is None and p is not None and not pair:
        return apply(instr, table, function, bits, bits)
    a, b = (table.slot(o, bits) for o in instr.operands[1:3])

    def run(strand: Strand) -> None:
        regs = strand.regs
        if pair:
            results = [function(x, y) for x, y in zip(_halves(regs[a]), _halves(regs[b]), strict=True)]
        else:
            holds = function(regs[a], regs[b])
            results = [holds, negated(holds)]
        if join is not None:
            c = other(regs)
            results = [join(r, c) for r in results]
        for slot, result in zip((p, q), results, strict=True):
            if slot is not None:
                strand.write(slot, result)

    return run


@op("set")
def set_(instr: Instr, table: SlotTable) -> Run:
    """set.CMP{.BOOL}.dtype.stype: all ones (integers) or 1.0 where the comparison holds, else zero."""
    target, kind = instr.mods[-2:]
    pair = kind.endswith("x2")
    function, bits = comparison(instr, kind[:-2] if pair else kind)
    join, other = _combiner(instr, table, 3)
    one = {"f32": 0x3F800000, "f16": 0x3C00, "f16x2": 0x3C00, "bf16": 0x3F80, "bf16x2": 0x3F80}.get(target)
    to = 16 if pair else width(target)
    one = (1 << to) - 1 if one is None else one
    d, a, b = table.slot(instr.operands[0]), *(table.slot(o, 32 if pair else bits) for o in instr.operands[1:3])

    def value(holds: Value, c: Value | None) -> Value:
        if c is not None:
            holds = join(holds, c)
        return np.where(holds, DTYPE[to].type(one), DTYPE[to].type(0)) if isinstance(holds, np.ndarray) else one * holds

    def run(strand: Strand) -> None:
        regs = strand.regs
        c = None if join is None else other(regs)
        if not pair:
            strand.write(d, value(function(regs[a], regs[b]), c))
            return
        low, high = (value(function(x, y), c) for x, y in zip(_halves(regs[a]), _halves(regs[b]), strict=True))
        if isinstance(low, np.ndarray) or isinstance(high, np.ndarray):
            high = array(high, 16).astype(np.uint32) << np.uint32(16)
            strand.write(d, high | array(low, 16))
        else:
            strand.write(d, high << 16 | low)

    return run


@op("selp")
def selp(instr: Instr, table: SlotTable) -> Run:
    """selp d, a, b, p."""
    bits = width(type_of(instr))
    return apply(instr, table, lambda a, b, p: integer.select(a, b, p, bits), bits, bits, 1)


@op("slct")
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
