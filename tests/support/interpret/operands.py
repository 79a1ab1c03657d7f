"""The meaning of steps that move operand tiles and multiply them."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from support.interpret.copies import box, im2col, im2col_wide, tensor_of
from support.interpret.lanes import move_up
from support.interpret.meaning import perform
from support.interpret.state import Array, CtaState, RoleState

from convc.compiler.tile.steps.copies import TensorCopy, TmaLoad, TmaWideLoad
from convc.compiler.tile.steps.lanes import CarryFactors
from convc.compiler.tile.steps.mma import MmaScaled, MmaStationary, MmaTensor, Multiply, SharedMma
from convc.ir import dtypes

SCALED = {
    "mxfp8": (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, 32),
    "mxfp4": (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu, 32),
    "nvfp4": (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, 16),
}
"""By operand: types of elements and of factors, and elements of a block (OCP MX 1.0; PTX manual, block scaling)."""


@perform.register
def _(step: TmaLoad, role: RoleState) -> None:
    source = role.cta.map_of(step.map)
    tensor = tensor_of(role.cta, step.map)
    coords = role.integers(step.coords)
    rows = im2col(source, tensor, coords, role.integers(step.offsets)) if step.offsets else box(source, tensor, coords)
    first = 0 if step.at is None else role.integer(step.at) // source.row_bytes
    _land(step, role, rows, first, None if step.ctas is None else role.named(step.ctas))


@perform.register
def _(step: TmaWideLoad, role: RoleState) -> None:
    source = role.cta.map_of(step.map)
    rows = im2col_wide(
        source, tensor_of(role.cta, step.map), role.integers(step.coords), halo=step.halo, offset=step.offset
    )
    _land(step, role, rows, 0 if step.at is None else role.integer(step.at) // source.row_bytes)


def _land(step: TensorCopy, role: RoleState, rows: Array, first: int, ctas: Sequence[CtaState] | None = None) -> None:
    """Put rows into the current stage of a tile, from one of its rows on, and count their bytes; in several CTAs."""
    tile = role.cta.program.storage.smem_tile(step.tile)
    key = role.key(step.tile)
    for cta in ctas or (role.cta,):
        if key not in cta.stages:
            cta.stages[key] = np.full((tile.rows, rows.shape[1]), np.nan, np.float32)
        cta.stages[key][first : first + len(rows)] = rows
    element = dtypes.BY_NAME[role.cta.map_of(step.map).dtype]
    barriers = role.signalled(step.ring) if ctas is None else role.barriers_of(ctas, step.ring)
    for barrier in barriers:
        barrier.complete(rows.size * element.bytes)


@perform.register
def _(step: SharedMma, role: RoleState) -> None:
    if step.span_rows is not None:
        pixels, filters = (_turned(role.tile(name), step.span_rows) for name in (step.a, step.b))
        _accumulate(step, role, role.cta, pixels[: step.m] @ filters[: step.n].T)
        return
    first = 0 if step.row is None else role.integer(step.row)
    column = 0 if step.b_row is None else role.integer(step.b_row)
    each = step.n // len(role.together)
    filters = np.concatenate([rows[column : column + each] for rows in role.tiles(step.b)])
    for cta, pixels in zip(role.together, role.tiles(step.a), strict=True):
        _accumulate(step, role, cta, pixels[first : first + step.m] @ filters.T)


def _turned(tile: Array, rows: int) -> Array:
    """An operand (channels, pixels) of a tile that is MN-major: spans of so many pixels, a row each."""
    spans = tile.reshape(-1, rows, tile.shape[1])
    return spans.transpose(0, 2, 1).reshape(-1, rows)


@perform.register
def _(step: MmaTensor, role: RoleState) -> None:
    filters = np.concatenate(role.tiles(step.b))
    for cta, pixels in zip(role.together, role.tiles(step.a), strict=True):
        _accumulate(step, role, cta, pixels @ filters.T)
        if step.moves:
            move_up(pixels)


@perform.register
def _(step: MmaStationary, role: RoleState) -> None:
    pixels = role.tile(step.a)[step.shift : step.shift + step.n].copy()
    if step.runs is not None and step.entered is not None:
        place = (np.arange(step.n) + role.integer(step.entered)) % sum(step.runs)
        pixels[place < step.runs[0]] = 0
    _accumulate(step, role, role.cta, role.tile(step.b) @ pixels.T)


@perform.register
def _(step: MmaScaled, role: RoleState) -> None:
    a = _scaled(step, role.tile(step.a), role.tile(step.factors_a))
    b = _scaled(step, role.tile(step.b), role.tile(step.factors_b))
    _accumulate(step, role, role.cta, a @ b.T)


@perform.register
def _(step: CarryFactors, role: RoleState) -> None:
    start = role.integer(step.first)
    carried = role.tile(step.source)[: step.rows, start : start + 4 * step.words]
    role.cta.stages[role.key(step.tile)] = carried.copy()


def _accumulate(step: Multiply, role: RoleState, cta: CtaState, product: Array) -> None:
    """Add to the accumulator of a CTA, or overwrite it; masked lanes stay as they are."""
    old = cta.acc[role.key(step.acc)]
    product = product.astype(old.dtype, copy=False)  # whole numbers: exact in float32 for one stage, not for all
    overwrites = step.counter is not None and role.integer(step.counter) == 0
    new = product if overwrites else old + product
    cta.acc[role.key(step.acc)] = (
        np.where(role.masks[role.together.index(cta)][:, None], old, new) if step.masked else new
    )


def _scaled(step: MmaScaled, rows: Array, factors: Array) -> NDArray[np.float32]:
    """Bytes of a tile (rows, bytes) and their factors as the numbers that they stand for."""
    element, factor, block = SCALED[step.operand]
    codes = rows[:, : 32 * step.atoms].astype(np.uint8)
    if element is ml_dtypes.float4_e2m1fn:
        codes = np.stack((codes & 15, codes >> 4), axis=-1).reshape(len(codes), -1)
    values = codes.view(element).astype(np.float32).reshape(len(codes), -1, block)
    scale = factors.astype(np.uint8)[:, : values.shape[1]].view(factor).astype(np.float32)
    return (values * scale[:, :, None]).reshape(len(codes), -1)
