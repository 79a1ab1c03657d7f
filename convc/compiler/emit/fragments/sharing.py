"""Names and numbers of the templates of `convc.compiler.tile.steps.sharing`."""

from __future__ import annotations

from typing import Any

from convc.compiler.emit.fragments.quantise import bias_type, conversion
from convc.compiler.emit.guards import lane_names, lane_pieces
from convc.compiler.emit.operands import (
    acc_address,
    braces,
    descriptor,
    mask_of,
    more_atoms,
    multiply_names,
    powers_of_two,
    stage,
    stage_address,
    tensor_address,
)
from convc.compiler.tile.steps.base import SmemTile, Step, Storage, TmemTile
from convc.compiler.tile.steps.sharing import (
    AddLaneBias,
    ClearAcc,
    LoadMask,
    MaskWord,
    MmaStationary,
    MmaTensor,
    MoveRows,
    PixelStore,
    Refresh,
    TensorFill,
    TmaWideLoad,
)
from convc.ir import dtypes
from convc.ptx.descriptors import ZeroColumnMask, encode_zero_mask

MAIN_ROWS = 128
"""Rows of a tile before those of its halo (im2col::w::128)."""
CHUNK = 32
"""Most columns that are cleared at a time."""


def reuse_names(step: Step, storage: Storage) -> dict[str, Any] | None:
    """What the template of a step is filled in with; None: the step is of another kind."""
    smem = {tile.name: tile for tile in storage.smem}
    tmem = {tile.name: tile for tile in storage.tmem}
    match step:
        case TmaWideLoad(ring=name):
            ring = next(ring for ring in storage.rings if ring.name == name)
            return _wide_load(step, smem[step.tile], ring.offset, stage(ring.cursor))
        case MaskWord(value=value, entry=entry, first=first):
            return {"value": value, "entry": entry, "table_offset": _entry(storage, first)}
        case LoadMask(entries=((entry, first), *more)):
            other, second = more[0] if more else ("", 0)
            return {
                "entry": entry,
                "table_offset": _entry(storage, first),
                "joined": bool(more),
                "other": other,
                "other_offset": _entry(storage, second),
            }
        case ClearAcc(acc=acc, columns=columns):
            return {"acc_address": acc_address(tmem[acc]), "pieces": _cleared(columns)}
        case TensorFill(source=source, tile=tile, atoms=atoms):
            return {
                "source_address": stage_address("%word", smem[source]),
                "descriptor": descriptor(smem[source]),
                "tile_address": tensor_address("%to", tmem[tile]),
                "more_atoms": more_atoms(atoms),
            }
        case MoveRows(tile=tile, atoms=atoms):
            return {"tile_address": tensor_address("%to", tmem[tile]), "more_atoms": more_atoms(atoms)}
        case Refresh(source=source, tile=tile, atoms=atoms, halo=halo, extra=extra):
            return {
                "source_address": stage_address("%word", smem[source]),
                "halo": halo,
                "halo_bytes": 4 * smem[source].row_bytes,
                "descriptor": descriptor(smem[source], MAIN_ROWS + 4 * extra),
                "tile_address": tensor_address("%to", tmem[tile]),
                "more_atoms": more_atoms(atoms),
            }
        case MmaTensor():
            return _mma_tensor(step, tmem[step.a], smem[step.b], tmem[step.acc])
        case MmaStationary():
            return _mma_stationary(step, smem[step.a], smem[step.b], tmem[step.acc])
        case AddLaneBias(buffer=buffer, channel=channel, columns=columns):
            return {
                "buffer": buffer,
                "channel": channel,
                "values": [f"%v{i}" for i in range(columns)],
                **bias_type(step.dtype),
            }
        case PixelStore():
            return _pixel_store(step)
    return None


def _wide_load(step: TmaWideLoad, tile: SmemTile, ring_offset: int, at_stage: str) -> dict[str, Any]:
    mode = "im2col::w::128" if step.halo_each_window else "im2col::w"
    return {
        "map": step.map,
        "rank": len(step.coords),
        "coords": braces(f"%{name}" for name in step.coords),
        "mode": mode,
        "halo": step.halo,
        "offset": step.offset,
        "stage": at_stage,
        "stage_bytes": tile.stage_bytes,
        "tile_offset": tile.offset,
        "ring_offset": ring_offset,
        "placed": step.at is not None,
        "at": step.at or "",
    }


def _entry(storage: Storage, first: int) -> int:
    """Offset in shared memory of an entry of the mask table."""
    return (storage.mask_offset or 0) + 16 * first


def _cleared(columns: int) -> list[tuple[int, int, str]]:
    """(first column, columns, registers) of each store that clears an accumulator."""
    return [(first, count, braces(["%zero"] * count)) for first, count in powers_of_two(columns, CHUNK)]


def _mma_tensor(step: MmaTensor, a: TmemTile, b: SmemTile, acc: TmemTile) -> dict[str, Any]:
    return multiply_names(step, b, acc) | {
        "a_address": tensor_address("%a", a),
        "mask": mask_of(step),
        "shift": ".ashift" if step.moves else "",
    }


def _mma_stationary(step: MmaStationary, a: SmemTile, b: SmemTile, acc: TmemTile) -> dict[str, Any]:
    zeroed, used = step.runs or (1, 1)
    begins = [
        encode_zero_mask(
            ZeroColumnMask(
                generate=step.runs is not None,
                zeroed=zeroed,
                used=used,
                zero_first=(first,) + (False,) * 3,
                shift=step.shift,
            )
        )
        >> 32
        for first in (False, True)
    ]
    runs = f"{zeroed} columns of padding, then {used} pixels, and so on" if step.runs else "none"
    usage = "" if step.collector == "discard" else step.collector
    return multiply_names(step, b, acc, step.reach) | {
        "a_address": stage_address("%word", a),
        "a_descriptor": descriptor(a),
        "mask_note": f"{runs}; pixels shifted by {step.shift} columns",
        "zeroing": step.runs is not None,
        "entered": step.entered or "",
        "zeroed": zeroed,
        "begins_used": f"0x{begins[0]:08x}",
        "begins_zeroed": f"0x{begins[1]:08x}",
        "collector": _collector(usage, 0),
        "more_atoms": [(_collector(usage, i), text) for i, text in enumerate(more_atoms(step.atoms), 1)],
    }


def _collector(usage: str, buffer: int) -> str:
    """The qualifier that says what happens to the pixels in a collector buffer; each 32 bytes of K have their own."""
    return f".collector::b{buffer}::{usage}" if usage else ""


def _pixel_store(step: PixelStore) -> dict[str, Any]:
    """One value a column, converted where it is not stored as it is."""
    whole, pieces = dtypes.BY_NAME[step.out].bits == 32, []
    for index, piece in enumerate(lane_pieces(step)):
        convert = f"{conversion(step.out)} %half, %v{index};"
        pieces.append((*piece, convert, f"%v{index}" if whole else "%half"))
    return lane_names(step) | {"pieces": pieces}
