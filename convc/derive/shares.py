"""The elements of a tile, dealt out behind its mainloop: to threads, to chunks of columns, to slabs, to copies.

An accumulator is carried away some columns at a time, by threads that have a row of it, or pieces of one. Scale factors
of blocks of channels come in rows of their own. Each map says which element of the tile an iteration, or a thread, is
about; its theorem, that each element has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sympy import Expr, Integer

from convc.derive import symbols as z
from convc.derive.kernels import Map
from convc.derive.symbols import FloorDiv, Mod, axes, size, sizes
from convc.derive.theorem import Theorem, below, proved

CHUNK = size("CHUNK")
"""Columns of a chunk, those of a thread where two share a row."""
HALVES = size("HALVES")
"""Threads that share a row of the accumulator."""
SLAB = size("SLAB")
"""Columns of a slab, which a copy takes."""
PIECE_BYTES = size("PIECE_BYTES")
"""Bytes of a slab's part that one of several copies brings."""
GROUP_ROWS = size("GROUP_ROWS")
"""Rows whose scale factors lie side by side."""
PER = size("PER")
"""What a scale factor is for, in the unit of channels."""
FACTORS, COPIES = sizes("FACTORS COPIES")
"""Scale factors of a row in a step of the mainloop, and steps whose factors come in one copy."""
FACTOR_PITCH = size("FACTOR_PITCH")
"""Scale factors of a pixel in a group of channels."""

CHUNK_, HALF, SLAB_, WARP = axes("chunk half slab warp")
COLUMN, THREAD, I_ = axes("column thread i")
PACK_C, K_STEP, OFFSET = axes("pack_c k_step offset")

THREADS = 32
ROWS = 16
"""Rows of a warp's part of an accumulator of ``wgmma`` (PTX manual, "wgmma.mma_async", fragment of D)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A map that kernels of several forms have, with the theorems that say what it is."""

    map: Map
    theorems: tuple[Theorem, ...]


def shares() -> Iterator[tuple[str, Share]]:
    """Every share, by its name."""
    yield "chunk", _chunks()
    yield "word of a mask", _mask_words()
    yield "pair of chunks", _halves()
    yield "column of a chunk", _inside()
    yield "slab", _slabs()
    yield "window of a slab", _windows()
    yield "row of a wgmma thread", _fragment()
    yield "row of a group", _grouped()
    yield "scale factors", _factors()
    yield "place of an element", _bytes()


def _mask_words() -> Share:
    """The bit of a lane in the words of its tile's mask (PTX manual, tcgen05.mma, disable-output-lane)."""
    word = FloorDiv(z.lane, THREADS)
    bit = Mod(z.lane, THREADS)
    once = proved("a lane is one bit of one word of a mask", [(word * THREADS + bit, z.lane)])
    return Share(map=Map(axes=(z.lane,), results={"word": word, "bit": bit}), theorems=(once,))


def _chunks() -> Share:
    column = CHUNK_ * CHUNK
    at = column + I_
    theorem = proved(
        "a column is one of one chunk",
        [(FloorDiv(at, CHUNK), CHUNK_), (Mod(at, CHUNK), I_)],
        [below(I_, CHUNK)],
    )
    return Share(map=Map(axes=(CHUNK_,), results={"column": column}), theorems=(theorem,))


def _halves() -> Share:
    column = CHUNK_ * (HALVES * CHUNK) + HALF * CHUNK
    at = column + I_
    theorem = proved(
        "a column is one of one chunk and of one of the threads of a row",
        [(FloorDiv(at, HALVES * CHUNK), CHUNK_), (Mod(FloorDiv(at, CHUNK), HALVES), HALF), (Mod(at, CHUNK), I_)],
        [below(I_, CHUNK), below(HALF, HALVES)],
    )
    return Share(map=Map(axes=(CHUNK_, HALF), results={"column": column}), theorems=(theorem,))


def _inside() -> Share:
    column = COLUMN + I_
    theorem = proved("column i of a chunk is i behind its first", [(column - COLUMN, I_)])
    return Share(map=Map(axes=(COLUMN, I_), results={"column": column}), theorems=(theorem,))


def _slabs() -> Share:
    first = SLAB_ * SLAB
    at = first + COLUMN
    theorem = proved(
        "a column is one of one slab",
        [(FloorDiv(at, SLAB), SLAB_), (Mod(at, SLAB), COLUMN)],
        [below(COLUMN, SLAB)],
    )
    return Share(map=Map(axes=(SLAB_, COLUMN), results={"first": first, "column": at}), theorems=(theorem,))


def _windows() -> Share:
    byte = z.window * PIECE_BYTES
    at = byte + I_
    theorem = proved(
        "a byte of a slab comes in one of its copies",
        [(FloorDiv(at, PIECE_BYTES), z.window), (Mod(at, PIECE_BYTES), I_)],
        [below(I_, PIECE_BYTES)],
    )
    return Share(map=Map(axes=(z.window,), results={"byte": byte}), theorems=(theorem,))


def _fragment() -> Share:
    """Warp w has rows 16*w to 16*w + 15; four threads of it two rows, eight apart, and two of these one of them."""
    warp = FloorDiv(THREAD, THREADS)
    row = WARP * ROWS + FloorDiv(Mod(THREAD, THREADS), 4) + FloorDiv(Mod(THREAD, 4), 2) * 8
    half = Mod(THREAD, 2)
    says: list[tuple[Expr, Expr]] = []
    for number in range(THREADS):
        quad, inside = divmod(number, 4)
        at = {THREAD: WARP * THREADS + number}
        says += [
            (warp.xreplace(at), WARP),
            (row.xreplace(at), WARP * ROWS + quad + inside // 2 * 8),
            (half.xreplace(at), Integer(inside % 2)),
        ]
    theorem = proved("each thread of a warp has one half of one of its 16 rows, as the manual draws them", says)
    return Share(map=Map(axes=(WARP, THREAD), results={"warp": warp, "row": row, "half": half}), theorems=(theorem,))


def _bytes() -> Share:
    byte = OFFSET * z.ELEMENT
    theorem = proved(
        "a byte of the output is of one element",
        [(FloorDiv(byte + I_, z.ELEMENT), OFFSET), (Mod(byte + I_, z.ELEMENT), I_)],
        [below(I_, z.ELEMENT)],
    )
    return Share(map=Map(axes=(OFFSET,), results={"byte": byte}), theorems=(theorem,))


def _grouped() -> Share:
    row = Mod(THREAD, GROUP_ROWS)
    theorem = proved(
        "threads go through the rows of a group, over and over",
        [(row.xreplace({THREAD: z.group * GROUP_ROWS + I_}), I_)],
        [below(I_, GROUP_ROWS)],
    )
    return Share(map=Map(axes=(THREAD,), results={"row": row}), theorems=(theorem,))


def _factors() -> Share:
    """The factors of channel c are those of its block: a copy brings those of COPIES blocks, FACTORS of each."""
    whole = FACTORS * COPIES
    first = whole * FloorDiv(z.c, whole * PER)
    byte = FACTORS * Mod(Mod(K_STEP, z.BLOCKS), COPIES)
    group = FACTOR_PITCH * FloorDiv(PACK_C, z.C_PITCH)
    begun = z.block * FACTORS * PER
    at = {z.c: begun, K_STEP: z.tap * z.BLOCKS + z.block, PACK_C: z.group * z.C_PITCH + z.c}
    theorem = proved(
        "the factors of a step are those of its channels, and lie in one copy",
        [
            ((first + byte).xreplace(at), z.block * FACTORS),
            (Mod(first.xreplace(at), whole), Integer(0)),
            (group.xreplace(at), z.group * FACTOR_PITCH),
        ],
        [below(z.block, z.BLOCKS), below(z.c, z.C_PITCH)],
    )
    results = {"a": group + first, "b": first, "byte": byte}
    return Share(map=Map(axes=(z.c, PACK_C, K_STEP), results=results), theorems=(theorem,))
