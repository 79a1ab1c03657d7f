"""cvt.rs, stochastic rounding by random bits that the kernel gives (PTX manual, 9.7.9.21).

A magnitude is cut to the target's precision; one unit is added where the sum of the random bits and the bits that were
cut off, their highest aligned, carries out. Two f32 become f16x2 with 13 random bits each (12..0 for b, 28..16 for a),
or bf16x2 with 16 each. Of four narrow numbers, the first two take their random bits from the upper half of rbits, the
others from the lower: all 16 for both, or a byte each (the switch ``random_bits``).
"""

from __future__ import annotations

import numpy as np

from convc.machine.base.values import DTYPE, array, narrow, width
from convc.machine.isa.float.rounding import FORMATS, decode, encode
from convc.machine.isa.registry import Run, op
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr

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


@op("cvt.rs")
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
