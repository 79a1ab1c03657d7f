"""The exactness of tensor cores as they add products of floats: all that the bound of a sum needs to know of a target.

Blackwell's align the terms of an instruction to 25 fractional bits and keep a float32. Hopper's do so too, but for
eight-bit floats: those terms have 13 fractional bits, and so has the mantissa of the result (recorded on an H200; the
rule is that of microsoft/MMA-Sim, and of Khattak and Mikaitis, arXiv 2512.07004).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from convc.ir.dtypes import KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """An adder.

    Attributes:
        bits: of the mantissa that it keeps, the leading one left out; what is lost is less than 2^-bits of the result.
        fraction: fractional bits of the terms of an instruction, below the largest exponent of all of them.
    """

    bits: int = 23
    fraction: int = 25


FLOAT32 = Sums()
"""Float32 sums in any order, and those of tensor cores that keep a float32."""

HOPPER_FP8 = Sums(bits=13, fraction=13)
"""Products of e4m3 and e5m2 on sm_90a."""


def sums_of(ptx: str, operand: str, numerics: str = "exact") -> Sums:
    """The adder of a kernel.

    Args:
        ptx: its text, of which only the directive ``.target`` is read.
        operand: type of its operands.
        numerics: of the simulator (``float32`` adds in float32 whatever the target), ``exact`` for a GPU.
    """
    exact = numerics == "exact" and KINDS.get(operand) == "f8f6f4"
    return HOPPER_FP8 if exact and target_of(ptx) == "sm_90a" else FLOAT32


def target_of(ptx: str) -> str:
    """The first name of ``.target`` in a kernel's text, which is not parsed; "" where there is none."""
    found = re.search(r"^\s*\.target\s+(\w+)", ptx, re.MULTILINE)
    return "" if found is None else found[1]
