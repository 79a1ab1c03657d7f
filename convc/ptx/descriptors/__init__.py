"""Descriptors: the packed words that tell the tensor core where its operands lie and what they are.

A tcgen05.mma takes two 64-bit *shared-memory descriptors* (one for B, and one for A unless A is in tensor memory) and
one 32-bit *instruction descriptor* with the types and the shape; weight-stationary forms may add a 64-bit *zero-column
mask*. Each has a module with its table of bit fields and its record; ``encode_*`` packs a record, ``decode_*`` unpacks
and checks a word. Every problem is a `ValueError` with a message that callers put into their own error.
A wgmma (sm_90a) takes shared-memory descriptors whose fields lie elsewhere, `encode_warpgroup`.
"""

from convc.ptx.descriptors.bit_fields import Fields
from convc.ptx.descriptors.instruction import (
    BLOCK_SCALED_FIELDS,
    D_OF_KIND,
    INSTRUCTION_FIELDS,
    OPERAND_TYPES,
    SCALE_OF_KIND,
    WS_SHIFTS,
    BlockScaledDescriptor,
    InstructionDescriptor,
    decode_block_scaled,
    decode_instruction,
    encode_block_scaled,
    encode_instruction,
)
from convc.ptx.descriptors.shared import (
    SHARED_FIELDS,
    SWIZZLE_CODES,
    WARPGROUP_FIELDS,
    WARPGROUP_SWIZZLE_CODES,
    SharedDescriptor,
    decode_shared,
    decode_warpgroup,
    encode_shared,
    encode_warpgroup,
    old_version,
)
from convc.ptx.descriptors.zero_mask import ZERO_MASK_FIELDS, ZeroColumnMask, decode_zero_mask, encode_zero_mask

__all__ = [
    "BLOCK_SCALED_FIELDS",
    "D_OF_KIND",
    "INSTRUCTION_FIELDS",
    "OPERAND_TYPES",
    "SCALE_OF_KIND",
    "SHARED_FIELDS",
    "SWIZZLE_CODES",
    "WARPGROUP_FIELDS",
    "WARPGROUP_SWIZZLE_CODES",
    "WS_SHIFTS",
    "ZERO_MASK_FIELDS",
    "BlockScaledDescriptor",
    "Fields",
    "InstructionDescriptor",
    "SharedDescriptor",
    "ZeroColumnMask",
    "decode_block_scaled",
    "decode_instruction",
    "decode_shared",
    "decode_warpgroup",
    "decode_zero_mask",
    "encode_block_scaled",
    "encode_instruction",
    "encode_shared",
    "encode_warpgroup",
    "encode_zero_mask",
    "old_version",
]
