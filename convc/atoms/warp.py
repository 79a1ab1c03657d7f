"""Matrices in the registers of a warp: mma.sync, mma.sp, wmma, ldmatrix, stmatrix and movmatrix.

Thread t is (group, thread) = (t / 4, t % 4) in all but m8n8k4 of f16. Three formulas are enough (PTX manual, 9.7.14.5,
"Matrix Fragments for mma.m16n8k..."): a register has ``parts`` elements of a row side by side, the four threads of a
group have neighbouring registers, groups have rows; the next register lies 8 rows below, then one ``chunk`` of k on.
The manual leaves fragments of wmma open; those of sm_75 and later are tiles of mma.sync (see `wmma`).
"""

from __future__ import annotations

from dataclasses import replace

from convc.atoms import shared
from convc.atoms.held import Atom, Held, Mode
from convc.errors import InputError

FRAGMENTS = "PTX ISA 9.7.14.5, Matrix Fragments for mma"
BITS = {
    "f64": 64, "tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1,
}  # fmt: skip
"""Bits of an operand's element in a register."""

ASYNCHRONOUS = tuple(name for name, bits in BITS.items() if 8 <= bits <= 32)
"""Types of wgmma and tcgen05.mma."""

INTEGERS = ("s8", "u8", "s4", "u4", "b1")
AXES = {"A": "m", "B": "n"}
"""What the rows of an operand are."""


def sum_bits(element: str) -> int:
    """Bits of an accumulator that the widest sum of a type has."""
    return 64 if element == "f64" else 32


def chunk(element: str) -> int:
    """Elements of k that a row of four threads has in one register each."""
    return 4 * max(1, 32 // BITS[element])


def left(name: str, rows: int, depth: int, bits: int, warps: int = 1) -> Held:
    """A (rows x depth): tiles of 16 rows, or one of 8; each of ``warps`` warps has the next rows."""
    parts = max(1, 32 // bits)
    own = rows // warps
    return Held(
        name=name,
        what=f"rows {AXES[name]}, columns k: thread and value",
        rows=rows,
        columns=depth,
        bits=bits,
        threads=(Mode(4, column=parts), Mode(8, row=1), Mode(warps, row=own)),
        values=(
            Mode(parts, column=1),
            Mode(1 if own == 8 else 2, row=8),
            Mode(depth // (4 * parts), column=4 * parts),
            Mode(max(1, own // 16), row=16),
        ),
    )


def right(name: str, columns: int, depth: int, bits: int) -> Held:
    """B as (columns x depth): tiles of 8 columns."""
    parts = max(1, 32 // bits)
    return Held(
        name=name,
        what=f"rows {AXES[name]}, columns k: thread and value",
        rows=columns,
        columns=depth,
        bits=bits,
        threads=(Mode(4, column=parts), Mode(8, row=1)),
        values=(Mode(parts, column=1), Mode(depth // (4 * parts), column=4 * parts), Mode(columns // 8, row=8)),
    )


def total(name: str, rows: int, columns: int, bits: int, warps: int = 1) -> Held:
    """C and D (rows x columns): tiles of 16 rows, or one of 8, and of 8 columns."""
    own = rows // warps
    return Held(
        name=name,
        what="rows m, columns n: thread and value",
        rows=rows,
        columns=columns,
        bits=bits,
        threads=(Mode(4, column=2), Mode(8, row=1), Mode(warps, row=own)),
        values=(
            Mode(2, column=1),
            Mode(1 if own == 8 else 2, row=8),
            Mode(columns // 8, column=8),
            Mode(max(1, own // 16), row=16),
        ),
    )


def mma(m: int, k: int, element: str) -> Atom:
    """mma.sync of m x 8 x k (9.7.14.5.14)."""
    bits = BITS[element]
    return Atom(
        name=f"mma.m{m}n8k{k}.{element}",
        title=f"mma.sync.aligned.m{m}n8k{k}.row.col of {element}",
        held=(left("A", m, k, bits), right("B", 8, k, bits), total("D", m, 8, sum_bits(element))),
        source=FRAGMENTS,
    )


def sparse(k: int, element: str, selector: int = 0) -> Atom:
    """mma.sp of 16 x 8 x k: of A half is stored, and metadata say which (9.7.14.6, "Sparse matrix storage").

    A thread has four bits for each of eight chunks of A, a chunk being four elements (of 4 bits eight, of tf32 two).
    Of the four threads that share a row as many are asked as it has chunks for; the selector says which.
    """
    bits = BITS[element]
    width = {4: 8, 32: 2}.get(bits, 4)
    return Atom(
        name=f"mma.sp.m16n8k{k}.{element}",
        title=f"mma.sp.sync.aligned.m16n8k{k}.row.col of {element}, selector {selector}",
        held=(
            left("A", 16, k // 2, bits),
            right("B", 8, k, bits),
            total("D", 16, 8, 32),
            _metadata(k // width, bits, selector),
        ),
        source="PTX ISA 9.7.14.6, Matrix Fragments for sparse mma, Sparse matrix storage",
    )


def _metadata(chunks: int, bits: int, selector: int) -> Held:
    """Which four bits of which thread are about a chunk of a row of A."""
    group = Mode(8, row=1)
    if chunks == 4:
        threads = (Mode(4, only=selector), group)
        values = (Mode(4, column=1), Mode(2, row=8))
    elif chunks == 8 and bits >= 16:
        threads = (Mode(2, column=4), Mode(2, only=selector), group)
        values = (Mode(4, column=1), Mode(2, row=8))
    elif chunks == 8:
        threads = (Mode(2, row=8), Mode(2, only=selector), group)
        values = (Mode(8, column=1),)
    else:
        threads = (Mode(2, row=8), Mode(2, column=8), group)
        values = (Mode(8, column=1),)
    return Held(
        name="E",
        what="metadata: rows m, columns chunks of k: thread and which four bits of its register",
        rows=16,
        columns=chunks,
        bits=4,
        threads=threads,
        values=values,
    )


QUAD = (Mode(4), Mode(4), Mode(2))
"""Digits of a thread of m8n8k4 of f16: of the four that have rows side by side, of the product, of the half."""


def quads(a: str, b: str, d_type: str) -> Atom:
    """m8n8k4 of f16: four products at once, one for each quad pair (9.7.14.5.1), drawn side by side.

    Threads 4 q to 4 q + 3 and those 16 further on make product q, as an octet of Volta does.
    """
    return Atom(
        name=f"mma.m8n8k4.f16.{a}.{b}.{d_type}",
        title=f"mma.sync.aligned.m8n8k4.{a}.{b}.{d_type}.f16.f16.{d_type}: four products side by side",
        held=(
            _quad_operand("A", a == "row"),
            _quad_operand("B", b == "col"),
            _quad_sums() if d_type == "f32" else _quad_rows("D", "rows m, columns n: thread and value", 8),
        ),
        source="PTX ISA 9.7.14.5.1, Matrix Fragments for mma.m8n8k4 with .f16 floating point type",
    )


def _quad_rows(name: str, what: str, columns: int) -> Held:
    """A thread has a row."""
    return Held(
        name=name,
        what=what,
        rows=8,
        columns=4 * columns,
        bits=16,
        threads=(Mode(4, row=1), Mode(4, column=columns), Mode(2, row=4)),
        values=(Mode(columns, column=1),),
    )


def _quad_operand(name: str, by_rows: bool) -> Held:
    """A, or B as (n x k): a thread has a row, or four rows of one column."""
    what = f"rows {'m' if name == 'A' else 'n'}, columns k, of each product: thread and value"
    if by_rows:
        return _quad_rows(name, what, 4)
    threads = (Mode(4, column=1), Mode(4, column=4), Mode(2, row=4))
    return Held(name=name, what=what, rows=8, columns=16, bits=16, threads=threads, values=(Mode(4, row=1),))


def _quad_sums() -> Held:
    """Accumulators of f32."""
    return Held(
        name="D",
        what="rows m, columns n, of each product: thread and value",
        rows=8,
        columns=32,
        bits=32,
        threads=(Mode(2, row=1), Mode(2, column=2), Mode(4, column=8), Mode(2, row=4)),
        values=(Mode(2, column=1), Mode(2, row=2), Mode(2, column=4)),
    )


def wmma(m: int, n: int, k: int, element: str) -> Atom:
    """wmma of m x n x k: tiles of mma.sync, those of m8n32k16 with all matrices transposed.

    The manual leaves fragments open (9.7.14.4.1); these were recorded on an H100, and ptxas makes the same for sm_100a.
    """
    bits = BITS[element]
    if m < n:
        a = right("A", m, k, bits)
        b = left("B", n, k, bits)
        d = _transposed(total("D", n, m, sum_bits(element)))
    else:
        a = left("A", m, k, bits)
        b = right("B", n, k, bits)
        d = total("D", m, n, sum_bits(element))
    return Atom(
        name=f"wmma.m{m}n{n}k{k}.{element}",
        title=f"wmma.mma.sync.aligned.m{m}n{n}k{k} of {element}",
        held=(a, b, d),
        source="recorded on an H100; PTX ISA 9.7.14.4.1 leaves it open",
    )


def _transposed(held: Held) -> Held:
    """The matrix with rows and columns exchanged, in the same registers."""

    def turned(modes: tuple[Mode, ...]) -> tuple[Mode, ...]:
        return tuple(Mode(mode.extent, mode.column, mode.row) for mode in modes)

    return replace(held, rows=held.columns, columns=held.rows, threads=turned(held.threads), values=turned(held.values))


ROWS = 64
WARPS = 4
WIDEST = 256


def wgmma(n: int, element: str, *, a_shared: bool = False, mn_major: bool = False, swizzle: str = "128B") -> Atom:
    """wgmma of 64 x n and 32 bytes of k.

    Args:
        n: columns of D, a multiple of 8 up to 256.
        element: of `convc.atoms.warp.ASYNCHRONOUS`.
        a_shared: A comes from shared memory, K-major.
        mn_major: B is MN-major (16-bit types).
        swizzle: of what lies in shared memory.

    Raises:
        InputError: sm_90a has no such instruction, or an operand does not fit its swizzle.
    """
    if n % 8 or not 0 < n <= WIDEST:
        raise InputError(f"expected N of wgmma as a multiple of 8 from 8 to {WIDEST}, got {n}")
    if element in ("s8", "u8") and n not in (8, 16, 24, *range(32, WIDEST + 1, 16)):
        raise InputError(f"there is no wgmma of {element} with N={n}", hint="N is 8, 16, 24, 32, 48, ... 256")
    bits = BITS[element]
    if mn_major and bits != 16:
        raise InputError(f"B of {element} cannot be MN-major: operands of wgmma may be so with elements of 16 bits")
    k = 8 * shared.DEPTH // bits
    a = shared.operand("A", ROWS, bits, swizzle=swizzle) if a_shared else left("A", ROWS, k, bits, WARPS)
    said = ((".ss", a_shared), (".mn", mn_major), (f".{swizzle}", swizzle != "128B"))
    tail = "".join(word for word, given in said if given)
    return Atom(
        name=f"wgmma.m64n{n}k{k}.{element}{tail}",
        title=f"wgmma.mma_async.sync.aligned.m64n{n}k{k} of {element}",
        held=(
            a,
            shared.operand("B", n, bits, swizzle=swizzle, mn_major=mn_major),
            total("D", ROWS, n, 32, WARPS),
        ),
        source="PTX ISA 9.7.15.5.1, Register Fragments for wgmma.mma_async, Shared Memory Matrix Layout",
    )
