"""HMMA: how the tensor cores of Volta and Turing go through a product of a warp, as published and as machine code says.

Facts of Volta (V) and Turing (T), and their sources:

| fact | source |
| --- | --- |
| V: wmma m16n16k16 is four sets, over k, of four steps HMMA.884 (f32 sums) or two (f16) | Raihan, Fig. 9 and 10 |
| V: cycles behind each step, counted from the first | Raihan, Fig. 9 (Titan V) |
| V: groups of four threads; 0 and 2 have rows 0 to 3 of A; every element is in two threads | Raihan, Fig. 7 |
| V: an octet is groups X and X + 4, and makes 8 x 8 of D from 8 rows of A and 8 columns of B | Raihan, Table II |
| V: a step multiplies 2 x 4 of A (f16 sums: 4 x 4) by 4 x 4 of B, first those of group X | Raihan, Table III |
| V: a step has 2 cycles, and reads up to three pairs of 32-bit registers in each thread | Raihan, bandwidth |
| T: four sets of one HMMA.1688, without steps; every element is in one thread | Raihan |
| T: a set is half of n and half of k, n first; its registers | ptxas 12.9 for sm_75 |
| V: places of sums in the registers of an octet | PTX ISA 9.7.14.5.1, mma.m8n8k4 |

Raihan: Md Aamir Raihan, Negar Goli, Tor M. Aamodt, "Modeling Deep Learning Accelerator Enabled GPUs", arXiv 1811.08309
(2018), ISPASS 2019. What they measured on Turing depends on the shape and is not repeated here. Bits that a step reads
are counted from the parts that it multiplies: those of B once for an octet, as both groups get the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from convc.atoms.held import Atom, Held, Mode
from convc.atoms.warp import wmma
from convc.errors import InputError

ARCHS = ("volta", "turing")
SUMS = ("f32", "f16")
PAPER = "Raihan, Goli, Aamodt 2018 (arXiv 1811.08309)"
CYCLES = {
    "f32": (10, 12, 14, 18, 20, 22, 24, 28, 30, 32, 34, 38, 40, 42, 44, 54),
    "f16": (12, 21, 25, 34, 38, 47, 51, 64),
}  # fmt: skip
"""Cycles from the first HMMA of a wmma.mma to the end of each step, on a Titan V (Raihan, Fig. 9)."""

GROUP = 4
"""Threads of a group, and rows of A, columns of B and elements of k that it has in a set."""

OCTETS = 4
SETS = 4
STEP_CYCLES = 2
"""Cycles of a step of Volta (Raihan, bandwidth)."""

PORT_BITS = 3 * 2 * 32 * 32
"""Bits that a warp can read in a step: three operands, two registers of 32 bits, 32 threads (Raihan)."""

SHAPES = {"volta": ("m16n16k16", "m8n8k4"), "turing": ("m16n16k16", "m16n8k8")}
"""Products whose sets are known: of wmma, and those of mma.sync that are one set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HmmaStep:
    """An HMMA of a product.

    Attributes:
        set: 1 to 4. step: from 0 on. name: of the machine instruction.
        k: first and last of its elements of k.
        a: first and last row that it takes: of group X of an octet, or of the warp.
        a_second: of group X + 4; None on Turing.
        b: first and last column, of the octet or of the warp.
        owner: which group of an octet holds that part of B; empty on Turing.
        cycle: cycles from the first HMMA to its end; None where they are not repeated here.
        bits: that a warp reads of A, of B and of C.
    """

    set: int
    step: int
    name: str
    k: tuple[int, int]
    a: tuple[int, int]
    a_second: tuple[int, int] | None
    b: tuple[int, int]
    owner: str
    cycle: int | None
    bits: tuple[int, int, int]


def steps(arch: str, sums: str = "f32", shape: str = "m16n16k16") -> tuple[HmmaStep, ...]:
    """The HMMAs of a product of f16, in order.

    Args:
        arch: of `ARCHS`. sums: of `SUMS`. shape: of `SHAPES`.

    Raises:
        InputError: no steps of that are published.
    """
    if arch not in ARCHS:
        raise InputError(f"expected an architecture of {', '.join(ARCHS)}, got {arch!r}")
    if sums not in SUMS:
        raise InputError(f"expected sums of {', '.join(SUMS)}, got {sums!r}")
    if shape not in SHAPES[arch]:
        raise InputError(f"the steps of {shape} on {arch} are not published", hint=f"known: {', '.join(SHAPES[arch])}")
    whole = _volta(sums) if arch == "volta" else _turing(sums)
    return whole if shape == "m16n16k16" else tuple(each for each in whole if each.set == 1)


def spanned(ends: tuple[int, int]) -> str:
    """First and last number as the paper writes them: ``0:3``."""
    return f"{ends[0]}:{ends[1]}"


def _volta(sums: str) -> tuple[HmmaStep, ...]:
    count = 4 if sums == "f32" else 2
    rows = 2 if sums == "f32" else GROUP  # f16 takes all four rows of a group at once
    width = 32 if sums == "f32" else 16
    found: list[HmmaStep] = []
    for number, cycle in enumerate(CYCLES[sums]):
        part, step = divmod(number, count)
        first = step * rows % GROUP
        half = step * rows // GROUP
        found.append(
            HmmaStep(
                set=part + 1,
                step=step,
                name=f"HMMA.884.{sums.upper()}.{sums.upper()}.STEP{step}",
                k=(GROUP * part, GROUP * part + GROUP - 1),
                a=(first, first + rows - 1),
                a_second=(first + GROUP, first + GROUP + rows - 1),
                b=(GROUP * half, GROUP * half + GROUP - 1),
                owner=("X", "X+4")[half],
                cycle=cycle,
                bits=(
                    2 * OCTETS * rows * GROUP * 16,
                    OCTETS * GROUP * GROUP * 16,
                    2 * OCTETS * rows * GROUP * width,
                ),
            )
        )
    return tuple(found)


def _turing(sums: str) -> tuple[HmmaStep, ...]:
    width = 32 if sums == "f32" else 16
    return tuple(
        HmmaStep(
            set=number + 1,
            step=0,
            name=f"HMMA.1688.{sums.upper()}",
            k=(number // 2 * 8, number // 2 * 8 + 7),
            a=(0, 15),
            a_second=None,
            b=(number % 2 * 8, number % 2 * 8 + 7),
            owner="",
            cycle=None,
            bits=(16 * 8 * 16, 8 * 8 * 16, 16 * 8 * width),
        )
        for number in range(SETS)
    )


def fragments(arch: str, sums: str = "f32") -> Atom:
    """Registers of wmma m16n16k16 with A by rows and B by columns.

    On Volta threads 4 g to 4 g + 3 are group g: bit 0 of g says which half of the rows of A, bit 1 which half of the
    columns of B, bit 2 which four of these. So groups X and X + 4 are an octet.
    """
    if arch == "turing":
        return replace(wmma(16, 16, 16, "f16"), source="ptxas 12.9 for sm_75")
    steps(arch, sums)
    rows = (Mode(GROUP, row=1), Mode(2, row=8), Mode(2), Mode(2, row=GROUP))
    columns = (Mode(GROUP, row=1), Mode(2), Mode(2, row=8), Mode(2, row=GROUP))
    quads = (Mode(2, row=8), Mode(2, column=8), Mode(2, row=GROUP))
    held = [
        Held(name=name, what=what, rows=16, columns=16, bits=16, threads=threads, values=(Mode(16, column=1),))
        for name, what, threads in (
            ("A", "rows m, columns k: both threads that hold an element, and value", rows),
            ("B", "rows n, columns k: both threads that hold an element, and value", columns),
        )
    ]
    if sums == "f32":
        threads = (Mode(2, row=1), Mode(2, column=2), *quads)
        values = (Mode(2, column=1), Mode(2, row=2), Mode(2, column=4))
    else:
        threads = (Mode(GROUP, row=1), *quads)
        values = (Mode(8, column=1),)
    what = "rows m, columns n: thread and value"
    bits = 32 if sums == "f32" else 16
    held.append(Held(name="D", what=what, rows=16, columns=16, bits=bits, threads=threads, values=values))
    return Atom(
        name="wmma.m16n16k16.f16",
        title=f"wmma.mma.sync.aligned.row.col.m16n16k16.{sums}.{sums} on Volta",
        held=tuple(held),
        source=f"{PAPER}, Fig. 7 and Table II; PTX ISA 9.7.14.5.1 (D)",
    )
