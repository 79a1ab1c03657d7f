"""The .approx functions: computed in float64 and rounded once, well inside the error that the manual allows.

How they are rounded is the switch ``approximate``: what depends on it depends on the last bits of the hardware's
tables.
"""

from __future__ import annotations

import operator

import numpy as np

from convc.machine.base.values import ArrayFunction, Function, lifted
from convc.machine.isa.float import rounding
from convc.machine.isa.float.floating import canonical
from convc.machine.isa.float.rounding import FORMATS


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """div.approx: a * (1 / b), which is zero (NaN for an infinite a) where |b| is above 2**126 (PTX manual, div)."""
    huge = (np.abs(b) > 2.0**126) & np.isfinite(b)
    return np.where(huge, np.where(np.isinf(a), np.nan, np.copysign(0.0, a / b)), a / b)


APPROXIMATE: dict[str, ArrayFunction] = {
    "rcp": lambda a: 1.0 / a,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1.0 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
    "div": _divide,
    "div.full": operator.truediv,
}


def approximate(name: str, kind: str, toward: str) -> Function:
    """An .approx function: computed in float64 and rounded to ``nearest`` or toward ``zero``; overflow is infinite."""
    bits = FORMATS[kind].bits
    function = APPROXIMATE[name]

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

    def run(a: np.ndarray) -> np.ndarray:
        upper = np.uint64(0xFFFFFFFF00000000)
        x = a & upper
        x = np.where(x & np.uint64(0x7FF0000000000000) == 0, x & np.uint64(1 << 63), x)
        out = canonical(np.asarray(APPROXIMATE[name](x.view(np.float64))), 64)
        out = np.where(out & np.uint64(0x7FF0000000000000) == 0, out & np.uint64(1 << 63), out)
        return out & upper

    return lifted(run, 64)
