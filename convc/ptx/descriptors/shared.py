"""Shared-memory descriptors: where a matrix operand lies (PTX manual, section "Shared memory descriptor")."""

from __future__ import annotations

from dataclasses import dataclass

from convc.ptx.descriptors.bit_fields import Fields, code_of, name_of, pack, unpack

SHARED_FIELDS: Fields = {
    "start": (0, 14), "lbo": (16, 14), "sbo": (32, 14), "version": (46, 3),
    "base_offset": (49, 3), "lbo_absolute": (52, 1), "swizzle": (61, 3),
}  # fmt: skip
SHARED_VERSION = 1
OLD_VERSION = 0
"""Bits 46-48 as Triton 3.5 leaves them, whose kernels run on B200: the manual asks for `SHARED_VERSION`."""

SWIZZLE_CODES = {"none": 0, "128B_atom32": 1, "128B": 2, "64B": 4, "32B": 6}

WARPGROUP_FIELDS: Fields = {
    "start": (0, 14), "lbo": (16, 14), "sbo": (32, 14), "base_offset": (49, 3), "swizzle": (62, 2),
}  # fmt: skip
WARPGROUP_SWIZZLE_CODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
"""Swizzles of the descriptors of wgmma (sm_90a), which have no version and two bits for the swizzle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDescriptor:
    """Where a matrix operand lies in shared memory; ``convc.machine.tensor_core.smem_layout`` has the address formulas.

    Attributes:
        start: byte address of the first row, a multiple of 16 below 2**18.
        lbo, sbo: leading and stride dimension byte offsets, multiples of 16 below 2**18.
        base_offset: number of the 128-byte line that the swizzle pattern starts at (0 to 7).
        swizzle: none, 32B, 64B, 128B or 128B_atom32.
        lbo_absolute: LBO is an address instead of a distance (only K rows of 48 bytes, sm_103 and later).
    """

    start: int
    lbo: int
    sbo: int
    swizzle: str
    base_offset: int = 0
    lbo_absolute: bool = False


def encode_shared(desc: SharedDescriptor) -> int:
    """The 64-bit word of a descriptor."""
    _check_units(desc)
    return pack(
        SHARED_FIELDS,
        start=desc.start >> 4,
        lbo=desc.lbo >> 4,
        sbo=desc.sbo >> 4,
        version=SHARED_VERSION,
        base_offset=desc.base_offset,
        lbo_absolute=desc.lbo_absolute,
        swizzle=code_of("swizzle", SWIZZLE_CODES, desc.swizzle),
    )


def decode_shared(value: int) -> SharedDescriptor:
    """The record of a 64-bit word; `ValueError` where a fixed bit or the swizzle code is wrong.

    `OLD_VERSION` is read as well; `old_version` tells.
    """
    got = unpack(SHARED_FIELDS, value, 64)
    if got["version"] not in (SHARED_VERSION, OLD_VERSION):
        raise ValueError(f"bits 46-48 must be 0b001 on sm_100, got {got['version']:#05b}")
    return SharedDescriptor(
        start=got["start"] << 4,
        lbo=got["lbo"] << 4,
        sbo=got["sbo"] << 4,
        base_offset=got["base_offset"],
        lbo_absolute=bool(got["lbo_absolute"]),
        swizzle=name_of("swizzle", SWIZZLE_CODES, got["swizzle"]),
    )


def old_version(value: int) -> bool:
    """Whether a 64-bit word has `OLD_VERSION`, which breaks a rule of the manual."""
    return value >> 46 & 7 == OLD_VERSION


def encode_warpgroup(desc: SharedDescriptor) -> int:
    """The 64-bit word of a descriptor of wgmma."""
    _check_units(desc)
    if desc.lbo_absolute:
        raise ValueError("a descriptor of wgmma has no absolute leading-dimension address")
    return pack(
        WARPGROUP_FIELDS,
        start=desc.start >> 4,
        lbo=desc.lbo >> 4,
        sbo=desc.sbo >> 4,
        base_offset=desc.base_offset,
        swizzle=code_of("swizzle", WARPGROUP_SWIZZLE_CODES, desc.swizzle),
    )


def decode_warpgroup(value: int) -> SharedDescriptor:
    """The record of a 64-bit word that wgmma takes; `ValueError` where a bit outside of its fields is set."""
    got = unpack(WARPGROUP_FIELDS, value, 64)
    return SharedDescriptor(
        start=got["start"] << 4,
        lbo=got["lbo"] << 4,
        sbo=got["sbo"] << 4,
        base_offset=got["base_offset"],
        swizzle=name_of("swizzle", WARPGROUP_SWIZZLE_CODES, got["swizzle"]),
    )


def _check_units(desc: SharedDescriptor) -> None:
    """Addresses and distances are given in units of 16 bytes."""
    for name in ("start", "lbo", "sbo"):
        if getattr(desc, name) % 16:
            raise ValueError(f"{name} must be a multiple of 16 bytes, got {getattr(desc, name)}")
