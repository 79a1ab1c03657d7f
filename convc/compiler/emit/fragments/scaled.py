"""Names and numbers of the templates of `convc.compiler.tile.steps.scaled`."""

from __future__ import annotations

from typing import Any

from convc.compiler.emit.operands import (
    acc_address,
    braces,
    descriptor,
    more_atoms,
    powers_of_two,
    quads,
    stage,
    stage_address,
    tensor_address,
)
from convc.compiler.tile.steps.base import SmemTile, Step, Storage, TmemTile
from convc.compiler.tile.steps.scaled import Arrive, CarryFactors, MmaScaled, ScaleSums
from convc.ir import dtypes
from convc.ir.arch import SM_100A
from convc.layout.block_scaled import FORMATS
from convc.ptx.descriptors import BlockScaledDescriptor, encode_block_scaled

GROUP = SM_100A.limits.tmem_part_lanes
"""Rows whose factors share a column of tensor memory."""
WORD_BYTES = 4
ID_SHIFT = 30
"""Where an address has the byte of a cell in which its factors start."""


def scaled_names(step: Step, storage: Storage) -> dict[str, Any] | None:
    """What the template of a step is filled in with; None: the step is of another kind."""
    smem = {tile.name: tile for tile in storage.smem}
    tmem = {tile.name: tile for tile in storage.tmem}
    match step:
        case CarryFactors():
            return _carry(step, smem[step.source], tmem[step.tile])
        case Arrive(ring=name):
            ring = next(ring for ring in storage.rings if ring.name == name)
            return {"stage": stage(ring.cursor), "offset": ring.offset}
        case MmaScaled():
            return _multiply(step, smem[step.a], smem[step.b], tmem)
        case ScaleSums(buffer=buffer, channel=channel, columns=columns, first=first):
            return {"buffer": buffer, "channel": channel, "quads": quads(columns, first)}
    return None


def _carry(step: CarryFactors, source: SmemTile, tile: TmemTile) -> dict[str, Any]:
    groups, words = -(-step.rows // GROUP), step.words
    cells = [[f"%cell{group * words + word}" for word in range(words)] for group in range(groups)]
    vector = f".v{words}" if words > 1 else ""
    loads = [
        (source.offset + GROUP * source.row_bytes * group, vector, braces(row) if words > 1 else row[0])
        for group, row in enumerate(cells)
    ]
    stores = [
        (step.spacing * word + first, count, braces(row[word] for row in cells[first : first + count]))
        for word in range(words)
        for first, count in powers_of_two(groups, groups)
    ]
    return {
        "cells": groups * words,
        "source_address": stage_address("%from", source),
        "lane": step.lane,
        "row_bytes": source.row_bytes,
        "first": step.first,
        "loads": loads,
        "tile_address": tensor_address("%to", tile),
        "stores": stores,
    }


def _multiply(step: MmaScaled, a: SmemTile, b: SmemTile, tmem: dict[str, TmemTile]) -> dict[str, Any]:
    fmt, kind = FORMATS[step.operand], dtypes.KINDS[step.operand]

    def shape(byte: int) -> str:
        fields = BlockScaledDescriptor(
            kind=kind,
            a_type=fmt.element,
            b_type=fmt.element,
            scale_type=fmt.factor,
            m=step.m,
            n=step.n,
            sfa_id=byte,
            sfb_id=byte,
        )
        return f"0x{encode_block_scaled(fields):08x}"

    more = []
    for index, text in enumerate(more_atoms(step.atoms), 1):
        word, byte = divmod(index * step.each, WORD_BYTES)
        places = (f"0x{(byte << ID_SHIFT) + spacing * word:08x}" for spacing in (step.spacing_a, step.spacing_b))
        more.append((text, shape(byte), *places))
    return {
        "layout": f"K-major, {b.row_bytes}-byte swizzle, {8 * b.row_bytes} bytes from 8 rows to the next 8",
        "a_address": stage_address("%word", a),
        "a_descriptor": descriptor(a),
        "b_address": stage_address("%word", b),
        "b_descriptor": descriptor(b),
        "acc_address": acc_address(tmem[step.acc]),
        "factors_a": tensor_address("%first_a", tmem[step.factors_a]),
        "factors_b": tensor_address("%first_b", tmem[step.factors_b]),
        "counter": step.counter,
        "instruction": shape(0),
        "instruction_note": f"{step.m} x {step.n}, {fmt.element} with factors of {fmt.factor} in, f32 out",
        "kind": kind,
        "size": fmt.size,
        "then_add": step.atoms > 1,
        "more_atoms": more,
    }
