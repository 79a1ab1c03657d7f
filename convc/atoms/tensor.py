"""Tensor memory: the registers of tcgen05.ld and st, copies of tcgen05.cp, and D, A and scale factors of tcgen05.mma.

| what | source |
| --- | --- |
| tcgen05.ld, tcgen05.st | PTX manual, 9.7.16.2.3, "Data movement shapes" |
| tcgen05.cp | 9.7.16.9.2: a row of the source goes to one or more lanes |
| D, and A in tensor memory | 9.7.16.10.5, "Data path layout organization", layouts A to G |
| scale factors | 9.7.16.10.7, "Block scaling": row r is in lane r % 32 of each sub-partition, 32 rows a column |

Lanes from 128 on are those of the second CTA of a pair.
"""

from __future__ import annotations

from dataclasses import replace

from convc.atoms import shared
from convc.atoms.held import Atom, Held, Mode
from convc.atoms.warp import ASYNCHRONOUS, BITS
from convc.errors import InputError

LANES = 128
QUARTER = 32
"""Lanes that a warp reaches."""

PER_NUMBER = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
"""Registers of a thread under .x1."""

MOST = 128
"""Registers of a thread."""

COPIES = ("128x256b", "4x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4")
UNPACKED = {"b4x16_p64": 4, "b6x16_p32": 6}
"""Formats that a copy unpacks to bytes: bits of an element, of which 16 begin each 16 bytes of the source."""

PADDED = {"e2m1": 4, "e2m3": 6, "e3m2": 6}
"""Bits of the types that kind::f8f6f4 pads to 8: in shared memory 16 elements begin each 16 bytes, and in tensor memory
each has a byte (PTX manual, tcgen05 data types and packing formats)."""

KINDS = {
    **{name: BITS[name] for name in ASYNCHRONOUS}, **dict.fromkeys(PADDED, 8), "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4,
}  # fmt: skip
"""Bits of a place of A and B; a block-scaled kind stands for its operands of e4m3 or e2m1."""

FACTORS = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}
"""Scale factors of a row along k, the most that the kind has."""


def moved(shape: str, number: int, *, packed: bool = False, split: int = 0, verb: str = "ld") -> Atom:
    """tcgen05.ld or tcgen05.st of one warp.

    Args:
        shape: a key of `PER_NUMBER`. number: its .xN.
        packed: .pack::16b or .unpack::16b: a register has the lower halves of two columns.
        split: of 16x32bx2, columns between its halves; by default those that a half takes.
        verb: ld or st.

    Raises:
        InputError: there is no such move.
    """
    if shape not in PER_NUMBER:
        raise InputError(f"expected a shape of {', '.join(PER_NUMBER)}, got {shape!r}")
    count = PER_NUMBER[shape] * number
    if number < 1 or count > MOST or number & (number - 1):
        known = [f"x{1 << i}" for i in range(8) if PER_NUMBER[shape] << i <= MOST]
        raise InputError(f"expected a number of {', '.join(known)} for {shape}, got 'x{number}'")
    side = 2 if packed else 1
    split = split or count * side
    threads, registers = _digits(shape, count, side, split)
    word = f".{'pack' if verb == 'ld' else 'unpack'}::16b" if packed else ""
    first = (Mode(side, column=1),) if packed else ()
    half = f", {split}" if shape == "16x32bx2" else ""
    return Atom(
        name=f"tcgen05.{verb}.{shape}.x{number}{word}",
        title=f"tcgen05.{verb}.sync.aligned.{shape}.x{number}{word}.b32{half}",
        held=(
            Held(
                name="tensor memory",
                what="lanes, columns of 32 bits: thread and " + ("half of a register" if packed else "register"),
                rows=QUARTER if shape == "32x32b" else QUARTER // 2,
                columns=1 + sum((mode.extent - 1) * mode.column for mode in (*threads, *first, *registers)),
                bits=32,
                threads=threads,
                values=(*first, *registers),
                letters=("T", "h" if packed else "r"),
                space="tensor",
            ),
        ),
        source="PTX ISA 9.7.16.2.3, Data movement shapes",
    )


def _digits(shape: str, count: int, side: int, split: int) -> tuple[tuple[Mode, ...], tuple[Mode, ...]]:
    """Modes of a thread and of its registers; a register takes ``side`` columns."""
    group = Mode(8, row=1)
    match shape:
        case "32x32b":
            return (Mode(32, row=1),), (Mode(count, column=side),)
        case "16x64b":
            return (Mode(2, row=8), Mode(2, column=side), group), (Mode(count, column=2 * side),)
        case "16x128b":
            return (Mode(4, column=side), group), (Mode(2, row=8), Mode(count // 2, column=4 * side))
        case "16x256b":
            registers = (Mode(2, column=side), Mode(2, row=8), Mode(count // 4, column=8 * side))
            return (Mode(4, column=2 * side), group), registers
        case _:
            return (Mode(16, row=1), Mode(2, column=split)), (Mode(count, column=side),)


def copied(shape: str, unpacked: str = "") -> Atom:
    """tcgen05.cp: rows of 32-bit words in shared memory, and the lanes and columns that they go to.

    Args:
        shape: of `COPIES`.
        unpacked: a key of `UNPACKED`, whose elements go to a byte each, or nothing.
    """
    size, _, multicast = shape.partition(".")
    rows, width = (int(part) for part in size.removesuffix("b").split("x"))
    bits = 8 if unpacked else 32
    what = "lanes, columns of 32 bits: row of the source and word of it"
    if unpacked:
        what = f"lanes, bytes of tensor memory: row of the source and element of {UNPACKED[unpacked]} bits of it"
    words = Mode(width // bits, column=1)
    row = (Mode(rows, row=32 if rows == 4 else 1),)
    copies = Mode(128 // rows if multicast else 1, row=rows, copy=True)
    if multicast == "warpx2::01_23":
        row = (Mode(32, row=1), Mode(2, row=64))
        copies = Mode(2, row=32, copy=True)
    tail = f".b8x16.{unpacked}" if unpacked else ""
    return Atom(
        name=f"tcgen05.cp.{shape}{tail}",
        title=f"tcgen05.cp.cta_group::1.{shape}{tail}",
        held=(
            Held(
                name="tensor memory",
                what=what,
                rows=LANES,
                columns=width // bits,
                bits=bits,
                threads=row,
                values=(words, copies),
                letters=("row ", "e" if unpacked else "w"),
                space="tensor",
            ),
        ),
        source="PTX ISA 9.7.16.9.2, tcgen05.cp",
    )


def rows_of_d(m: int, ctas: int, ws: bool) -> tuple[tuple[Mode, ...], int]:
    """Modes of the rows of D, of both CTAs of a pair, and in how many banks of lanes its columns lie.

    | layout | case | rows of a CTA | banks |
    | --- | --- | --- | --- |
    | A | M = 256, pair | 128 | 1 |
    | B | M = 128, pair | 64 | 2 |
    | D | M = 128 | 128 | 1 |
    | E | M = 64, .ws | 64 | 2 |
    | F | M = 64 | 64, in 16 of every 32 lanes | 1 |
    | G | M = 32, .ws | 32 | 4 |
    """
    own = m // ctas
    pair = Mode(ctas, row=LANES)
    if own == 64 and ctas == 1 and not ws:
        return (Mode(16, row=1), Mode(4, row=32)), 1
    return (Mode(own, row=1), pair), LANES // own


def mma(
    m: int,
    n: int,
    kind: str,
    *,
    ctas: int = 1,
    ws: bool = False,
    a_tensor: bool = False,
    mn_major: bool = False,
    swizzle: str = "128B",
) -> Atom:
    """tcgen05.mma: D in tensor memory, operands, and scale factors where the kind has them.

    Args:
        m, n: of the instruction, of both CTAs of a pair. kind: a key of `KINDS`, an element or a block-scaled kind.
        ctas: 2 for cta_group::2. ws: tcgen05.mma.ws.
        a_tensor: A comes from tensor memory. mn_major: A and B in shared memory are MN-major.
        swizzle: of what lies in shared memory.

    Raises:
        InputError: sm_100a has no such instruction, or an operand does not fit its swizzle.
    """
    _check(m, n, kind, ctas, ws)
    bits = KINDS[kind]
    shared.check_major(PADDED.get(kind, bits), swizzle, mn_major)
    k = 8 * shared.DEPTH // bits
    rows, banks = rows_of_d(m, ctas, ws)
    a = (
        _a_in_tensor(rows, banks, k, bits, ctas)
        if a_tensor
        else shared.operand("A", m, bits, swizzle=swizzle, mn_major=mn_major, ctas=ctas)
    )
    b = shared.operand("B", n, bits, swizzle=swizzle, mn_major=mn_major, ctas=ctas)
    held = [*(_padded(each, kind) if kind in PADDED else each for each in (a, b)), _sums(rows, banks, n, ctas)]
    if kind in FACTORS:
        held += [_scales("SFA", m, kind, ctas, False), _scales("SFB", n, kind, ctas, ctas == 2 and m == LANES)]
    said = ((".2cta", ctas == 2), (".ws", ws), (".ts", a_tensor), (".mn", mn_major), (f".{swizzle}", swizzle != "128B"))
    tail = "".join(word for word, given in said if given)
    return Atom(
        name=f"tcgen05.mma.m{m}n{n}.{kind}{tail}",
        title=f"tcgen05.mma{'.ws' if ws else ''}.cta_group::{ctas} of {kind}, M = {m}, N = {n}, K = {k}",
        held=tuple(held),
        source="PTX ISA 9.7.16.10.5, Data path layout organization; Shared Memory Matrix Layout"
        + ("; Block scaling" if kind in FACTORS else ""),
    )


def _check(m: int, n: int, kind: str, ctas: int, ws: bool) -> None:
    """M and N of the instruction (PTX manual, table of tcgen05.mma shapes)."""
    integers = kind in ("s8", "u8")
    ms = (128, 256) if ctas == 2 else (64, 128)
    step = 8 * ctas * (2 if integers else 1)
    ns = tuple(range(step, 257, step))
    if integers and ctas == 1:
        ns = (8, 16, 24, *ns[1:])
    if ws:
        ms = (32, 64, 128)
        ns = (64, 128, 256)
    if kind in FACTORS:
        ms = (128, 256) if ctas == 2 else (128,)
        ns = tuple(each for each in ns if each < QUARTER or each % QUARTER == 0)
    if ws and (ctas == 2 or kind in FACTORS):
        raise InputError("tcgen05.mma.ws has neither pairs of CTAs nor scale factors here")
    if m not in ms or n not in ns:
        shown = ", ".join(map(str, ns)) if len(ns) < 6 else f"{ns[0]}, {ns[1]}, ... {ns[-1]}"
        form = "tcgen05.mma.ws" if ws else f"cta_group::{ctas}"
        raise InputError(
            f"there is no {form} of {kind} with M={m} and N={n}",
            hint=f"M is {' or '.join(map(str, ms))}; N is one of {shown}",
        )


def _sums(rows: tuple[Mode, ...], banks: int, n: int, ctas: int) -> Held:
    """D: column j of bank b lies at column j % (n / banks), 128 / banks lanes further on for each bank."""
    return Held(
        name="D",
        what="lanes, columns of tensor memory: row m and column n",
        rows=LANES * ctas,
        columns=n // banks,
        bits=32,
        threads=rows,
        values=(Mode(n // banks, column=1), Mode(banks, row=LANES // banks)),
        letters=("m", "n"),
        space="tensor",
    )


def _a_in_tensor(rows: tuple[Mode, ...], banks: int, k: int, bits: int, ctas: int) -> Held:
    """A: the lanes of D, a copy for every bank."""
    return Held(
        name="A",
        what=f"lanes of tensor memory, elements of {bits} bits: row m and k, a copy for each bank of D",
        rows=LANES * ctas,
        columns=k,
        bits=bits,
        threads=rows,
        values=(Mode(k, column=1), Mode(banks, row=LANES // banks, copy=True)),
        letters=("m", "k"),
        space="tensor",
    )


def _padded(held: Held, kind: str) -> Held:
    """An operand of less than 8 bits: what a place has."""
    where = "a byte each" if held.space == "tensor" else "16 of them first in each 16 bytes"
    return replace(held, what=f"{held.what}; elements of {PADDED[kind]} bits, {where}")


def _scales(name: str, rows: int, kind: str, ctas: int, split: bool) -> Held:
    """Scale factors: bytes of a cell; of a pair each CTA has those of its rows of A, and all of B.

    Args:
        name: SFA or SFB. rows: of both CTAs. kind: of the instruction. ctas: 1 or 2.
        split: the halves of B's lie in the two halves of the lanes (M = 128 of a pair).
    """
    count = FACTORS[kind]
    own = rows // ctas if name == "SFA" else rows
    halves = 2 if split else 1
    high = min(QUARTER, own // halves)
    blocks = own // halves // high
    threads = [Mode(high, row=1), Mode(blocks, column=4), Mode(halves, row=LANES // 2)]
    values = [Mode(count, column=1), Mode(4 // halves, row=QUARTER, copy=True)]
    across = Mode(ctas, row=LANES, copy=name == "SFB")
    (threads if name == "SFA" else values).append(across)
    axis = "m" if name == "SFA" else "n"
    return Held(
        name=name,
        what=f"lanes, bytes of tensor memory: row {axis} and scale factor, a copy for each sub-partition",
        rows=LANES * ctas,
        columns=4 * blocks,
        bits=8,
        threads=tuple(threads),
        values=tuple(values),
        letters=(axis, "f"),
        space="tensor",
    )
