"""cvt of pairs: two f32 into one register, the 8, 6 and 4-bit formats, scale factors, cvt.pack (PTX manual, cvt)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from convc.machine.base import narrow_formats
from convc.machine.base.values import DTYPE, Binary, Unary, UnaryArray, Value, array, floats, lifted, signed, width
from convc.machine.isa.float import floating, rounding
from convc.machine.isa.float.convert import convert
from convc.machine.isa.float.rounding import FORMATS
from convc.machine.isa.operands import apply
from convc.machine.isa.registry import PURE, Run, op
from convc.machine.isa.scalar.integer import cut, extend
from convc.machine.state.slots import SlotTable
from convc.ptx import Instr


def pack_halves(high: Value, low: Value, target: str, relu: bool) -> np.ndarray:
    """cvt.rn.{f16x2,bf16x2}.f32 d, a, b: a goes to the upper half, b to the lower."""
    x, y = (np.asarray(floats(v, 32)) for v in (high, low))
    shape = np.broadcast_shapes(x.shape, y.shape, (1, 1, 1))
    pair = np.empty((*shape, 2), np.float32)
    pair[..., 0] = y
    pair[..., 1] = x
    return round_pairs(pair.view(np.uint32), target, relu)[..., 0]


def round_pairs(values: np.ndarray, target: str, relu: bool) -> np.ndarray:
    """float32 numbers (their bits, …, 2 n) as f16x2 or bf16x2 words (uint32, …, n), the even ones in the lower half."""
    numbers = values.view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        if relu:
            numbers = np.where(numbers <= 0, np.float32(0), numbers)
        half = round_f16(numbers) if target == "f16x2" else round_bf16(numbers)
    return half.view(np.uint32)


BLOCK = 1 << 16
"""Numbers that are rounded together, so that what is between stays inside a level-2 cache."""

FEW = 1 << 13
"""Numbers that numpy has rounded before a dozen operations on whole arrays have begun."""

TO_F16 = np.float32(2.0**-112)
"""What brings the exponent of float32, biased by 127, to that of f16, biased by 15."""


def round_f16(numbers: np.ndarray) -> np.ndarray:
    """float32 to f16 bits (uint16), round to nearest even; NaN becomes 0x7FFF.

    As numpy does it, which takes one number at a time. A block whose numbers are all below the largest finite one is
    rounded as whole numbers: half of the lowest bit that stays is added, less where that bit is even, and the rest
    dropped. A block with larger ones, or a NaN, is numpy's.
    """
    if numbers.size <= FEW:
        return _round_each(numbers)
    flat = np.ascontiguousarray(numbers).reshape(-1)
    out = np.empty(flat.size, np.uint16)
    words, spare = np.empty((2, min(flat.size, BLOCK)), np.uint32)
    for low in range(0, flat.size, BLOCK):
        block = flat[low : low + BLOCK]
        found = out[low : low + BLOCK]
        if block.max() < 65504 and block.min() > -65504:
            _round_block(block, found, words[: block.size], spare[: block.size])
        else:
            found[...] = _round_each(block)
    return out.reshape(numbers.shape)


def _round_each(numbers: np.ndarray) -> np.ndarray:
    half = numbers.astype(np.float16).view(np.uint16)
    if np.isnan(numbers.max()):  # a NaN is the largest of all to numpy
        half[np.isnan(numbers)] = 0x7FFF
    return half


def _round_block(block: np.ndarray, out: np.ndarray, words: np.ndarray, spare: np.ndarray) -> None:
    """Round numbers (n,) below the largest finite one, with two arrays (n,) to work in.

    A number that f16 holds as a subnormal one loses bits when its exponent is changed, and is numpy's.
    """
    np.multiply(block, TO_F16, out=words.view(np.float32))
    np.left_shift(words, 1, out=spare)  # without the sign
    np.subtract(spare, 1, out=spare)  # a zero wraps around, to the largest
    subnormal = spare < 1 << 24
    np.right_shift(words, 13, out=spare)
    np.bitwise_and(spare, 1, out=spare)
    np.add(words, spare, out=words)
    np.add(words, 0xFFF, out=words)
    np.right_shift(words, 16, out=spare)
    np.bitwise_and(spare, 0x8000, out=spare)
    np.right_shift(words, 13, out=words)
    np.bitwise_or(words, spare, out=words)
    np.copyto(out, words, casting="unsafe")  # the exponent ends below bit 15, where the sign is; nothing above counts
    if subnormal.any():
        places = np.flatnonzero(subnormal)
        out[places] = block[places].astype(np.float16).view(np.uint16)


def round_bf16(value: np.ndarray) -> np.ndarray:
    """float32 to bfloat16 bits (uint16), round to nearest even; NaN becomes 0x7FFF."""
    bits = np.ascontiguousarray(value, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(value), np.uint16(0x7FFF), rounded)


def scale_factor(kind: str, mode: str, saturate: bool) -> Unary:
    """f32 or bf16 to ue8m0: the exponent of the magnitude, rounded down (rz) or up (rp); NaN is 0xFF.

    The sign is dropped, values below 2**-127 give 0 and an infinity 0xFF, or 0xFE with .satfinite (cuda_fp8.hpp).
    """

    def run(a: np.ndarray) -> np.ndarray:
        x = np.abs(rounding.decode(a, kind))
        fraction, exponent = np.frexp(x)
        biased = exponent - 1 + 127 + ((fraction != 0.5) & (x > 0) if mode == "rp" else 0)
        code = np.where(x == 0, 0, np.clip(biased, 0, 0xFE if saturate else 0xFF))
        code = np.where(np.isinf(x), 0xFE if saturate else 0xFF, code)
        return np.where(np.isnan(x), 0xFF, code).astype(np.uint8)

    return lifted(run, width(kind))


def from_scale_factor() -> Unary:
    """ue8m0 to bf16."""
    powers = narrow_formats.table("ue8m0").astype(np.float64)

    def run(a: np.ndarray) -> np.ndarray:
        return rounding.encode(powers[a], "bf16")

    return lifted(run, 8)


def narrow_float(source: str, target: str, options: set[str]) -> Unary:
    """f32, f16 or bf16 to a narrow format, always .satfinite; .relu clamps negative numbers to zero first."""
    if target == "ue8m0":
        return scale_factor(source, "rp" if "rp" in options else "rz", "satfinite" in options)
    clamp = floating.relu(source) if "relu" in options else None
    limit = FORMATS[target].largest

    def run(a: np.ndarray) -> np.ndarray:
        x = rounding.rounded(rounding.decode(a, source), target, "rn", saturate=True)
        return rounding.encode(np.where(np.isnan(x), x, np.clip(x, -limit, limit)), target)

    function = lifted(run, width(source))
    return function if clamp is None else lambda a: function(clamp(a))


def _together(high: Value, low: Value, bits: int, total: int) -> Value:
    """Two codes of ``bits`` bits, each held in 8 or in 16, as a register of ``total`` bits."""
    if isinstance(high, np.ndarray) or isinstance(low, np.ndarray):
        held = max(8, bits)
        part = DTYPE[total].type
        return (array(high, held).astype(part) << part(bits)) | array(low, held).astype(part)
    return high << bits | low


def _apart(value: Value, bits: int) -> tuple[Value, Value]:
    """The upper and the lower one of two codes of ``bits`` bits, each held in 8 or in 16."""
    low = (1 << bits) - 1
    if isinstance(value, np.ndarray):
        part = value.dtype.type
        held = DTYPE[max(8, bits)]
        return (value >> part(bits)).astype(held), (value & part(low)).astype(held)
    return value >> bits, value & low


@op("cvt.pack2", traits=PURE)
def cvt_pack2(instr: Instr, table: SlotTable) -> Run:
    """cvt.…x2.f32 d, a, b: a goes to the upper half, b to the lower."""
    target = instr.mods[-2]
    options = set(instr.mods[:-2])
    half_floats = target in ("f16x2", "bf16x2")
    if half_floats and options <= {"rn", "relu"}:
        halves, pairs = _to_halves(target, "relu" in options)
        return apply(instr, table, halves, 32, 32, pairs=pairs)
    one = convert(target[:-2], "f32", options) if half_floats else narrow_float("f32", target[:-2], options)
    total = width(target)
    register = table.width_of(instr.operands[0])

    def run(a: Value, b: Value) -> Value:
        return extend(_together(one(a), one(b), total // 2, total), total, register, False)

    return apply(instr, table, run, 32, 32)


@lru_cache(maxsize=1 << 3)
def _to_halves(target: str, relu: bool) -> tuple[Binary, UnaryArray]:
    """Two numbers to a pair of halves, and many pairs of numbers at once."""
    return (
        lambda a, b: pack_halves(a, b, target, relu),
        lambda values: round_pairs(values, target, relu),
    )


@op("cvt.packed", traits=PURE)
def cvt_packed(instr: Instr, table: SlotTable) -> Run:
    """cvt of a packed pair: f16x2 or bf16x2 to narrow formats and back."""
    target, source = instr.mods[-2:]
    options = set(instr.mods[:-2])
    one = _widened if target in ("f16x2", "bf16x2") else narrow_float
    function = one(source[:-2], target[:-2], options)
    bits = width(source)
    total = width(target)

    def run(value: Value) -> Value:
        high, low = _apart(cut(value, bits), bits // 2)
        return _together(function(high), function(low), total // 2, total)

    return apply(instr, table, run, bits)


def _widened(source: str, target: str, options: set[str]) -> Unary:
    """A narrow format to f16 or bf16; .relu clamps negative numbers to zero."""
    if source == "ue8m0":
        function = from_scale_factor()
    else:
        function = lifted(lambda a: rounding.encode(rounding.decode(a, source), target), 8)
    if "relu" not in options:
        return function
    clamp = floating.relu(target)
    return lambda a: clamp(function(a))


@op("cvt.pack", traits=PURE)
def cvt_pack(instr: Instr, table: SlotTable) -> Run:
    """cvt.pack.sat.type.s32: clamp a and b to the type and put them, a above b, below the low part of c."""
    kind = instr.mods[instr.mods.index("sat") + 1]
    bits = int(kind[1:])
    is_signed = kind[0] == "s"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    mask = np.uint32((1 << bits) - 1)

    def run(a: np.ndarray, b: np.ndarray, *c: np.ndarray) -> np.ndarray:
        x, y = (np.clip(signed(v, 32).astype(np.int64), low, high).astype(np.uint32) & mask for v in (a, b))
        pair = (x << np.uint32(bits)) | y
        return pair | (c[0] << np.uint32(2 * bits)) if c else pair

    sources = len(instr.operands) - 1
    return apply(instr, table, lifted(run, *[32] * sources), *[32] * sources)
