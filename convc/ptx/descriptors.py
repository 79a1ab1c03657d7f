"""Descriptors: the packed words that tell the tensor core where its operands lie and what they are.

A tcgen05.mma takes two 64-bit *shared-memory descriptors* (one for B, and one for A unless A is in tensor
memory) and one 32-bit *instruction descriptor* with the types and the shape; weight-stationary forms may
add a 64-bit *zero-column mask*. Each is a table of bit fields below; `encode_*` packs a record, `decode_*`
unpacks and checks a word. Every problem is a `ValueError` with a message that callers put into their own
error.

Source: PTX manual, sections "Shared memory descriptor", "Instruction descriptor", "Zero-column mask
descriptor".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Fields = Mapping[str, tuple[int, int]]
"""Field name -> (lowest bit, number of bits)."""

SHARED_FIELDS: Fields = {
    "start": (0, 14), "lbo": (16, 14), "sbo": (32, 14), "version": (46, 3),
    "base_offset": (49, 3), "lbo_absolute": (52, 1), "swizzle": (61, 3),
}  # fmt: skip
SHARED_VERSION = 1
SWIZZLE_CODES = {"none": 0, "128B_atom32": 1, "128B": 2, "64B": 4, "32B": 6}

INSTRUCTION_FIELDS: Fields = {
    "sparsity_selector": (0, 2), "sparse": (2, 1), "saturate": (3, 1), "d_type": (4, 2),
    "a_type": (7, 3), "b_type": (10, 3), "negate_a": (13, 1), "negate_b": (14, 1),
    "transpose_a": (15, 1), "transpose_b": (16, 1), "n": (17, 6), "m": (24, 5), "ws_max_shift": (30, 2),
}  # fmt: skip
BLOCK_SCALED_FIELDS: Fields = {
    "sparse": (2, 1), "sfb_id": (4, 2), "a_type": (7, 3), "b_type": (10, 3), "negate_a": (13, 1),
    "negate_b": (14, 1), "transpose_a": (15, 1), "transpose_b": (16, 1), "n": (17, 6), "scale_type": (23, 1),
    "m": (24, 5), "sfa_id": (29, 2),
}  # fmt: skip
_F8F6F4 = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
OPERAND_TYPES: Mapping[str, Mapping[str, int]] = {
    "f16": {"f16": 0, "bf16": 1}, "tf32": {"tf32": 2}, "f8f6f4": _F8F6F4, "i8": {"u8": 0, "s8": 1},
    "mxf8f6f4": _F8F6F4, "mxf4": {"e2m1": 1}, "mxf4nvf4": {"e2m1": 1},
}  # fmt: skip
"""Codes of the A and B types by kind."""
D_TYPES = {"f16": 0, "f32": 1, "s32": 2}
D_OF_KIND = {"f16": ("f16", "f32"), "tf32": ("f32",), "f8f6f4": ("f16", "f32"), "i8": ("s32",)}
SCALE_TYPES = {"ue4m3": 0, "ue8m0": 1}
SCALE_OF_KIND = {"mxf8f6f4": ("ue8m0",), "mxf4": ("ue8m0",), "mxf4nvf4": ("ue8m0", "ue4m3")}
WS_SHIFTS = {0: 0, 8: 1, 16: 2, 32: 3}
"""Largest column shift of a weight-stationary MMA -> code."""

ZERO_MASK_FIELDS: Fields = {
    "start_0": (0, 8), "start_1": (8, 8), "start_2": (16, 8), "start_3": (24, 8),
    "zero_first_0": (32, 1), "zero_first_1": (33, 1), "zero_first_2": (34, 1), "zero_first_3": (35, 1),
    "generate": (39, 1), "zeroed": (40, 8), "used": (48, 8), "shift": (56, 6),
}  # fmt: skip


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


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionDescriptor:
    """Types and shape of a tcgen05.mma without scale factors.

    Attributes:
        kind: f16, tf32, f8f6f4 or i8: the ``.kind`` of the instruction, which says what the type codes mean.
        d_type, a_type, b_type: type names.
        m, n: collective shape (of the pair under cta_group::2).
        transpose_a, transpose_b: the operand is MN-major.
        negate_a, negate_b: use the operand with its sign turned (not i8).
        saturate: clamp instead of wrap (i8 only).
        sparse, sparsity_selector: A is 2:4 sparse, and which of its metadata words apply.
        ws_max_shift: largest column shift of B that a weight-stationary MMA may use: 0, 8, 16 or 32.
    """

    kind: str
    d_type: str
    a_type: str
    b_type: str
    m: int
    n: int
    transpose_a: bool = False
    transpose_b: bool = False
    negate_a: bool = False
    negate_b: bool = False
    saturate: bool = False
    sparse: bool = False
    sparsity_selector: int = 0
    ws_max_shift: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockScaledDescriptor:
    """Types and shape of a block-scaled tcgen05.mma (kinds mxf8f6f4, mxf4, mxf4nvf4); D is f32.

    Attributes: as `InstructionDescriptor`, and
        scale_type: ue8m0 or ue4m3.
        sfa_id, sfb_id: which byte of a 32-bit tensor-memory cell holds the scale factor (0 to 3).
    """

    kind: str
    a_type: str
    b_type: str
    scale_type: str
    m: int
    n: int
    sfa_id: int = 0
    sfb_id: int = 0
    transpose_a: bool = False
    transpose_b: bool = False
    negate_a: bool = False
    negate_b: bool = False
    sparse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroColumnMask:
    """Which columns of B a weight-stationary MMA reads as zero, and how far it shifts them.

    The mask is periodic: a run of ``used`` columns, then a run of ``zeroed`` ones (or the other way round).
    It is made of one sub-mask over N for M = 128, two halves for M = 64, four quarters for M = 32.

    Attributes:
        starts: per sub-mask, how many columns into its first run it begins (0 to 255).
        zero_first: per sub-mask, True where the first run is a zeroed one.
        generate: False: no column is zeroed, and the fields above mean nothing.
        zeroed, used: lengths of the runs (1 to 256). The manual's table swaps these two fields; its examples,
            CUTLASS and an independent SM100 model have them as here.
        shift: column j of the MMA reads column j + shift of B (0 to 32).
    """

    starts: tuple[int, int, int, int] = (0, 0, 0, 0)
    zero_first: tuple[bool, bool, bool, bool] = (False, False, False, False)
    generate: bool = False
    zeroed: int = 1
    used: int = 1
    shift: int = 0


def encode_shared(desc: SharedDescriptor) -> int:
    """The 64-bit word."""
    for name in ("start", "lbo", "sbo"):
        if getattr(desc, name) % 16:
            raise ValueError(f"{name} must be a multiple of 16 bytes, got {getattr(desc, name)}")
    return _pack(
        SHARED_FIELDS,
        start=desc.start >> 4,
        lbo=desc.lbo >> 4,
        sbo=desc.sbo >> 4,
        version=SHARED_VERSION,
        base_offset=desc.base_offset,
        lbo_absolute=desc.lbo_absolute,
        swizzle=_code("swizzle", SWIZZLE_CODES, desc.swizzle),
    )


def decode_shared(value: int) -> SharedDescriptor:
    """The record of a 64-bit word; `ValueError` where a fixed bit or the swizzle code is wrong."""
    got = _unpack(SHARED_FIELDS, value, 64)
    if got["version"] != SHARED_VERSION:
        raise ValueError(f"bits 46-48 must be 0b001 on sm_100, got {got['version']:#05b}")
    return SharedDescriptor(
        start=got["start"] << 4,
        lbo=got["lbo"] << 4,
        sbo=got["sbo"] << 4,
        base_offset=got["base_offset"],
        lbo_absolute=bool(got["lbo_absolute"]),
        swizzle=_name("swizzle", SWIZZLE_CODES, got["swizzle"]),
    )


def encode_instruction(desc: InstructionDescriptor) -> int:
    """The 32-bit word; `ValueError` where the kind does not allow what the record asks for."""
    _check_instruction(desc)
    types = OPERAND_TYPES[desc.kind]
    return _pack(
        INSTRUCTION_FIELDS,
        sparsity_selector=desc.sparsity_selector,
        sparse=desc.sparse,
        saturate=desc.saturate,
        d_type=D_TYPES[desc.d_type],
        a_type=types[desc.a_type],
        b_type=types[desc.b_type],
        negate_a=desc.negate_a,
        negate_b=desc.negate_b,
        transpose_a=desc.transpose_a,
        transpose_b=desc.transpose_b,
        n=desc.n >> 3,
        m=desc.m >> 4,
        ws_max_shift=WS_SHIFTS[desc.ws_max_shift],
    )


def decode_instruction(value: int, kind: str) -> InstructionDescriptor:
    """The record of a 32-bit word under ``.kind::`` ``kind``, checked as `encode_instruction` does."""
    if kind not in D_OF_KIND:
        raise ValueError(f"kind must be one of {', '.join(D_OF_KIND)}, got {kind!r}")
    got = _unpack(INSTRUCTION_FIELDS, value, 32)
    desc = InstructionDescriptor(
        kind=kind,
        d_type=_name("D type", D_TYPES, got["d_type"]),
        **_operands(kind, got),
        **_flags(got),
        m=got["m"] << 4,
        n=got["n"] << 3,
        saturate=bool(got["saturate"]),
        sparsity_selector=got["sparsity_selector"],
        ws_max_shift=_name("largest shift", WS_SHIFTS, got["ws_max_shift"]),
    )
    _check_instruction(desc)
    return desc


def encode_block_scaled(desc: BlockScaledDescriptor) -> int:
    """The 32-bit word of a block-scaled instruction."""
    _check_block_scaled(desc)
    types = OPERAND_TYPES[desc.kind]
    return _pack(
        BLOCK_SCALED_FIELDS,
        sparse=desc.sparse,
        sfb_id=desc.sfb_id,
        sfa_id=desc.sfa_id,
        n=desc.n >> 3,
        m=desc.m >> 4,
        a_type=types[desc.a_type],
        b_type=types[desc.b_type],
        negate_a=desc.negate_a,
        negate_b=desc.negate_b,
        transpose_a=desc.transpose_a,
        transpose_b=desc.transpose_b,
        scale_type=SCALE_TYPES[desc.scale_type],
    )


def decode_block_scaled(value: int, kind: str) -> BlockScaledDescriptor:
    """The record of a 32-bit word under a block-scaled ``kind``."""
    if kind not in SCALE_OF_KIND:
        raise ValueError(f"kind must be one of {', '.join(SCALE_OF_KIND)}, got {kind!r}")
    got = _unpack(BLOCK_SCALED_FIELDS, value, 32)
    desc = BlockScaledDescriptor(
        kind=kind,
        **_operands(kind, got),
        **_flags(got),
        m=got["m"] << 4,
        n=got["n"] << 3,
        scale_type=_name("scale type", SCALE_TYPES, got["scale_type"]),
        sfa_id=got["sfa_id"],
        sfb_id=got["sfb_id"],
    )
    _check_block_scaled(desc)
    return desc


def encode_zero_mask(mask: ZeroColumnMask) -> int:
    """The 64-bit word."""
    _check_zero_mask(mask)
    starts = {f"start_{i}": start for i, start in enumerate(mask.starts)}
    firsts = {f"zero_first_{i}": first for i, first in enumerate(mask.zero_first)}
    runs = {"zeroed": mask.zeroed - 1, "used": mask.used - 1}
    return _pack(ZERO_MASK_FIELDS, **starts, **firsts, **runs, generate=mask.generate, shift=mask.shift)


def decode_zero_mask(value: int) -> ZeroColumnMask:
    """The record of a 64-bit word."""
    got = _unpack(ZERO_MASK_FIELDS, value, 64)
    mask = ZeroColumnMask(
        starts=tuple(got[f"start_{i}"] for i in range(4)),
        zero_first=tuple(bool(got[f"zero_first_{i}"]) for i in range(4)),
        generate=bool(got["generate"]),
        zeroed=got["zeroed"] + 1,
        used=got["used"] + 1,
        shift=got["shift"],
    )
    _check_zero_mask(mask)
    return mask


def _check_instruction(desc: InstructionDescriptor) -> None:
    _one_of("kind", desc.kind, D_OF_KIND)
    _one_of(f"D type of kind::{desc.kind}", desc.d_type, D_OF_KIND[desc.kind])
    _one_of("largest shift", desc.ws_max_shift, WS_SHIFTS)
    _check_common(desc)
    if desc.kind == "f16":
        if desc.a_type != desc.b_type:
            raise ValueError(f"kind::f16 takes A and B of one type, got {desc.a_type} and {desc.b_type}")
        if desc.d_type == "f16" and desc.a_type != "f16":
            raise ValueError(f"D of type f16 needs f16 operands, got {desc.a_type}")
    if desc.saturate and desc.kind != "i8":
        raise ValueError(f"saturate is for kind::i8 only, got kind::{desc.kind}")
    if desc.kind == "i8" and (desc.negate_a or desc.negate_b):
        raise ValueError("kind::i8 cannot negate an operand")


def _check_block_scaled(desc: BlockScaledDescriptor) -> None:
    _one_of("kind", desc.kind, SCALE_OF_KIND)
    _one_of(f"scale type of kind::{desc.kind}", desc.scale_type, SCALE_OF_KIND[desc.kind])
    _check_common(desc)
    _one_of("M of a block-scaled kind", desc.m, (128, 256))
    if desc.kind != "mxf8f6f4" and (desc.transpose_a or desc.transpose_b):
        raise ValueError(f"kind::{desc.kind} takes K-major operands only")


def _check_common(desc: InstructionDescriptor | BlockScaledDescriptor) -> None:
    for name, transposed in (("a", desc.transpose_a), ("b", desc.transpose_b)):
        element = getattr(desc, f"{name}_type")
        _one_of(f"{name.upper()} type of kind::{desc.kind}", element, OPERAND_TYPES[desc.kind])
        if transposed and element in ("e2m3", "e3m2", "e2m1"):
            raise ValueError(f"{name.upper()} of type {element} must be K-major")
    for name, unit in (("m", 16), ("n", 8)):
        extent = getattr(desc, name)
        if not unit <= extent <= 256 or extent % unit:
            raise ValueError(f"{name.upper()} must be a multiple of {unit} up to 256, got {extent}")


def _check_zero_mask(mask: ZeroColumnMask) -> None:
    if not 0 <= mask.shift <= 32:
        raise ValueError(f"shift must be in 0..32, got {mask.shift}")
    if len(mask.starts) != 4 or len(mask.zero_first) != 4:
        raise ValueError("a mask has four sub-masks: starts and zero_first take four entries each")


def _operands(kind: str, got: Mapping[str, int]) -> dict[str, str]:
    codes = OPERAND_TYPES[kind]
    return {f"{x}_type": _name(f"{x.upper()} type of kind::{kind}", codes, got[f"{x}_type"]) for x in "ab"}


def _flags(got: Mapping[str, int]) -> dict[str, bool]:
    names = ("negate_a", "negate_b", "transpose_a", "transpose_b", "sparse")
    return {name: bool(got[name]) for name in names}


def _one_of(what: str, value: object, choices) -> None:
    if value not in choices:
        raise ValueError(f"{what} must be one of {', '.join(map(str, choices))}, got {value}")


def _code(what: str, codes: Mapping, name: object) -> int:
    _one_of(what, name, codes)
    return codes[name]


def _name(what: str, codes: Mapping, code: int):
    for name, known in codes.items():
        if known == code:
            return name
    table = ", ".join(f"{known} = {name}" for name, known in codes.items())
    raise ValueError(f"code {code} is no {what} ({table})")


def _pack(fields: Fields, **values: int) -> int:
    word = 0
    for name, value in values.items():
        low, width = fields[name]
        if not 0 <= value < 1 << width:
            raise ValueError(f"{name} does not fit into its {width}-bit field (got {int(value)} for it)")
        word |= int(value) << low
    return word


def _unpack(fields: Fields, value: int, bits: int) -> dict[str, int]:
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{value:#x} is not a {bits}-bit word")
    known = 0
    for low, width in fields.values():
        known |= ((1 << width) - 1) << low
    if stray := value & ~known:
        listed = [bit for bit in range(bits) if stray >> bit & 1]
        raise ValueError(f"bit(s) {', '.join(map(str, listed))} must be 0")
    return {name: value >> low & ((1 << width) - 1) for name, (low, width) in fields.items()}
