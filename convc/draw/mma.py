"""The layout of a tcgen05.mma: where every element of A, B and D lies, drawn as CuTe draws an MMA.

A stands to the left of D, B above it with k running down, so that a row of A and a column of B meet at their element of
D. A cell of A or B is a byte offset in shared memory, a cell of D the lane and the column of tensor memory. Addresses
are those that the simulator's tensor core reads (`convc.machine.tensor_core.smem_layout`), lanes and columns those that
it writes (`convc.machine.tensor_core.shapes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from convc.draw.cells import Cells
from convc.draw.crossing import crossing
from convc.draw.notation import LANE, shared_notation, tensor_notation
from convc.draw.svg import MARGIN, TINTS, TITLE, Picture, legend, text, titled
from convc.errors import InputError, MachineFault
from convc.machine.tensor_core import formats
from convc.machine.tensor_core.mma import Mma
from convc.machine.tensor_core.shapes import FACTORS, MmaShape, shape_of
from convc.machine.tensor_core.smem_layout import chunk_offsets, element_offsets
from convc.ptx.descriptors import (
    D_OF_KIND,
    SCALE_OF_KIND,
    BlockScaledDescriptor,
    InstructionDescriptor,
    SharedDescriptor,
    decode_shared,
    decode_zero_mask,
    encode_block_scaled,
    encode_instruction,
)

ELEMENTS = {
    "f16": "f16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8", "mxf8f6f4": "e4m3", "mxf4": "e2m1", "mxf4nvf4": "e2m1",
}  # fmt: skip
"""The operand type that stands for a kind; all types of a kind take as many bits here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaLayout:
    """The places of an MMA's elements.

    Attributes:
        shape: the checked instruction.
        operands: how A and B lie, in words.
        a: byte offsets of A in shared memory, int64 (rows, k); of a CTA of a pair, its own half. Where A is in tensor
            memory, columns of it, in the lanes of D.
        b: byte offsets of B, int64 (columns of D, k).
        lanes, columns: of D in tensor memory, int64 (rows, n).
        swizzles: of A and B in shared memory, by name.
        bits: of an element of A and of B.
        a_in_tensor: A comes from tensor memory.
    """

    shape: MmaShape
    operands: str
    a: np.ndarray
    b: np.ndarray
    lanes: np.ndarray
    columns: np.ndarray
    swizzles: tuple[str, str] = ("none", "none")
    bits: tuple[int, int] = (16, 16)
    a_in_tensor: bool = False


def mma_layout(
    kind: str, m: int, n: int, *, k: int | None = None, swizzle: str = "128B", pair: bool = False
) -> MmaLayout:
    """Find where the elements of an MMA lie, with K-major operands that start at a multiple of 1024 bytes.

    Args:
        kind: of the instruction, a key of `ELEMENTS`.
        m, n: of the instruction, of both CTAs of a ``pair`` together.
        k: elements of K that are shown, by default those of one instruction; they fit into a swizzled row.
        swizzle: none, 32B, 64B or 128B.
        pair: cta_group::2.

    Raises:
        InputError: sm_100a has no such instruction, or the operands do not fit.
    """
    if kind not in ELEMENTS:
        raise InputError(f"expected a kind of tcgen05.mma, {', '.join(ELEMENTS)}, got {kind!r}")
    element = ELEMENTS[kind]
    try:
        shape = shape_of(_word(kind, element, m, n), kind, pair, False, False, _scale_size(kind))
    except (ValueError, MachineFault) as problem:
        reason = problem.message.partition(": ")[2] if isinstance(problem, MachineFault) else str(problem)
        hint = problem.hint if isinstance(problem, MachineFault) else ""
        raise InputError(f"there is no tcgen05.mma of kind::{kind} with M={m} and N={n}: {reason}", hint=hint) from None
    shown = shape.k if k is None else k
    bits = formats.BITS[element]
    row = {"none": 16, "32B": 32, "64B": 64, "128B": 128}.get(swizzle)
    if row is None:
        raise InputError(f"expected a swizzle of none, 32B, 64B or 128B for K-major operands, got {swizzle!r}")
    widest = 8 * 128 // bits if row == 16 else 8 * row // bits
    if not 0 < shown <= widest or shown % shape.k:
        raise InputError(
            f"expected k as a multiple of {shape.k}, what one instruction takes, up to {widest}, got {shown}",
            hint=f"{widest} elements of {bits} bits are a row of the widest operand tile with swizzle {swizzle}",
        )
    lanes, columns = _accumulator(shape, 0)
    return MmaLayout(
        shape=shape,
        operands=f"operands of {bits} bits, K-major, swizzle {swizzle}",
        a=operand_places(operand_descriptor(shape.rows, swizzle), shape.rows, shown, element, kind),
        b=operand_places(operand_descriptor(shape.b_rows, swizzle), shape.b_rows, shown, element, kind),
        lanes=lanes,
        columns=columns,
        swizzles=(swizzle, swizzle),
        bits=(bits, bits),
    )


def issued_layout(mma: Mma) -> MmaLayout:
    """Find where the elements of an MMA lie that the simulator has seen issued (`convc.draw.issued`).

    A tensor-memory operand is shown in its first bank; columns of B are those that a zero-column mask shifts to.
    """
    shape = mma.shape
    desc = shape.desc
    shift = 0 if mma.zero is None else decode_zero_mask(mma.zero).shift
    b = decode_shared(mma.b)
    lanes, columns = _accumulator(shape, mma.d)
    swizzle = b.swizzle
    words = _described("B", desc.b_type, desc.transpose_b, b)
    if mma.a_in_tensor:
        bits = 8 if formats.packing(shape.kind, desc.a_type, True) == "spread" else formats.BITS[desc.a_type]
        a = np.broadcast_to((mma.a & 0xFFFF) + np.arange(shape.k) * bits // 32, (shape.rows, shape.k))
        words = f"A in tensor memory; {words}"
    else:
        descriptor = decode_shared(mma.a)
        swizzle = descriptor.swizzle
        a = operand_places(descriptor, shape.rows, shape.k, desc.a_type, shape.kind, desc.transpose_a)
        words = f"{_described('A', desc.a_type, desc.transpose_a, descriptor)}; {words}"
    return MmaLayout(
        shape=shape,
        operands=words,
        a=a,
        b=operand_places(b, shape.b_rows + shift, shape.k, desc.b_type, shape.kind, desc.transpose_b)[shift:],
        lanes=lanes,
        columns=columns,
        swizzles=(swizzle, b.swizzle),
        bits=(formats.BITS[desc.a_type], formats.BITS[desc.b_type]),
        a_in_tensor=mma.a_in_tensor,
    )


def _described(name: str, element: str, transposed: bool, descriptor: SharedDescriptor) -> str:
    """An operand in shared memory in words."""
    return f"{name} of {element}, {'MN' if transposed else 'K'}-major, swizzle {descriptor.swizzle}"


def _accumulator(shape: MmaShape, address: int) -> tuple[np.ndarray, np.ndarray]:
    """Lane and column of each element of D at an address of tensor memory, int64 (rows, n) both."""
    column = np.arange(shape.n)
    lane = shape.lanes(address >> 16).reshape(shape.banks, shape.rows)
    columns = (address & 0xFFFF) + column % shape.columns
    return lane[column // shape.columns].T, np.broadcast_to(columns, (shape.rows, shape.n))


def operand_places(
    descriptor: SharedDescriptor, rows: int, k: int, element: str, kind: str, mn_major: bool = False
) -> np.ndarray:
    """Byte offsets of an operand in shared memory, int64 (rows, k).

    Elements of 4 bits share a byte, the even one below. Those of kinds whose units of 16 bytes are padded have 16
    elements in each, from its first byte on (`convc.machine.tensor_core.formats`).
    """
    bits = formats.BITS[element]
    if mn_major:
        return element_offsets(descriptor, rows, k, bits // 8, True)
    count = 16 if formats.packing(kind, element, False) == "padded" else 128 // bits
    units = chunk_offsets(descriptor, rows, 16 * k // count) << 4
    column = np.arange(k)
    return units[:, column // count] + column % count * bits // 8


def operand_descriptor(rows: int, swizzle: str) -> SharedDescriptor:
    """The descriptor of a K-major tile as convc lays it out: eight rows behind each other, then the next eight.

    Without a swizzle a row is 16 bytes, and the next 16 bytes of K of all rows lie behind those.
    """
    span = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    return SharedDescriptor(start=0, lbo=16 * rows if span == 16 else 16, sbo=8 * span, swizzle=swizzle)


def _word(kind: str, element: str, m: int, n: int) -> int:
    """The instruction descriptor."""
    if kind in SCALE_OF_KIND:
        scale = SCALE_OF_KIND[kind][-1]
        return encode_block_scaled(
            BlockScaledDescriptor(kind=kind, a_type=element, b_type=element, scale_type=scale, m=m, n=n)
        )
    d_type = D_OF_KIND[kind][-1]
    return encode_instruction(InstructionDescriptor(kind=kind, d_type=d_type, a_type=element, b_type=element, m=m, n=n))


def _scale_size(kind: str) -> str | None:
    """The most scale factors that a kind may have."""
    sizes = [(count, size) for (name, size), count in FACTORS.items() if name == kind and size]
    return max(sizes)[1] if sizes else None


def cropped(layout: MmaLayout, most: int) -> MmaLayout:
    """The layout with so many rows and columns of D at most: a whole one is a drawing of up to two megabytes."""
    if most >= max(layout.shape.rows, layout.shape.n):
        return layout
    return replace(
        layout,
        operands=f"{layout.operands}; the first {most} rows and columns",
        a=layout.a[:most],
        b=layout.b[:most],
        lanes=layout.lanes[:most, :most],
        columns=layout.columns[:most, :most],
    )


def mma_picture(layout: MmaLayout) -> Picture:
    """Draw A, B and D of an instruction."""
    shape = layout.shape
    a = Cells(name="A", words=_hexadecimal(layout.a), kinds=lambda row, k: _unit(layout.a[row, k]))
    if layout.a_in_tensor:
        rows = zip(layout.lanes[:, 0].tolist(), layout.a.tolist(), strict=True)
        words = [[f"{lane},{column}" for column in columns] for lane, columns in rows]
        a = Cells(name="A", words=words, kinds=lambda row, k: TINTS[int(layout.lanes[row, 0]) // 16 % 8])
    b = Cells(name="B", words=_hexadecimal(layout.b.T), kinds=lambda k, column: _unit(layout.b[column, k]))
    places = zip(layout.lanes.tolist(), layout.columns.tolist(), strict=True)
    d = Cells(
        name="D",
        words=[[f"{lane},{column}" for lane, column in zip(*row, strict=True)] for row in places],
        kinds=lambda row, column: TINTS[int(layout.lanes[row, column]) // 16 % 8],
    )
    split = "one CTA of a pair, " if shape.pair else ""
    of_a = "lane,column of tensor memory" if layout.a_in_tensor else "byte offset"
    headings = (
        f"A: rows m, k across: {of_a}",
        "B: k down, columns n across: byte offset in shared memory, hexadecimal",
        "D: rows m, columns n: lane,column of tensor memory",
    )
    tables = crossing(a, b, d, headings, TITLE + 54)
    parts = [
        text(MARGIN, TITLE + 6, f"{split}{layout.operands}", "soft"),
        *legend(MARGIN, TITLE + 14, [(f"{i}", tint) for i, tint in enumerate(TINTS)]),
        text(MARGIN + 8 * 42, TITLE + 25, "A, B: 16-byte unit of its 128-byte line; D: lane / 16", "soft"),
        *(each.svg() for each in tables),
    ]
    title = f"tcgen05.mma kind::{shape.kind}, M = {shape.m}, N = {shape.n}, K = {layout.a.shape[1]}"
    right = max(each.right for each in tables)
    low = max(each.end for each in tables)
    return titled(title, right + MARGIN, low + MARGIN + 8, parts, list(_notes(layout)))


def _notes(layout: MmaLayout) -> Iterator[str]:
    """The layouts of A, B and D in CuTe's notation, of each that has one."""
    a, b = (
        shared_notation(places, swizzle, bits)
        for places, swizzle, bits in zip((layout.a, layout.b), layout.swizzles, layout.bits, strict=True)
    )
    tensor = f"{LANE} * lane + column of tensor memory"
    of_a = f"row, k -> {tensor if layout.a_in_tensor else 'element of shared memory'}"
    if layout.a_in_tensor:
        a = tensor_notation(layout.lanes[:, :1], layout.a)
    for name, words, found in (
        ("A", of_a, a),
        ("B", "column, k -> element of shared memory", b),
        ("D", f"row, column -> {tensor}", tensor_notation(layout.lanes, layout.columns)),
    ):
        if found:
            yield f"{name}: {words}: {found}"


def _hexadecimal(offsets: np.ndarray) -> list[list[str]]:
    return [[f"{offset:x}" for offset in row] for row in offsets.tolist()]


def _unit(offset: int) -> str:
    """The colour of the 16-byte unit of a 128-byte line: one of each eight is a set of banks."""
    return TINTS[int(offset) // 16 % 8]
