"""cvt and cvt.pack (PTX manual, 9.7.9.21 and 9.7.9.22).

cvt.rs, stochastic rounding by random bits that the kernel gives (PTX manual, 9.7.9.21).

A magnitude is cut to the target's precision; one unit is added where the sum of the random bits and the bits that were
cut off, their highest aligned, carries out. Two f32 become f16x2 with 13 random bits each (12..0 for b, 28..16 for a),
or bf16x2 with 16 each. Of four narrow numbers, the first two take their random bits from the upper half of rbits, the
others from the lower: all 16 for both, or a byte each (the switch ``random_bits``).
"""

from __future__ import annotations

import numpy as np

from convc.machine.base.values import DTYPE, MASK, SIGNED, Function, Unary, Value, array, lifted, narrow, width
from convc.machine.isa.float import floating, rounding
from convc.machine.isa.float.rounding import FORMATS, decode, encode
from convc.machine.isa.operands import apply
from convc.machine.isa.registry import PURE, SCALAR, Run, op
from convc.machine.isa.scalar.integer import cut, extend
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr

FLOATS = ("f16", "bf16", "f32", "f64", "tf32")
MODES = ("rn", "rz", "rm", "rp", "rna")
INTEGER_MODES = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}


def widen(kind: str) -> Unary:
    """f16 or bf16 to f32, exactly."""
    return lifted(lambda a: rounding.encode(rounding.decode(a, kind), "f32"), 16)


def integer_to_integer(source: str, target: str, saturate: bool) -> Unary:
    """Between integers: the low bits, extended by the source's sign; .sat clamps to the target's range."""
    bits = width(source)
    to = width(target)
    is_signed = source[0] == "s"
    if not saturate:
        return lambda a: extend(a, bits, to, is_signed)
    low, high = _limits(target)
    source_low, source_high = _limits(source)
    low, high = max(low, source_low), min(high, source_high)

    def run(a: np.ndarray) -> np.ndarray:
        number = a.view(SIGNED[bits]) if is_signed else a
        return np.clip(number, number.dtype.type(low), number.dtype.type(high)).astype(DTYPE[to])

    return lifted(run, bits)


def _limits(kind: str) -> tuple[int, int]:
    bits = width(kind)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, MASK[bits])


def float_to_integer(source: str, target: str, mode: str) -> Function:
    """Rounded to an integer by ``mode`` and clamped to the target's range.

    NaN gives 0, but where one of the two types has 64 bits 1 << (bits - 1) (PTX manual, cvt).
    """
    bits = width(target)
    low, high = _limits(target)
    top = 2.0 ** (bits - (target[0] == "s"))
    nan = 1 << (bits - 1) if source == "f64" or bits == 64 else 0
    wide = np.int64 if target[0] == "s" else np.uint64

    def run(a: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            number = rounding.TO_INTEGER[mode](rounding.decode(a, source))
        inside = (number > low - 1) & (number < top) if bits < 64 else (number >= low) & (number < top)
        result = np.where(inside, number, 0.0).astype(wide).view(np.uint64)
        result = np.where(number >= top, np.uint64(high), np.where(inside, result, np.uint64(low & MASK[64])))
        return np.where(np.isnan(number), np.uint64(nan), result).astype(DTYPE[bits])

    return lifted(run, width(source))


def integer_to_float(source: str, target: str, mode: str) -> Function:
    """An integer rounded once to a floating type."""
    bits = width(source)
    is_signed = source[0] == "s"

    def run(a: np.ndarray) -> np.ndarray:
        number = a.view(SIGNED[bits]) if is_signed else a
        if bits < 64:
            exact = number.astype(np.float64)
        elif mode == "rn" and target == "f64":
            return number.astype(np.float64).view(np.uint64)
        elif target == "f64":
            exact = np.vectorize(rounding.nearest_integer, otypes=[np.float64])(number, mode)
        else:
            exact = _odd_double(number)
        return rounding.encode(rounding.rounded(exact, target, mode), target)

    return lifted(run, bits)


def _odd_double(number: np.ndarray) -> np.ndarray:
    """64-bit integers as float64 rounded to odd: the lowest 11 bits become one sticky bit where they do not fit."""
    negative = number < 0
    magnitude = np.where(negative, -number.view(np.uint64), number.view(np.uint64))
    low = magnitude & np.uint64(0x7FF)
    sticky = np.where(low != 0, np.uint64(0x800), np.uint64(0))
    kept = np.where(magnitude >> np.uint64(53) != 0, (magnitude - low) | sticky, magnitude).astype(np.float64)
    return np.where(negative, -kept, kept)


def float_to_float(source: str, target: str, mode: str, *, saturate: bool = False) -> Function:
    """Between floating types, rounded once; ``saturate`` (.satfinite) gives the largest number for an infinity."""
    limit = FORMATS[target].largest

    def run(a: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            x = rounding.decode(a, source)
            if source != target:
                x = rounding.rounded(x, target, mode, saturate)
            if saturate:
                x = np.where(np.isnan(x), x, np.clip(x, -limit, limit))
            return rounding.encode(x, target)

    return lifted(run, width(source))


def round_float(kind: str, target: str, mode: str) -> Function:
    """cvt.rni and its like between floating types: to an integer that stays a floating-point number."""

    def run(a: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return rounding.encode(rounding.TO_INTEGER[mode](rounding.decode(a, kind)), target)

    return lifted(run, width(kind))


def convert(target: str, source: str, options: set[str]) -> Function:
    """cvt of one number: {rounding, ftz, sat, relu, satfinite} as ``options``."""
    mode = next((m for m in options if m in MODES), "rn")
    to_integer = next((INTEGER_MODES[m] for m in options if m in INTEGER_MODES), None)
    if source not in FLOATS and target not in FLOATS:
        return integer_to_integer(source, target, "sat" in options)
    before = floating.flush(32) if "ftz" in options and source == "f32" else None
    after: list[Function] = []
    if source not in FLOATS:
        function = integer_to_float(source, target, mode)
    elif target not in FLOATS:
        function = float_to_integer(source, target, to_integer or "rz")
    else:
        if to_integer is not None:
            function = round_float(source, target, to_integer)
        else:
            function = float_to_float(source, target, mode, saturate="satfinite" in options)
        if "ftz" in options and target == "f32":
            after.append(floating.flush(32))
        if "relu" in options:
            after.append(floating.relu("f32" if target == "tf32" else target))
    if "sat" in options and target in FLOATS:
        after.append(floating.saturate(target))
    if before is None and not after:
        return function

    def run(value: Value) -> Value:
        value = function(value if before is None else before(value))
        for step in after:
            value = step(value)
        return value

    return run


@op("cvt", traits=SCALAR)
def cvt(instr: Instr, table: SlotTable) -> Run:
    """cvt between integers and floating types; registers may be wider, the result is extended."""
    target, source = instr.mods[-2:]
    function = convert(target, source, set(instr.mods[:-2]))
    bits = width(source)
    to = width(target)
    register = table.width_of(instr.operands[0])
    plain = register == to
    is_signed = target[0] == "s"

    def run(value: Value) -> Value:
        result = function(cut(value, bits))
        return result if plain else extend(result, to, register, is_signed)

    return apply(instr, table, run, bits)


RANDOM = {"f16": 13, "bf16": 16}
"""Random bits of a number of two in a register."""


def rounded(value: np.ndarray, target: str, random: np.ndarray, bits: int, saturate: bool) -> np.ndarray:
    """float64 numbers that f32 has, to numbers of a format, by ``bits`` random bits each (int64); NaN stays."""
    form = FORMATS[target]
    with np.errstate(all="ignore"):
        magnitude = np.abs(value)
        _, exponent = np.frexp(magnitude)
        quantum = np.maximum(exponent - form.precision, form.low - form.precision + 1)
        scaled = np.ldexp(magnitude, -quantum)
        whole = np.floor(scaled)
        # What an infinity or a NaN gives here is replaced below.
        cut = np.nan_to_num(np.floor(np.ldexp(scaled - whole, bits)), nan=0.0, posinf=0.0).astype(np.int64)
        result = np.ldexp(whole + (cut + random >> bits), quantum)
    result = np.where(np.isfinite(value), result, magnitude)
    over = result > form.largest
    result = np.where(over, form.largest if saturate or not form.infinite else np.inf, result)
    return np.copysign(result, value)


def random_parts(word: np.ndarray, target: str, count: int, apart: bool) -> tuple[list[np.ndarray], int]:
    """Random bits for each of ``count`` numbers, the highest one in the register first, and how many bits these are."""
    if count == 2:
        bits = RANDOM[target]
        places = (16, 0)
    else:
        bits = 8 if apart else 16
        places = (24, 16, 8, 0) if apart else (16, 16, 0, 0)
    number = word.astype(np.int64)
    return [number >> place & ((1 << bits) - 1) for place in places], bits


@op("cvt.rs", traits=PURE)
def cvt_rs(instr: Instr, table: SlotTable) -> Run:
    """cvt.rs{.relu}{.satfinite}.type.f32: two or four numbers of f32, the first one to the highest place."""
    packed = instr.mods[-2]
    target = packed[:-2]
    count = int(packed[-1])
    sources = table.slots(instr.args["a"], 32)
    if count == 2:
        sources = [*sources, *table.slots(instr.args["b"], 32)]
    bits_slot = table.slot(instr.args["rbits"], 32)
    (destination,) = table.targets(instr.args["d"])
    saturate = "satfinite" in instr.mods
    relu = "relu" in instr.mods
    total = width(packed)

    def run(strand: Strand) -> None:
        apart = strand.cohort.launch.switches.random_bits == "apart"
        parts, bits = random_parts(array(strand.regs[bits_slot], 32), target, count, apart)
        word = np.zeros((1, 1, 1), DTYPE[total])
        for slot, random in zip(sources, parts, strict=True):
            value = decode(array(strand.regs[slot], 32), "f32")
            result = rounded(value, target, random, bits, saturate)
            if relu:
                result = np.where(result < 0, 0.0, np.where(result == 0, np.abs(result), result))
            code = encode(result, target).astype(DTYPE[total])
            word = word << DTYPE[total].type(total // count) | code
        if destination is not None:
            strand.write(destination, narrow(word))

    return run
