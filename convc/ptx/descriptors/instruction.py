"""Instruction descriptors: types and shape of a tcgen05.mma (PTX manual, section "Instruction descriptor")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from convc.ptx.descriptors.bit_fields import Fields, check_choice, name_of, pack, unpack

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


def encode_instruction(desc: InstructionDescriptor) -> int:
    """The 32-bit word of a descriptor; `ValueError` where the kind does not allow what the record asks for."""
    _check_instruction(desc)
    types = OPERAND_TYPES[desc.kind]
    return pack(
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
    got = unpack(INSTRUCTION_FIELDS, value, 32)
    desc = InstructionDescriptor(
        kind=kind,
        d_type=name_of("D type", D_TYPES, got["d_type"]),
        a_type=_operand_type("A", kind, got["a_type"]),
        b_type=_operand_type("B", kind, got["b_type"]),
        negate_a=bool(got["negate_a"]),
        negate_b=bool(got["negate_b"]),
        transpose_a=bool(got["transpose_a"]),
        transpose_b=bool(got["transpose_b"]),
        sparse=bool(got["sparse"]),
        m=got["m"] << 4,
        n=got["n"] << 3,
        saturate=bool(got["saturate"]),
        sparsity_selector=got["sparsity_selector"],
        ws_max_shift=name_of("largest shift", WS_SHIFTS, got["ws_max_shift"]),
    )
    _check_instruction(desc)
    return desc


def encode_block_scaled(desc: BlockScaledDescriptor) -> int:
    """The 32-bit word of a block-scaled instruction; `ValueError` as of `encode_instruction`."""
    _check_block_scaled(desc)
    types = OPERAND_TYPES[desc.kind]
    return pack(
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
    got = unpack(BLOCK_SCALED_FIELDS, value, 32)
    desc = BlockScaledDescriptor(
        kind=kind,
        a_type=_operand_type("A", kind, got["a_type"]),
        b_type=_operand_type("B", kind, got["b_type"]),
        negate_a=bool(got["negate_a"]),
        negate_b=bool(got["negate_b"]),
        transpose_a=bool(got["transpose_a"]),
        transpose_b=bool(got["transpose_b"]),
        sparse=bool(got["sparse"]),
        m=got["m"] << 4,
        n=got["n"] << 3,
        scale_type=name_of("scale type", SCALE_TYPES, got["scale_type"]),
        sfa_id=got["sfa_id"],
        sfb_id=got["sfb_id"],
    )
    _check_block_scaled(desc)
    return desc


def _operand_type(operand: str, kind: str, code: int) -> str:
    return name_of(f"{operand} type of kind::{kind}", OPERAND_TYPES[kind], code)


def _check_instruction(desc: InstructionDescriptor) -> None:
    check_choice("kind", desc.kind, D_OF_KIND)
    check_choice(f"D type of kind::{desc.kind}", desc.d_type, D_OF_KIND[desc.kind])
    check_choice("largest shift", desc.ws_max_shift, WS_SHIFTS)
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
    check_choice("kind", desc.kind, SCALE_OF_KIND)
    check_choice(f"scale type of kind::{desc.kind}", desc.scale_type, SCALE_OF_KIND[desc.kind])
    _check_common(desc)
    check_choice("M of a block-scaled kind", desc.m, (128, 256))
    if desc.kind != "mxf8f6f4" and (desc.transpose_a or desc.transpose_b):
        raise ValueError(f"kind::{desc.kind} takes K-major operands only")


def _check_common(desc: InstructionDescriptor | BlockScaledDescriptor) -> None:
    operands = (("A", desc.a_type, desc.transpose_a), ("B", desc.b_type, desc.transpose_b))
    for name, element, transposed in operands:
        check_choice(f"{name} type of kind::{desc.kind}", element, OPERAND_TYPES[desc.kind])
        if transposed and element in ("e2m3", "e3m2", "e2m1"):
            raise ValueError(f"{name} of type {element} must be K-major")
    for name, extent, unit in (("M", desc.m, 16), ("N", desc.n, 8)):
        if not unit <= extent <= 256 or extent % unit:
            raise ValueError(f"{name} must be a multiple of {unit} up to 256, got {extent}")
