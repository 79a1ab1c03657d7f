"""Registration of the arithmetic forms: operand slots bound to the functions of `arith` and `floating`."""

from __future__ import annotations

import operator

import numpy as np

from convc.errors import UnmodelledError
from convc.machine.ops import arith, floating
from convc.machine.ops.registry import op
from convc.machine.strand import Strand
from convc.machine.values import array, width


def type_of(instr) -> str:
    """The last type modifier, which is the instruction type (``add.s32`` -> ``s32``)."""
    return instr.mods[-1]


def apply(instr, program, function, *widths: int):
    """``d = f(a, …)`` with one source operand per given width in bits."""
    d = program.slot(instr.operands[0])
    sources = [program.slot(o, bits) for o, bits in zip(instr.operands[1:], widths, strict=True)]
    if len(sources) == 1:
        (a,) = sources

        def run(strand: Strand) -> None:
            value = function(strand.regs[a])
            if strand.keep is None:
                strand.regs[d] = value
            else:
                strand.write(d, value)

    elif len(sources) == 2:
        a, b = sources

        def run(strand: Strand) -> None:
            regs = strand.regs
            value = function(regs[a], regs[b])
            if strand.keep is None:
                regs[d] = value
            else:
                strand.write(d, value)

    else:

        def run(strand: Strand) -> None:
            regs = strand.regs
            value = function(*[regs[s] for s in sources])
            if strand.keep is None:
                regs[d] = value
            else:
                strand.write(d, value)

    return run


def _is_float(kind: str) -> bool:
    return kind in ("f16", "f32", "f64")


def _integer_bits(instr, kind: str) -> int:
    if kind not in ("u16", "u32", "u64", "s16", "s32", "s64", "b16", "b32", "b64", "pred"):
        raise UnmodelledError(f"the machine has no {instr.form.name} of type .{kind}")
    return width(kind)


def build_arithmetic(name: str):
    """Builder of add, sub, mul, min, max, div, rem for integer and floating types."""
    plain = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}

    def builder(instr, program):
        kind = type_of(instr)
        extras = set(instr.mods[:-1]) - {"rn", "lo", "wide", "hi"}
        if extras:
            raise UnmodelledError(f"the machine has no {instr.form.name} with .{', .'.join(sorted(extras))}")
        if _is_float(kind):
            bits = int(kind[1:])
            if name in plain:
                return apply(instr, program, floating.arithmetic(plain[name], bits), bits, bits)
            if name in ("min", "max"):
                return apply(instr, program, floating.extreme(name == "max", bits), bits, bits)
            raise UnmodelledError(f"the machine has no {name} of type .{kind}")
        bits, is_signed = _integer_bits(instr, kind), kind.startswith("s")
        if name == "mul" and "wide" in instr.mods:
            return apply(instr, program, arith.multiply_wide(bits, is_signed), bits, bits)
        if name == "mul" and "hi" in instr.mods:
            return apply(instr, program, arith.multiply_high(bits, is_signed), bits, bits)
        if name in plain:
            return apply(instr, program, arith.wrapping(plain[name], bits), bits, bits)
        if name in ("min", "max"):
            return apply(instr, program, arith.extreme(bits, is_signed, name == "max"), bits, bits)
        return apply(instr, program, arith.divide(bits, is_signed, name == "rem"), bits, bits)

    return builder


def build_mad(instr, program):
    """mad.{lo,hi,wide}: multiply, then add in the width of the result; fma for floating types is separate."""
    kind = type_of(instr)
    bits, is_signed = _integer_bits(instr, kind), kind.startswith("s")
    if "wide" in instr.mods:
        multiply, total = arith.multiply_wide(bits, is_signed), arith.wrapping(operator.add, 2 * bits)
    elif "hi" in instr.mods:
        multiply, total = arith.multiply_high(bits, is_signed), arith.wrapping(operator.add, bits)
    else:
        multiply, total = arith.wrapping(operator.mul, bits), arith.wrapping(operator.add, bits)
    wide = 2 * bits if "wide" in instr.mods else bits
    return apply(instr, program, lambda a, b, c: total(multiply(a, b), c), bits, bits, wide)


def build_fma(instr, program):
    """fma.rn."""
    kind = type_of(instr)
    if not _is_float(kind) or set(instr.mods) - {"rn", kind}:
        raise UnmodelledError(f"the machine has no fma with .{'.'.join(instr.mods)}")
    bits = int(kind[1:])
    return apply(instr, program, floating.fused(bits), bits, bits, bits)


def build_logic(name: str):
    """Builder of and, or, xor."""
    function = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}[name]

    def builder(instr, program):
        bits = width(type_of(instr))
        return apply(instr, program, arith.logic(function, bits), bits, bits)

    return builder


def build_not(instr, program):
    """not."""
    bits = width(type_of(instr))
    return apply(instr, program, arith.invert(bits), bits)


def build_negate(name: str):
    """Builder of neg and abs."""

    def builder(instr, program):
        kind = type_of(instr)
        if _is_float(kind) or kind == "bf16":
            return apply(instr, program, floating.sign_bit(width(kind), name == "neg"), width(kind))
        bits = _integer_bits(instr, kind)
        negative = arith.wrapping(operator.sub, bits)
        if name == "neg":
            return apply(instr, program, lambda a: negative(0, a), bits)
        largest = arith.extreme(bits, True, True)
        return apply(instr, program, lambda a: largest(a, negative(0, a)), bits)

    return builder


def build_shift(name: str):
    """Builder of shl and shr."""

    def builder(instr, program):
        kind = type_of(instr)
        bits = width(kind)
        function = arith.shift_left(bits) if name == "shl" else arith.shift_right(bits, kind.startswith("s"))
        return apply(instr, program, function, bits, 32)

    return builder


def build_setp(instr, program):
    """setp.CMP{.BOOL}.type p{|q}, a, b{, c}: compare, perhaps combine with c; q takes the negated comparison."""
    kind, name = type_of(instr), instr.mods[0]
    combine = next((m for m in instr.mods[1:-1] if m in ("and", "or", "xor")), None)
    if _is_float(kind):
        bits = int(kind[1:])
        function = floating.compare(name, bits)
    else:
        bits = _integer_bits(instr, kind)
        function = arith.compare(name, bits, kind.startswith("s"))
    target, a, b = (
        instr.operands[0],
        program.slot(instr.operands[1], bits),
        program.slot(instr.operands[2], bits),
    )
    p = getattr(target, "first", target)
    q = getattr(target, "second", None)
    p_slot, q_slot = getattr(p, "slot", None), getattr(q, "slot", None)
    if combine is None and q_slot is None:
        return apply(instr, program, function, bits, bits)
    join = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}.get(combine)
    c = instr.operands[3] if combine else None
    negate = c is not None and hasattr(c, "reg")
    c_slot = program.slot(c.reg if negate else c) if c is not None else None

    def run(strand: Strand) -> None:
        regs = strand.regs
        holds = function(regs[a], regs[b])
        fails = ~holds if isinstance(holds, np.ndarray) else not holds
        if join is not None:
            other = regs[c_slot]
            if negate:
                other = ~other if isinstance(other, np.ndarray) else not other
            holds, fails = join(holds, other), join(fails, other)
        if p_slot is not None:
            strand.write(p_slot, holds)
        if q_slot is not None:
            strand.write(q_slot, fails)

    return run


def build_selp(instr, program):
    """selp d, a, b, p."""
    bits = width(type_of(instr))
    return apply(instr, program, lambda a, b, p: arith.select(a, b, p, bits), bits, bits, 1)


def build_cvt(instr, program):
    """cvt between integers, floating types and packed halves."""
    mods = instr.mods
    target, source = mods[-2], mods[-1]
    options = set(mods[:-2])
    if target in ("f16x2", "bf16x2") and source == "f32" and options <= {"rn", "relu"}:
        relu = "relu" in options
        return apply(instr, program, lambda a, b: floating.pack_halves(a, b, target, relu), 32, 32)
    if target[0] in "us" and source[0] in "us" and not options:
        bits, to, is_signed = width(source), width(target), source[0] == "s"
        return apply(instr, program, lambda a: arith.extend(_cut(a, bits), bits, to, is_signed), width(source))
    floats = ("f16", "bf16", "f32", "f64")
    if target in floats and source in floats and options <= {"rn"}:
        return apply(instr, program, lambda a: floating.float_to_float(a, source, target), width(source))
    if target[0] in "us" and source in floats and len(options) == 1 and options <= set(floating.ROUND_INTEGER):
        rounding = next(iter(options))
        return apply(instr, program, lambda a: floating.float_to_integer(a, source, target, rounding), width(source))
    if target in floats and source[0] in "us" and options <= {"rn"}:
        return apply(instr, program, lambda a: floating.integer_to_float(a, source, target), width(source))
    raise UnmodelledError(f"the machine has no cvt.{'.'.join(mods)}")


def _cut(value, bits: int):
    """Read a source register that is wider than the conversion's source type."""
    if isinstance(value, np.ndarray):
        return value if value.dtype.itemsize * 8 == bits else value.astype(array(0, bits).dtype)
    return value & ((1 << bits) - 1)


for _name in ("add", "sub", "mul", "min", "max"):
    op(f"float.{_name}")(build_arithmetic(_name))
for _name in ("add", "sub", "div", "rem", "min", "max"):
    op(f"int.{_name}")(build_arithmetic(_name))
for _name in ("neg", "abs"):
    op(f"int.{_name}", f"float.{_name}")(build_negate(_name))
for _name in ("and", "or", "xor"):
    op(f"logic.{_name}")(build_logic(_name))
for _name in ("shl", "shr"):
    op(f"logic.{_name}")(build_shift(_name))
op("int.mul.lo", "int.mul.hi", "int.mul.wide")(build_arithmetic("mul"))
op("int.mad.lo", "int.mad.hi", "int.mad.wide")(build_mad)
op("float.fma")(build_fma)
op("logic.not")(build_not)
op("setp")(build_setp)
op("selp")(build_selp)
op("cvt", "cvt.pack2")(build_cvt)
