"""Descriptors of matrices in shared memory (PTX manual, 9.7.16.4.1 for tcgen05, 9.7.15.5.1.2 for wgmma)."""

from __future__ import annotations

from dataclasses import dataclass

SWIZZLES = {0: "none", 1: "128B_atom32", 2: "128B", 4: "64B", 6: "32B"}
"""By bits 61-63 of a descriptor of tcgen05."""

WARPGROUP_SWIZZLES = {0: "none", 1: "128B", 2: "64B", 3: "32B"}
"""By bits 62-63 of a descriptor of wgmma."""

PITCH = {"none": 16, "32B": 32, "64B": 64, "128B": 128, "128B_atom32": 128}
"""Bytes of a row of the pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A matrix as its descriptor says it: bytes of its start and of its strides, and the swizzle."""

    start: int
    leading: int
    stride: int
    swizzle: str


def faults_of_tcgen05(word: int) -> list[str]:
    """All that is wrong with the bits of a descriptor of tcgen05, but for what `unversioned` says."""
    found: list[str] = []
    if word >> 46 & 7 > 1:
        found.append(f"bits 46-48 are {word >> 46 & 7:03b}, not 001")
    if word >> 53 & 0xFF:
        found.append("bits 53-60 are not 0")
    if word >> 52 & 1:
        found.append("bit 52 (absolute leading dimension) is not for sm_100a")
    if word >> 14 & 3 or word >> 30 & 3:
        found.append("bits 14-15 or 30-31 are not 0")
    if word >> 61 not in SWIZZLES:
        found.append(f"bits 61-63 are {word >> 61}, which is no swizzle")
    return found


def unversioned(word: int) -> bool:
    """Whether a descriptor of tcgen05 has 0 in bits 46-48, which the manual forbids and the tensor core reads as 1."""
    return word >> 46 & 7 == 0


def faults_of_wgmma(word: int) -> list[str]:
    """All that is wrong with the bits of a descriptor of wgmma."""
    found: list[str] = []
    if word >> 14 & 3 or word >> 30 & 3 or word >> 46 & 7 or word >> 52 & 0x3FF:
        found.append("bits 14-15, 30-31, 46-48 or 52-61 are not 0")
    return found


def matrix_of(word: int, *, warpgroup: bool) -> Matrix:
    """Read a descriptor."""
    swizzle = WARPGROUP_SWIZZLES[word >> 62] if warpgroup else SWIZZLES.get(word >> 61, "none")
    return Matrix(
        start=(word & 0x3FFF) << 4,
        leading=(word >> 16 & 0x3FFF) << 4,
        stride=(word >> 32 & 0x3FFF) << 4,
        swizzle=swizzle,
    )


def end_of(matrix: Matrix, rows: int, k_bytes: int) -> int:
    """The end of the last byte of a K-major operand that is sure, in the shared memory of its CTA."""
    groups, last = divmod(rows - 1, 8)
    at = matrix.start + groups * matrix.stride + last * PITCH[matrix.swizzle]
    if matrix.swizzle == "none":
        return at + (k_bytes // 16 - 1) * matrix.leading + 16
    # The exclusive-or moves pieces of 16 bytes inside of a row: of those no more than the first is sure.
    return at + 16
