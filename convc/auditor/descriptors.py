"""Descriptors, field by field: of instructions of tcgen05.mma, and of matrices in shared memory.

PTX manual, 9.7.16.4.2, 9.7.16.2.1, 9.7.16.4.1 for tcgen05; 9.7.15.5.1.2 for matrices of wgmma.

`faults` says what is wrong with one, in sentences; none where it is right. Nothing of it is shared with whoever writes
descriptors.
"""

from __future__ import annotations

from dataclasses import dataclass

SCALED = ("mxf8f6f4", "mxf4", "mxf4nvf4")
SMALL = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
TYPES = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": SMALL,
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": SMALL,
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
"""Numbers of the types of A and B by kind."""

SUMS = {"f16": (0, 1), "tf32": (1,), "f8f6f4": (0, 1), "i8": (2,)}
"""Numbers of the types of D: 0 f16, 1 f32, 2 s32."""

K_BYTES = 32
"""Bytes of a row of A or B that one instruction takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """The instruction itself: kind, CTAs, variants.

    Attributes:
        kind: without ``kind::``. group: CTAs. stationary: ``.ws``. sparse: ``.sp``. block_scale: as said.
        size: what ``.scale_vec`` or ``.block`` says, "" without one. a_in_tensor: A comes from tensor memory.
    """

    kind: str
    group: int
    stationary: bool = False
    sparse: bool = False
    size: str = ""
    a_in_tensor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Rows and columns of the product, and whether A and B are stored with M or N innermost."""

    m: int
    n: int
    a_transposed: bool
    b_transposed: bool


def field(word: int, low: int, high: int) -> int:
    """The bits ``low`` to ``high`` of a word."""
    return word >> low & ((1 << (high - low + 1)) - 1)


def shape_of(word: int, form: Instruction) -> Shape:
    """The shape that a descriptor says."""
    return Shape(
        m=field(word, 24, 28) << 4,
        n=field(word, 17, 22) << 3,
        a_transposed=bool(field(word, 15, 15)),
        b_transposed=bool(field(word, 16, 16)),
    )


def faults(word: int, form: Instruction) -> list[str]:
    """All that is wrong with a descriptor, in sentences."""
    found = _flags(word, form) + _types(word, form) + _shape(shape_of(word, form), form)
    return [f"descriptor 0x{word:08x} of kind::{form.kind}: {what}" for what in found]


def _flags(word: int, form: Instruction) -> list[str]:
    """Bits that are fixed, or that only some kinds have."""
    scaled = form.kind in SCALED
    found: list[str] = []
    if bool(field(word, 2, 2)) != form.sparse:
        found.append(
            f"bit 2 (sparse) is {field(word, 2, 2)}, and the instruction is {'' if form.sparse else 'not '}.sp"
        )
    if field(word, 0, 1) and not (form.sparse and not scaled):
        found.append("bits 0-1 are not 0")
    if field(word, 3, 3) and form.kind != "i8":
        found.append("bit 3 (saturate) is for i8 alone")
    if form.kind == "i8" and field(word, 13, 14):
        found.append("i8 has no negation")
    if form.kind in ("mxf4", "mxf4nvf4") and field(word, 15, 16):
        found.append("operands of 4 bits cannot be transposed")
    if form.a_in_tensor and field(word, 15, 15):
        found.append("A in tensor memory cannot be transposed")
    if scaled:
        if field(word, 24, 26):
            found.append("bits 24-26 are not 0")
        if field(word, 31, 31):
            found.append("bit 31 (K of the sm_103a) is not 0")
    else:
        if field(word, 6, 6) or field(word, 23, 23) or field(word, 29, 29):
            found.append("bit 6, 23 or 29 is not 0")
        if field(word, 30, 31) and not form.stationary:
            found.append("a largest shift is for .ws alone")
    return found


def _types(word: int, form: Instruction) -> list[str]:
    types = TYPES.get(form.kind)
    if types is None:
        return []
    a = field(word, 7, 9)
    b = field(word, 10, 11 if form.kind in ("mxf4", "mxf4nvf4") else 12)
    found = [f"{name} has type {number}" for name, number in (("A", a), ("B", b)) if number not in types]
    if form.kind == "f16" and a != b:
        found.append("A and B are f16 and bf16")
    if form.kind in SUMS:
        d = field(word, 4, 5)
        if d not in SUMS[form.kind]:
            found.append(f"D has type {d}")
        elif form.kind == "f16" and d == 0 and a == 1:
            found.append("D is f16 and the operands are bf16")
    else:
        found += _scale_type(field(word, 23, 23), form)
    return found


def _scale_type(ue8m0: int, form: Instruction) -> list[str]:
    """The type of the scale factors: 1 ue8m0, 0 ue4m3."""
    if form.kind != "mxf4nvf4" and not ue8m0:
        return [f"scale factors of {form.kind} are ue8m0, bit 23 says ue4m3"]
    if form.kind == "mxf4nvf4" and not ue8m0 and form.size in ("scale_vec::2X", "block32"):
        return ["factors of 32 elements are ue8m0, bit 23 says ue4m3"]
    return []


def _shape(shape: Shape, form: Instruction) -> list[str]:
    m = shape.m
    n = shape.n
    if form.stationary:
        good = m in (32, 64, 128) and n in (64, 128, 256) and (not form.sparse or n in (64, 128))
        return [] if good else [f"{m} x {n} is no shape of .ws"]
    if form.kind in SCALED:
        rows = (128,) if form.group == 1 else (128, 256)
    else:
        rows = (64, 128) if form.group == 1 else (128, 256)
    if m not in rows:
        return [f"M is {m}, not {' or '.join(map(str, rows))}"]
    if not 0 < n <= 256:
        return [f"N is {n}"]
    if form.kind == "i8":
        good = n in (8, 16, 24, 32) or n % 16 == 0 if form.group == 1 else n % 32 == 0
    else:
        good = n % (8 if form.group == 1 else 16) == 0
    return [] if good else [f"N is {n} with cta_group::{form.group}"]


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
