"""Shapes of tcgen05.mma: which M, N and types an instruction may have, and where its rows lie in tensor memory.

D of M x N elements takes lanes of tensor memory in *banks*: one bank holds all rows of a CTA's part of A, and a
slice of the columns of B. Bank b starts at lane b * rows.

| layout | case | rows | banks |
| --- | --- | --- | --- |
| A | M = 256, CTA pair | 128 in each CTA | 1 |
| B | M = 128, CTA pair | 64 in each CTA | 2: halves of N |
| D | M = 128, one CTA, also .ws | 128 | 1 |
| E | M = 64, .ws | 64 | 2: halves of N |
| F | M = 64, one CTA | 64, in 16 of every 32 lanes, from lane 0 or 16 | 1 |
| G | M = 32, .ws | 32 | 4: quarters of N |

Operand A in tensor memory takes the lanes of D, a copy of its own in every bank.

Sources: PTX manual, "Matrix and data movement shapes" and "Data path layout organization"; formulas compared with
SM100 by mlc-ai/TIRx-harness.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from convc.errors import MachineFault
from convc.machine.tensor_core import formats
from convc.machine.tensor_core.fetch import SPAN
from convc.ptx.descriptors import (
    D_OF_KIND,
    BlockScaledDescriptor,
    InstructionDescriptor,
    decode_block_scaled,
    decode_instruction,
)

Descriptor = InstructionDescriptor | BlockScaledDescriptor

FACTORS: dict[tuple[str, str | None], int] = {
    ("mxf8f6f4", None): 1, ("mxf8f6f4", "scale_vec::1X"): 1, ("mxf8f6f4", "block32"): 1,
    ("mxf4", None): 2, ("mxf4", "scale_vec::2X"): 2, ("mxf4", "block32"): 2,
    ("mxf4nvf4", "scale_vec::2X"): 2, ("mxf4nvf4", "block32"): 2,
    ("mxf4nvf4", "scale_vec::4X"): 4, ("mxf4nvf4", "block16"): 4,
}  # fmt: skip
"""Scale factors along K per row and instruction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaShape:
    """A checked instruction descriptor, and what follows from it.

    Attributes:
        word: the descriptor's bits. desc: the same, decoded.
        kind: of the instruction. pair: cta_group::2. ws: weight stationary.
        m, n, k: extents of the product, of both CTAs of a pair together.
        rows: rows of A that one CTA supplies. b_rows: columns of B that one CTA supplies.
        banks: see the module's table. columns: columns of tensor memory that D takes.
        d_type: f32, f16 or s32.
        factors: scale factors per row (0: the kind has none).
    """

    word: int
    desc: Descriptor
    kind: str
    pair: bool
    ws: bool
    m: int
    n: int
    k: int
    rows: int
    b_rows: int
    banks: int
    columns: int
    d_type: str
    factors: int

    @property
    def block_scaled(self) -> BlockScaledDescriptor:
        """The descriptor of a kind that has scale factors."""
        if not isinstance(self.desc, BlockScaledDescriptor):
            raise ValueError(f"kind::{self.kind} has no scale factors")
        return self.desc

    @property
    def saturate(self) -> bool:
        """Whether sums of kind i8 are clamped."""
        return isinstance(self.desc, InstructionDescriptor) and self.desc.saturate

    @property
    def max_shift(self) -> int:
        """By how many columns a zero-column mask may shift B at most."""
        return self.desc.ws_max_shift if isinstance(self.desc, InstructionDescriptor) else 0

    @property
    def spread_lanes(self) -> bool:
        """Layout F: 16 of every 32 lanes."""
        return self.rows * self.banks == 64

    def lanes(self, base: int) -> np.ndarray:
        """Lane of every row of D, bank after bank."""
        return _lanes(self.spread_lanes, base)


@lru_cache(maxsize=4)
def _lanes(spread: bool, base: int) -> np.ndarray:
    row = np.arange(64 if spread else 128)
    return base + 32 * (row // 16) + row % 16 if spread else row


@lru_cache(maxsize=512)
def shape_of(word: int, kind: str, pair: bool, ws: bool, a_in_tensor: bool, scale_size: str | None = None) -> MmaShape:
    """Decode and check an instruction descriptor; `MachineFault` where sm_100a has no such instruction."""
    where = f"instruction descriptor {word:#010x} of kind::{kind}"
    try:
        desc = decode_instruction(word, kind) if kind in D_OF_KIND else decode_block_scaled(word, kind)
    except ValueError as error:
        raise MachineFault(f"{where}: {error}") from None
    if desc.sparse:
        raise MachineFault(f"{where} asks for sparse A, which a dense tcgen05.mma cannot have")
    if a_in_tensor and desc.transpose_a:
        raise MachineFault(f"{where}: operand A in tensor memory must be K-major (transpose A is set)")
    factors = 0
    d_type = "f32"
    if isinstance(desc, BlockScaledDescriptor):
        factors = FACTORS[kind, scale_size]
        _check_factors(where, desc, factors)
    else:
        d_type = desc.d_type
        if desc.ws_max_shift and not ws:
            raise MachineFault(f"{where}: a largest column shift (bits 30-31) is for tcgen05.mma.ws only")
    m = desc.m
    n = desc.n
    allowed_m, allowed_n = _extents(kind, pair, ws, desc)
    if m not in allowed_m or n not in allowed_n:
        form = "tcgen05.mma.ws" if ws else f"cta_group::{2 if pair else 1}"
        raise MachineFault(
            f"{where}: M={m}, N={n} is not a shape of {form}",
            hint=f"M is {' or '.join(map(str, allowed_m))}; N is one of {_listed(allowed_n)}",
        )
    rows = m // 2 if pair else m
    banks = 128 // rows if pair or ws else 1
    units = 32 if formats.packing(kind, desc.a_type, False) == "packed" else 16 * 8 // max(8, formats.BITS[desc.a_type])
    return MmaShape(
        word=word,
        desc=desc,
        kind=kind,
        pair=pair,
        ws=ws,
        m=m,
        n=n,
        k=SPAN // 16 * units,
        rows=rows,
        b_rows=n // 2 if pair else n,
        banks=banks,
        columns=n // banks,
        d_type=d_type,
        factors=factors,
    )


def _extents(kind: str, pair: bool, ws: bool, desc: Descriptor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Allowed M and N (PTX manual, table of tcgen05.mma shapes)."""
    if ws:
        return (32, 64, 128), (64, 128, 256)
    allowed_m: tuple[int, ...] = (128, 256) if pair else (64, 128)
    if kind not in D_OF_KIND and not pair:
        allowed_m = (128,)
    if kind == "i8":
        allowed_n = tuple(range(32, 257, 32)) if pair else (8, 16, 24, *range(32, 257, 16))
    else:
        step = 16 if pair else 8
        allowed_n = tuple(range(step, 257, step))
    if desc.transpose_b and formats.BITS[desc.b_type] == 8:
        step = 32 if pair else 16
        allowed_n = tuple(n for n in allowed_n if n % step == 0)
    return allowed_m, allowed_n


def _check_factors(where: str, desc: BlockScaledDescriptor, factors: int) -> None:
    """Which byte of a cell the factors may start at, and their type."""
    for name in ("a", "b"):
        start = getattr(desc, f"sf{name}_id")
        if start % factors or start + factors > 4:
            raise MachineFault(
                f"{where}: scale id {start} of {name.upper()} does not go with {factors} factor(s) per row",
                hint="the id is 0 to 3 for one factor, 0 or 2 for two, 0 for four",
            )
    if desc.scale_type == "ue4m3" and factors != 4:
        raise MachineFault(f"{where}: scale factors of type ue4m3 need scale_vec::4X (block16)")


def _listed(numbers: tuple[int, ...]) -> str:
    if len(numbers) <= 6:
        return ", ".join(map(str, numbers))
    return f"{', '.join(map(str, numbers[:4]))}, ... {numbers[-1]}"
