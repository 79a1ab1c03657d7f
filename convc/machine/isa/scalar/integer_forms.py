"""Registration of the integer forms: types and modifiers choose among the functions of `integer`."""

from __future__ import annotations

import operator

from convc.errors import UnmodelledError
from convc.machine.base.values import BITWISE, Operator, packed, width
from convc.machine.isa.operands import apply, type_of
from convc.machine.isa.registry import PURE, SCALAR, Builder, Run, Traits, op, switched
from convc.machine.isa.scalar import integer
from convc.machine.state.slots import SlotTable
from convc.ptx import Instr


def integer_bits(instr: Instr, kind: str) -> int:
    """Width of an integer, bit or predicate type; other types are refused."""
    if kind not in ("u16", "u32", "u64", "s16", "s32", "s64", "b16", "b32", "b64", "pred"):
        raise UnmodelledError(f"the simulator has no {instr.form.name} of type .{kind}")
    return width(kind)


def build_arithmetic(name: str) -> Builder:
    """Builder of add, sub, mul, min, max, div, rem for integers, packed pairs of 16-bit ones included."""
    plain: dict[str, Operator] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}

    def builder(instr: Instr, table: SlotTable) -> Run:
        kind = type_of(instr)
        mods = instr.mods
        pair = kind.endswith("x2")
        single = kind[:-2] if pair else kind
        bits = integer_bits(instr, single)
        is_signed = single.startswith("s")
        if name == "mul" and "wide" in mods:
            function = integer.multiply_wide(bits, is_signed)
        elif name == "mul" and "hi" in mods:
            function = integer.multiply_high(bits, is_signed)
        elif name in plain and "sat" in mods:
            function = integer.saturating(plain[name], bits)
        elif name in plain:
            function = integer.wrapping(plain[name], bits)
        elif name in ("min", "max"):
            function = integer.extreme(bits, is_signed, name == "max")
            if "relu" in mods:
                function = integer.clamped_below(function, bits)
        else:
            return switched(
                "divide_by_zero",
                lambda zero: apply(instr, table, integer.divide(bits, is_signed, name == "rem", zero), bits, bits),
            )
        if pair:
            return apply(instr, table, packed(function, bits), 2 * bits, 2 * bits)
        return apply(instr, table, function, bits, bits)

    return builder


def build_mad(instr: Instr, table: SlotTable) -> Run:
    """mad.{lo,hi,wide}: multiply, then add in the width of the result."""
    kind = type_of(instr)
    bits = integer_bits(instr, kind)
    is_signed = kind.startswith("s")
    if "wide" in instr.mods:
        multiply = integer.multiply_wide(bits, is_signed)
        total = integer.wrapping(operator.add, 2 * bits)
    elif "hi" in instr.mods:
        multiply = integer.multiply_high(bits, is_signed)
        total = integer.saturating(operator.add, bits) if "sat" in instr.mods else integer.wrapping(operator.add, bits)
    else:
        multiply = integer.wrapping(operator.mul, bits)
        total = integer.wrapping(operator.add, bits)
    wide = 2 * bits if "wide" in instr.mods else bits
    return apply(instr, table, lambda a, b, c: total(multiply(a, b), c), bits, bits, wide)


def build_logic(name: str) -> Builder:
    """Builder of and, or, xor."""
    function = BITWISE[name]

    def builder(instr: Instr, table: SlotTable) -> Run:
        bits = width(type_of(instr))
        return apply(instr, table, function, bits, bits)

    return builder


def build_not(instr: Instr, table: SlotTable) -> Run:
    """not."""
    bits = width(type_of(instr))
    return apply(instr, table, integer.invert(bits), bits)


def build_negate(name: str) -> Builder:
    """Builder of neg and abs."""

    def builder(instr: Instr, table: SlotTable) -> Run:
        bits = integer_bits(instr, type_of(instr))
        negative = integer.wrapping(operator.sub, bits)
        if name == "neg":
            return apply(instr, table, lambda a: negative(0, a), bits)
        largest = integer.extreme(bits, True, True)
        return apply(instr, table, lambda a: largest(a, negative(0, a)), bits)

    return builder


def build_shift(name: str) -> Builder:
    """Builder of shl and shr."""

    def builder(instr: Instr, table: SlotTable) -> Run:
        kind = type_of(instr)
        bits = width(kind)
        function = integer.shift_left(bits) if name == "shl" else integer.shift_right(bits, kind.startswith("s"))
        return apply(instr, table, function, bits, 32)

    return builder


op("int.sub", traits=SCALAR | Traits.ZERO_IDIOM)(build_arithmetic("sub"))
for _name in ("add", "div", "rem", "min", "max"):
    op(f"int.{_name}", traits=SCALAR)(build_arithmetic(_name))
for _name in ("neg", "abs"):
    op(f"int.{_name}", traits=SCALAR)(build_negate(_name))
for _name in ("and", "or"):
    op(f"logic.{_name}", traits=SCALAR | Traits.BITWISE)(build_logic(_name))
op("logic.xor", traits=SCALAR | Traits.BITWISE | Traits.ZERO_IDIOM)(build_logic("xor"))
for _name in ("shl", "shr"):
    op(f"logic.{_name}", traits=SCALAR)(build_shift(_name))
op("int.mul.lo", "int.mul.wide", traits=SCALAR)(build_arithmetic("mul"))
op("int.mul.hi", traits=PURE)(build_arithmetic("mul"))
op("int.mad.lo", "int.mad.wide", traits=SCALAR)(build_mad)
op("int.mad.hi", traits=PURE)(build_mad)
op("logic.not", traits=SCALAR | Traits.BITWISE)(build_not)
