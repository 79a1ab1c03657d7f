"""Tensor maps as 128 bytes, for kernels that make or copy them in memory.

NVIDIA does not publish what the 128 bytes of its tensor maps mean. The encoding here is **ours**, also of the maps that
a launch file describes, which a kernel may copy out of parameter space and edit: little endian, with a magic word and
every field at a fixed place, so that a map can be edited by tensormap.replace, copied around as plain bytes, and
understood when a tensor copy uses it. A kernel that looks into the bytes would see different ones on a GPU. Bytes of
the driver, which a launch file may give, are understood too (`convc.machine.tma.driver_maps`).

128 zero bytes are a blank map: tile mode, rank 1, every extent 1 (sizes are kept minus one). Kernels start from zeros
and then replace every field, as Triton does. Fields: PTX manual, "tensormap.replace".
"""

from __future__ import annotations

import struct

import msgspec
import numpy as np

from convc.errors import MachineFault
from convc.ir.tensormap import Swizzle, TensorMap
from convc.machine.memory.global_memory import Buffer, GlobalMemory
from convc.machine.tma.driver_maps import decode_driver_map

SIZE = 128
MAGIC = 0x3150614D54434E43
"""The first eight bytes: "CNCTMaP1"."""

MODES = ("tile", "im2col", "im2col_w", "im2col_w128")
TYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32_ftz", "f64", "bf16", "tf32", "tf32_ftz",
    "b4x16", "b4x16_p64", "b6x16_p32",
)  # fmt: skip
"""Element types by the number that tensormap.replace gives them (PTX manual, the table of .elemtype)."""

SWIZZLES: tuple[tuple[Swizzle, ...], ...] = (
    ("none",), ("32B",), ("64B",), ("128B", "128B_atom32", "128B_atom32_flip8", "128B_atom64"),
)  # fmt: skip
"""Swizzles by .swizzle_mode and .swizzle_atomicity."""

INTERLEAVES = ("none", "16B", "32B")
FILLS = ("zero", "nan")

RECORD = np.dtype(
    {
        "names": [
            "magic",
            "mode",
            "rank",
            "elemtype",
            "interleave_layout",
            "swizzle_mode",
            "swizzle_atomicity",
            "fill_mode",
            "global_address",
            "global_dim",
            "global_stride",
            "box_dim",
            "element_stride",
            "lower",
            "upper",
            "channels",
            "pixels",
        ],
        "formats": [
            "<u8",
            "u1",
            "u1",
            "u1",
            "u1",
            "u1",
            "u1",
            "u1",
            "<u8",
            ("<u4", 5),
            ("<u8", 4),
            ("<u2", 5),
            ("u1", 5),
            ("<i2", 3),
            ("<i2", 3),
            "<u2",
            "<u2",
        ],
        "offsets": [0, 8, 9, 10, 11, 12, 13, 14, 16, 24, 48, 80, 90, 96, 102, 108, 110],
        "itemsize": SIZE,
    }
)
"""Where each field is. rank, global_dim, box_dim and element_stride hold their value minus one."""

MINUS_ONE = ("global_dim", "box_dim", "element_stride")
LIMITS = {
    "rank": 5, "elemtype": len(TYPES), "interleave_layout": 3, "swizzle_mode": 4, "swizzle_atomicity": 4,
    "fill_mode": 2,
}  # fmt: skip
"""Values below which each number field must stay."""


def encode(tmap: TensorMap, address: int) -> bytes:
    """A tensor map as 128 bytes.

    Args:
        tmap: the map; its buffer and offset are not kept.
        address: global address of the tensor (instead of buffer and offset).
    """
    record = np.zeros(1, RECORD)
    swizzle = next((m, kinds.index(tmap.swizzle)) for m, kinds in enumerate(SWIZZLES) if tmap.swizzle in kinds)
    record["magic"] = MAGIC
    record["global_address"] = address
    record["mode"] = MODES.index(tmap.mode)
    record["rank"] = tmap.rank - 1
    record["elemtype"] = TYPES.index(tmap.dtype)
    record["fill_mode"] = FILLS.index(tmap.fill)
    record["swizzle_mode"], record["swizzle_atomicity"] = swizzle
    record["channels"] = tmap.channels
    record["pixels"] = tmap.pixels
    for name, values, less in (
        ("global_dim", tmap.dims, 1),
        ("global_stride", tmap.strides, 0),
        ("box_dim", tmap.box, 1),
        ("element_stride", tmap.element_strides, 1),
        ("lower", tmap.lower, 0),
        ("upper", tmap.upper, 0),
    ):
        record[name][0, : len(values)] = [value - less for value in values]
    return record.tobytes()


def decode(raw: bytes) -> tuple[TensorMap, int]:
    """The map (without buffer and offset) and the global address that 128 bytes hold; faults where they hold none."""
    if any(raw) and struct.unpack_from("<Q", raw)[0] != MAGIC:
        return decode_driver_map(raw)
    record = np.frombuffer(raw, RECORD)[0]
    mode = MODES[int(record["mode"])]
    rank = int(record["rank"]) + 1
    if record["interleave_layout"]:
        raise MachineFault(f"the simulator has no interleaved layouts, got {INTERLEAVES[record['interleave_layout']]}")
    kinds = SWIZZLES[int(record["swizzle_mode"])]
    corners = {"tile": 0, "im2col": rank - 2}.get(mode, 1)
    return TensorMap(
        mode=mode,
        buffer="",
        dtype=TYPES[int(record["elemtype"])],
        dims=_numbers(record, "global_dim", rank),
        strides=_numbers(record, "global_stride", rank - 1),
        box=_numbers(record, "box_dim", rank if mode == "tile" else 0),
        element_strides=_numbers(record, "element_stride", rank),
        lower=_numbers(record, "lower", corners),
        upper=_numbers(record, "upper", corners),
        channels=int(record["channels"]),
        pixels=int(record["pixels"]),
        swizzle=kinds[int(record["swizzle_atomicity"]) if len(kinds) > 1 else 0],
        fill=FILLS[int(record["fill_mode"])],
    ), int(record["global_address"])


def map_at(raw: bytes, memory: GlobalMemory, where: int) -> tuple[TensorMap, Buffer]:
    """The map that 128 bytes hold, placed in its buffer."""
    tmap, address = decode(raw)
    home = memory.at(address)
    if home is None:
        raise MachineFault(
            f"the tensor map at global address {where:#x} describes a tensor at {address:#x}, which is in no buffer"
        )
    return msgspec.structs.replace(tmap, buffer=home.name, offset=address - home.base), home


def replace(raw: np.ndarray, field: str, index: int, value: int | np.ndarray) -> None:
    """tensormap.replace: change one field of maps.

    Args:
        raw: uint8 (maps, 128), changed in place.
        field: name as in PTX.
        index: which dimension, where the field has several numbers.
        value: the new value, one for all maps or int64 (maps,). rank is given minus one.
    """
    record = raw.view(RECORD)[:, 0]
    used = raw.any(axis=1)
    for at in (used & (record["magic"] != MAGIC)).nonzero()[0].tolist():  # of the driver: from here on ours
        raw[at] = np.frombuffer(encode(*decode_driver_map(raw[at].tobytes())), np.uint8)
    value = np.asarray(value).astype(np.int64)
    limit = LIMITS.get(field)
    if limit is not None and ((value < 0) | (value >= limit)).any():
        raise MachineFault(f"tensormap.replace: .{field} must be in 0..{limit - 1}, got {int(value.flat[0])}")
    record["magic"] = MAGIC
    if field == "global_address":
        record[field] = value.astype(np.uint64)
    elif record[field].ndim == 1:
        record[field] = value
    elif index >= record[field].shape[1]:
        raise MachineFault(f"tensormap.replace: .{field} has {record[field].shape[1]} numbers, got index {index}")
    else:
        record[field][:, index] = (value - (field in MINUS_ONE)).astype(record[field].dtype)


def _numbers(record: np.void, field: str, count: int) -> tuple[int, ...]:
    return tuple(int(value) + (field in MINUS_ONE) for value in record[field][:count])
