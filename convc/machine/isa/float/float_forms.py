"""Registration of the floating-point forms: modifiers and types bound to the functions of `floating`.

The .approx functions: computed in float64 and rounded once, well inside the error that the manual allows.

How they are rounded is the switch ``approximate``: what depends on it depends on the last bits of the hardware's
tables.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from convc.machine.base.values import ArrayFunction, Function, OneToFourArrays, Value, lifted, packed
from convc.machine.isa.float import floating, rounding
from convc.machine.isa.float.convert import widen
from convc.machine.isa.float.floating import canonical
from convc.machine.isa.float.rounding import FORMATS
from convc.machine.isa.operands import apply, type_of
from convc.machine.isa.registry import PURE, Builder, Run, op, switched
from convc.machine.state.slots import SlotTable
from convc.ptx import Instr

MODES = ("rn", "rz", "rm", "rp")


def element(kind: str) -> tuple[str, int]:
    """Element type of a floating type and how many a register holds: ``f16x2`` -> (``f16``, 2)."""
    return (kind[:-2], 2) if kind.endswith("x2") else (kind, 1)


def bind(instr: Instr, table: SlotTable, function: Function, kind: str, sources: int) -> Run:
    """Apply ``function`` of elements to registers of ``kind``."""
    single, count = element(kind)
    bits = FORMATS[single].bits
    return apply(instr, table, packed(function, bits) if count == 2 else function, *[bits * count] * sources)


def bind_approximate(instr: Instr, table: SlotTable, name: str, sources: int) -> Run:
    """An .approx function, in the rounding of the switch."""
    kind = type_of(instr)
    options = set(instr.mods)
    single = element(kind)[0]

    def build(toward: str) -> Run:
        function = floating.modified(approximate(name, single, toward), single, options)
        return bind(instr, table, function, kind, sources)

    return switched("approximate", build)


def mode_of(mods: tuple[str, ...]) -> str:
    """The rounding mode, nearest even where none is given."""
    return next((m for m in mods if m in MODES), "rn")


def build_arithmetic(name: str, sources: int) -> Builder:
    """Builder of add, sub, mul, fma, and of div, rcp and sqrt with a rounding mode or .approx."""

    def builder(instr: Instr, table: SlotTable) -> Run:
        options = instr.mods
        if "approx" in options or "full" in options:
            if type_of(instr) == "f64":
                return apply(instr, table, approximate_double(name), 64)
            return bind_approximate(instr, table, "div.full" if "full" in options else name, sources)
        function, bits = _arithmetic(name, options)
        return apply(instr, table, function, *[bits] * sources)

    return builder


@lru_cache(maxsize=1 << 8)
def _arithmetic(name: str, mods: tuple[str, ...]) -> tuple[Function, int]:
    """A function of registers that is correctly rounded, as all instructions with these modifiers compute it.

    Returns:
        The function, and how many bits a register has.
    """
    kind = mods[-1]
    single, count = element(kind)
    bits = FORMATS[single].bits
    function = floating.modified(floating.arithmetic(name, single, mode_of(mods)), single, set(mods))
    return packed(function, bits) if count == 2 else function, bits * count


def build_approximate(name: str) -> Builder:
    """Builder of the functions that exist only as .approx."""

    def builder(instr: Instr, table: SlotTable) -> Run:
        kind = type_of(instr)
        options = set(instr.mods)
        if kind == "f64" and "ftz" in options:
            return apply(instr, table, approximate_double(name), 64)
        return bind_approximate(instr, table, name, 1)

    return builder


def build_mixed(name: str, sources: int) -> Builder:
    """Builder of add, sub and fma whose first operands are f16 or bf16 and whose last one and result are f32."""

    def builder(instr: Instr, table: SlotTable) -> Run:
        kind = type_of(instr)
        function = floating.modified(floating.arithmetic(name, "f32", mode_of(instr.mods)), "f32", set(instr.mods))
        up = widen(kind)

        def run(*operands: Value) -> Value:
            return function(*[up(v) for v in operands[:-1]], operands[-1])

        return apply(instr, table, run, *[16] * (sources - 1), 32)

    return builder


def build_extreme(name: str, sources: int) -> Builder:
    """Builder of min and max, of two or three."""

    def builder(instr: Instr, table: SlotTable) -> Run:
        kind = type_of(instr)
        options = set(instr.mods)
        single = element(kind)[0]
        function = floating.extreme(name == "max", single, options)
        if sources == 3:
            function = _of_three(function, magnitudes="abs" in options)
        return bind(instr, table, floating.modified(function, single, options & {"ftz"}), kind, sources)

    return builder


def _of_three(two: Function, magnitudes: bool) -> Function:
    clear = floating.sign_bit(32, False)

    def run(a: Value, b: Value, c: Value) -> Value:
        if magnitudes:
            return two(two(clear(a), clear(b)), clear(c))
        return two(two(a, b), c)

    return run


def build_sign(name: str) -> Builder:
    """Builder of neg and abs."""

    def builder(instr: Instr, table: SlotTable) -> Run:
        kind = type_of(instr)
        single = element(kind)[0]
        function = floating.sign_bit(FORMATS[single].bits, name == "neg")
        return bind(instr, table, floating.modified(function, single, set(instr.mods)), kind, 1)

    return builder


@op("float.copysign", traits=PURE)
def copysign(instr: Instr, table: SlotTable) -> Run:
    """copysign d, a, b."""
    bits = FORMATS[type_of(instr)].bits
    return apply(instr, table, floating.copysign(bits), bits, bits)


@op("float.testp", traits=PURE)
def testp(instr: Instr, table: SlotTable) -> Run:
    """testp.op p, a."""
    kind = type_of(instr)
    name = next(m for m in instr.mods if m in floating.TESTS)
    return apply(instr, table, floating.has_property(name, kind), FORMATS[kind].bits)


for _name in ("add", "sub", "mul", "div"):
    op(f"float.{_name}", traits=PURE)(build_arithmetic(_name, 2))
for _name in ("rcp", "sqrt"):
    op(f"float.{_name}", traits=PURE)(build_arithmetic(_name, 1))
op("float.fma", traits=PURE)(build_arithmetic("fma", 3))
for _name in ("rsqrt", "sin", "cos", "lg2", "ex2", "tanh"):
    op(f"float.{_name}", traits=PURE)(build_approximate(_name))
for _name, _sources in (("add", 2), ("sub", 2), ("fma", 3)):
    op(f"float.{_name}.mixed", traits=PURE)(build_mixed(_name, _sources))
for _name in ("min", "max"):
    op(f"float.{_name}", traits=PURE)(build_extreme(_name, 2))
    op(f"float.{_name}3", traits=PURE)(build_extreme(_name, 3))
for _name in ("neg", "abs"):
    op(f"float.{_name}", traits=PURE)(build_sign(_name))


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """div.approx: a * (1 / b), which is zero (NaN for an infinite a) where |b| is above 2**126 (PTX manual, div)."""
    huge = (np.abs(b) > 2.0**126) & np.isfinite(b)
    return np.where(huge, np.where(np.isinf(a), np.nan, np.copysign(0.0, a / b)), a / b)


APPROXIMATE: dict[str, OneToFourArrays] = {
    "rcp": lambda a: 1.0 / a,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1.0 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
    "div": _divide,
    "div.full": np.true_divide,
}


def approximate(name: str, kind: str, toward: str) -> Function:
    """An .approx function: computed in float64 and rounded to ``nearest`` or toward ``zero``; overflow is infinite."""
    bits = FORMATS[kind].bits
    function: ArrayFunction = APPROXIMATE[name]

    def run(*operands: np.ndarray) -> np.ndarray:
        exact = np.asarray(function(*[rounding.decode(o, kind) for o in operands]))
        result = rounding.rounded(exact, kind)
        if toward == "zero":
            result = np.where(np.isfinite(result), rounding.rounded(exact, kind, "rz"), result)
        return rounding.encode(result, kind)

    def single(*operands: np.ndarray) -> np.ndarray:
        """The same for f32, nearest."""
        exact = np.asarray(function(*[operand.view(np.float32).astype(np.float64) for operand in operands]))
        return np.asarray(canonical(exact.astype(np.float32), 32))

    plain = kind == "f32" and toward == "nearest"
    return lifted(single if plain else run, *[bits] * (2 if name.startswith("div") else 1))


def approximate_double(name: str) -> Function:
    """rcp and rsqrt .approx.ftz.f64: only the upper half of the operand counts, the lower half of the result is 0."""
    function: ArrayFunction = APPROXIMATE[name]

    def run(a: np.ndarray) -> np.ndarray:
        upper = np.uint64(0xFFFFFFFF00000000)
        x = a & upper
        x = np.where(x & np.uint64(0x7FF0000000000000) == 0, x & np.uint64(1 << 63), x)
        out = canonical(np.asarray(function(x.view(np.float64))), 64)
        out = np.where(out & np.uint64(0x7FF0000000000000) == 0, out & np.uint64(1 << 63), out)
        return out & upper

    return lifted(run, 64)
