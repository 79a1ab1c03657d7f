"""Products of wgmma: operands fetched by the descriptors of sm_90a, and D = A B^T + C for many CTAs at once.

D has 64 rows, 16 of each warp, and N columns; a thread holds of the rows ``lane / 4`` and 8 more of its warp, and of
every 8 columns the two from ``2 * (lane % 4)`` on (PTX manual, "Register Fragments for wgmma.mma_async.m64nNk16",
matrix D). The columns of a product are kept in another order here, those of one ``lane % 4`` together: then all that
a thread has of a row lies side by side, and a register of all threads is a view of the product, see `column_order`.

| kind | sum of an instruction, and numerics=exact |
| --- | --- |
| f16, bf16, tf32 to f32 | float32 products; exact: one truncated sum of 25 fractional bits (`numerics`) |
| e4m3, e5m2 to f32 | the same; exact: 13 fractional bits, and a result of 13 mantissa bits |
| to f16 | a sum of float32, rounded after every instruction; exact: as above, rounded to nearest even |
| integers | exact, then wrapped, or clamped after every instruction |

Sources: PTX manual, "Asynchronous Warpgroup Level Matrix Instructions"; the truncated sums: microsoft/MMA-Sim (arXiv
2511.10909) and Khattak and Mikaitis (arXiv 2512.07004).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.findings import FindingSink, Who
from convc.machine.memory.global_memory import CHUNK
from convc.machine.memory.shared_memory import SharedMemory
from convc.machine.tensor_core import fetch, formats, numerics
from convc.machine.tensor_core.fetch import SPAN
from convc.machine.tensor_core.footprints import Operand
from convc.machine.tensor_core.smem_layout import chunk_offsets, element_offsets
from convc.ptx import Instr
from convc.ptx.descriptors import decode_warpgroup

ROWS = 64
"""Rows of A and D."""

QUARTER = 16
"""Rows that one warp has of them."""

FRACTION_8 = 13
"""Fractional bits of the aligned terms of eight-bit floats, and mantissa bits of their f32 result, on sm_90."""

INTEGER_RUN = 8
"""Most instructions of integers in one product: 256 products of 16 bits stay exact in float32."""

Select = slice | np.ndarray
"""Some CTAs of a cohort: a slice, or an array of their rows."""

Fetch = Callable[[Select], np.ndarray]
"""Reads an operand of the selected CTAs as float32 (ctas, or 1 where all hold the same; rows; k)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpgroupShape:
    """A wgmma: what its modifiers and immediates say.

    Attributes:
        n, k: columns of B, and depth.
        a_type, b_type, d_type: elements; d_type is f32, f16 or s32.
        negate: whether the products change sign (imm-scale-a and imm-scale-b differ).
        a_mn_major, b_mn_major: imm-trans-a and imm-trans-b.
        saturate: .satfinite.
    """

    n: int
    k: int
    a_type: str
    b_type: str
    d_type: str
    negate: bool
    a_mn_major: bool
    b_mn_major: bool
    saturate: bool

    @property
    def registers(self) -> int:
        """Registers of a thread that D takes."""
        return self.n // 4 if self.d_type == "f16" else self.n // 2

    def longest_run(self, exact: bool) -> int:
        """Most instructions that continue one accumulation which may be one product over their joint K."""
        if self.d_type == "s32":
            return 1 if self.saturate else INTEGER_RUN
        return 1 if exact or self.d_type == "f16" else 1 << 10


@lru_cache(maxsize=32)
def column_order(n: int) -> np.ndarray:
    """Columns of B in the order in which a product has them: (thread, eight, part) instead of (eight, thread, part)."""
    return np.arange(n).reshape(n // 8, 4, 2).transpose(1, 0, 2).reshape(-1)


@lru_cache(maxsize=64)
def quarter_rows(quarters: tuple[int, ...]) -> np.ndarray:
    """Rows of A that warps have, by their numbers in the warpgroup."""
    return (np.array(quarters)[:, None] * QUARTER + np.arange(QUARTER)).reshape(-1)


@lru_cache(maxsize=8192)
def operand_index(words: tuple[int, ...], extent: int, columns: int, size: int, rows: bytes) -> np.ndarray:
    """Find where an operand of several instructions lies.

    Args:
        words: its descriptors.
        extent: rows of the whole operand.
        columns: depth of an instruction where it is MN-major, 0 where K-major.
        size: bytes of an element.
        rows: int64 as bytes, the rows that are wanted.

    Returns:
        MN-major: byte addresses (rows, columns * instructions). K-major: chunk numbers (rows, 2 * instructions).
    """
    chosen = np.frombuffer(rows, np.int64)
    descriptors = [decode_warpgroup(word) for word in words]
    if columns:
        parts = [element_offsets(desc, extent, columns, size, True) for desc in descriptors]
    else:
        parts = [chunk_offsets(desc, extent, SPAN) for desc in descriptors]
    return np.concatenate(parts, axis=1)[chosen].astype(np.intp)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmemMatrix:
    """An operand in shared memory.

    Attributes:
        name: A or B. words: descriptors of consecutive instructions.
        extent: rows of the whole operand. rows: int64, those that are wanted.
        columns: depth of an instruction. element: its type. mn_major: see `WarpgroupShape`.
    """

    name: str
    words: tuple[int, ...]
    extent: int
    rows: np.ndarray
    columns: int
    element: str
    mn_major: bool

    def index(self) -> np.ndarray:
        """Find where the operand lies, see `operand_index`; `MachineFault` where a descriptor is none."""
        size = formats.storage(self.element).itemsize
        columns = self.columns if self.mn_major else 0
        try:
            return operand_index(self.words, self.extent, columns, size, self.rows.tobytes())
        except ValueError as error:
            raise MachineFault(f"descriptor of {self.name} {self.words[0]:#018x}: {error}") from None

    def places(self) -> np.ndarray:
        """Byte addresses in shared memory that are read."""
        index = self.index()
        if self.mn_major:
            return (index[:, :, None] + np.arange(formats.storage(self.element).itemsize)).reshape(-1)
        return fetch.places(index.reshape(-1), 16)

    def operand(self) -> Operand:
        """The operand as observers are told of it."""
        return Operand(self.name, decode_warpgroup(self.words[0]), self.places())

    def fetch(self, shared: SharedMemory) -> Fetch:
        """Make what reads the operand."""
        index = self.index()
        if self.mn_major:
            low = int(index.min())
            high = int(index.max()) + formats.storage(self.element).itemsize
            return lambda select: fetch.fetch_elements(shared.part(low, high)[select], index, self.element)
        low = 16 * int(index.min())
        high = 16 * int(index.max()) + 16
        flat = index.reshape(-1)
        return lambda select: fetch.fetch_k_major(
            shared.part(low, high).view(CHUNK)[select], flat, len(index), self.element, "plain"
        )

    def check(self, shared: SharedMemory, findings: FindingSink, instr: Instr, rows: np.ndarray | None) -> None:
        """The operand must lie inside shared memory, and CTAs ``rows`` must have written every byte of it."""
        key = ("wgmma", self.words, self.rows.tobytes(), self.element, self.mn_major)
        if key in shared.written.known:
            return
        places = self.places()
        if int(places.max()) >= shared.size:
            raise MachineFault(
                f"descriptor of {self.name} {self.words[0]:#018x} reaches shared address {int(places.max()):#x}, but "
                f"the CTA has {shared.size:#x} bytes"
            )
        missing = shared.written.missing(key, places, rows)
        if missing:
            findings.report(
                "shared-memory-unwritten",
                f"operand {self.name} (descriptor {self.words[0]:#018x}) reads {missing} bytes of shared memory "
                "that were never written",
                instr,
                who=Who(row=shared.written.lacking(places, rows)),
            )


def multiply(shape: WarpgroupShape, a: np.ndarray, b: np.ndarray, c: np.ndarray | None, exact: bool) -> np.ndarray:
    """D of one product.

    Args:
        shape: of its instructions, as many as may be joined (`WarpgroupShape.longest_run`).
        a: float32 (ctas or 1, rows, k). b: float32 (ctas or 1, n, k).
        c: (ctas, rows, n) of D's type (float32, float16, int32); None for zero.
        exact: whether floating-point sums are those of the hardware.

    Returns:
        Of D's type, (ctas or 1, rows, n).
    """
    if shape.negate:
        a = -a
    with np.errstate(invalid="ignore", over="ignore"):
        if exact and shape.d_type != "s32":
            return _exact(shape, a, b, c)
        product = np.matmul(a, np.ascontiguousarray(b.transpose(0, 2, 1)))
        if shape.d_type == "s32":
            total = product.astype(np.int64)
            if c is not None:
                total = total + c
            if shape.saturate:
                total = np.clip(total, -(1 << 31), (1 << 31) - 1)
            return total.astype(np.int32)
        if c is not None and product.shape != c.shape:
            return (product + c).astype(c.dtype)
        if c is not None:
            product += c
        return product.astype(np.float16) if shape.d_type == "f16" else product


def _exact(shape: WarpgroupShape, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> np.ndarray:
    """D as the hardware adds."""
    ctas = max(len(a), len(b), 1 if c is None else len(c))
    size = (ctas, a.shape[1], b.shape[1])
    kind = np.float16 if shape.d_type == "f16" else np.float32
    addend = np.zeros(size, kind) if c is None else np.broadcast_to(c, size)
    x = numerics.terms(np.broadcast_to(a, (ctas, *a.shape[1:])), shape.a_type)
    y = numerics.terms(np.broadcast_to(b, (ctas, *b.shape[1:])), shape.b_type)
    if formats.BITS[shape.a_type] > 8:
        bits = numerics.fused(x, y, addend, shape.d_type)
    else:
        bits = numerics.fused(x, y, addend, shape.d_type, FRACTION_8)
        if shape.d_type == "f32":
            finite = np.isfinite(bits.view(np.float32))
            bits = np.where(finite, bits & np.uint32(0xFFFFFFFF << (23 - FRACTION_8) & 0xFFFFFFFF), bits)
    if shape.d_type == "f16":
        return bits.astype(np.uint16).view(np.float16)
    return bits.view(np.float32)
