"""Operands of wgmma and tcgen05.mma in shared memory, as tiles that convc and CuTe lay out for their descriptors.

A tile is made of rows of ``span`` bytes, 16 without a swizzle, and of as many as it is wide with one (PTX manual,
"Shared Memory Matrix Layout", canonical layouts):

| major | a row has | rows behind each other | then |
| --- | --- | --- | --- |
| K | span bytes of k | m or n | the next span of k, without a swizzle |
| MN | span bytes of m or n | k | the next span of m or n |

The thread of these layouts is the row of A, or the column of B, the value is k; a place is an element of a line of 128
bytes. The swizzle moves 16-byte chunks inside of lines.
"""

from __future__ import annotations

from convc.atoms.held import LINE, Held, Mode
from convc.errors import InputError

SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128, "128B_atom32": 128}
"""Bytes of a row by swizzle."""

DEPTH = 32
"""Bytes of k that an instruction takes."""


def operand(
    name: str, rows: int, bits: int, *, swizzle: str = "128B", mn_major: bool = False, ctas: int = 1, k: int = 0
) -> Held:
    """The places of an operand; of a pair each CTA has its half, that of the second one below.

    Args:
        name: A or B.
        rows: m or n, of all CTAs together.
        bits: of an element. swizzle: a key of `SPANS`.
        mn_major: rows are neighbours in memory, else k is. ctas: 1 or 2.
        k: elements, by default those of one instruction.

    Raises:
        InputError: the tile does not fit into its rows.
    """
    depth = k or 8 * DEPTH // bits
    span = 8 * SPANS[swizzle] // bits
    own = rows // ctas
    line = 8 * LINE // bits
    step = max(1, line // span)
    if own % 8 or (mn_major and own % span):
        wide = f"{span} elements of {bits} bits, a row of swizzle {swizzle}" if mn_major else "8"
        raise InputError(f"expected the {own} rows of {name} to be a multiple of {wide}")
    along = _across(own, span, step, depth) if mn_major else _down(own, span, step, depth)
    threads, values, lines = along
    axis = "n" if name == "B" else "m"
    cta = ", the second CTA's below" if ctas == 2 else ""
    return Held(
        name=name,
        what=f"lines of {LINE} bytes, {'MN' if mn_major else 'K'}-major, swizzle {swizzle}{cta}: {axis} and k",
        rows=lines * ctas,
        columns=line,
        bits=bits,
        threads=(*threads, Mode(ctas, row=lines)),
        values=values,
        letters=(axis, "k"),
        space="shared",
        swizzle=swizzle,
    )


def check_major(bits: int, swizzle: str, mn_major: bool) -> None:
    """Check that a width, a swizzle and a major go together (PTX manual, tcgen05 matrix descriptors).

    Raises:
        InputError: these do not.
    """
    if mn_major and bits < 8:
        raise InputError(f"operands of {bits} bits cannot be MN-major")
    if (swizzle == "128B_atom32") != (mn_major and bits == 32):
        raise InputError(
            f"operands of {bits} bits that are {'MN' if mn_major else 'K'}-major cannot have swizzle {swizzle}",
            hint="MN-major operands of 32 bits have swizzle 128B_atom32, and no others",
        )


def _down(rows: int, span: int, step: int, depth: int) -> tuple[tuple[Mode, ...], tuple[Mode, ...], int]:
    """K-major: modes of the rows and of k, and how many lines they take."""
    blocks = -(-depth // span)
    lines = -(-rows // step)
    threads = (Mode(step, column=span), Mode(lines, row=1))
    values = (Mode(min(depth, span), column=1), Mode(blocks, row=lines))
    return threads, values, lines * blocks


def _across(rows: int, span: int, step: int, depth: int) -> tuple[tuple[Mode, ...], tuple[Mode, ...], int]:
    """MN-major: the same."""
    block = depth // step
    threads = (Mode(span, column=1), Mode(rows // span, row=block))
    values = (Mode(step, column=span), Mode(block, row=1))
    return threads, values, block * (rows // span)
