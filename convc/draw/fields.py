"""Descriptors field by field: name, bits, value, and what the value means.

The places of the fields are the tables that `convc.ptx.descriptors` packs and unpacks words with, and of a tensor map
the record of the simulator (`convc.machine.tma.tensormap_bytes`; the encoding of NVIDIA's driver is not public).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from convc.errors import InputError, MachineFault
from convc.ir.tensormap import TensorMap
from convc.machine.tma import tensormap_bytes
from convc.ptx.descriptors import (
    BLOCK_SCALED_FIELDS,
    D_OF_KIND,
    INSTRUCTION_FIELDS,
    OPERAND_TYPES,
    SCALE_OF_KIND,
    SHARED_FIELDS,
    SWIZZLE_CODES,
    WS_SHIFTS,
    ZERO_MASK_FIELDS,
    Fields,
    decode_block_scaled,
    decode_instruction,
    decode_shared,
    decode_zero_mask,
)
from convc.ptx.descriptors.bit_fields import unpack
from convc.ptx.descriptors.instruction import D_TYPES, SCALE_TYPES

WORD_BITS: Mapping[str, int] = {"matrix": 64, "instruction": 32, "zero-mask": 64, "tensormap": 1024}
"""Kinds of descriptors, and their bits."""

KINDS = (*D_OF_KIND, *SCALE_OF_KIND)
"""Values of ``.kind`` of a tcgen05.mma, which says what the codes of an instruction descriptor mean."""

Meaning = Callable[[int], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a descriptor.

    Attributes:
        name: as `convc.ptx.descriptors` calls it; empty for bits that belong to no field.
        low, width: its lowest bit, and how many it has.
        value: of the bits.
        meaning: of the value, in words.
    """

    name: str
    low: int
    width: int
    value: int
    meaning: str

    @property
    def bits(self) -> str:
        """``17-22``, or ``2`` for a single bit."""
        return str(self.low) if self.width == 1 else f"{self.low}-{self.low + self.width - 1}"

    @property
    def digits(self) -> str:
        """Its value, every bit of a short field."""
        return f"{self.value:#x}" if self.width > 4 else f"{self.value:0{self.width}b}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedDescriptor:
    """A descriptor and its fields.

    Attributes:
        name: of its kind, a key of `WORD_BITS`.
        kind: of the instruction, where that is known; else "".
        word: its bits as a number; of a tensor map, its bytes in little-endian order.
        fields: from bit 0 up, without gaps.
        wrong: why sm_100a takes no such descriptor; "" where nothing is known to be wrong.
    """

    name: str
    kind: str
    word: int
    fields: tuple[Field, ...]
    wrong: str

    @property
    def size(self) -> int:
        """Bits of the whole."""
        return WORD_BITS[self.name]

    @property
    def title(self) -> str:
        """Its kind and its value."""
        if self.name == "tensormap":
            return "tensor map of 128 bytes (the simulator's own encoding)"
        of = f" of kind::{self.kind}" if self.kind else ""
        return f"{self.name} descriptor {self.word:#0{self.size // 4 + 2}x}{of}"


def explain_word(digits: str, name: str | None = None, kind: str | None = None) -> ExplainedDescriptor:
    """Explain a descriptor that is written down.

    Args:
        digits: hexadecimal with ``0x``, or decimal. A tensor map: 256 hexadecimal digits, its bytes by address.
        name: of its kind, a key of `WORD_BITS`; by default what has as many bits.
        kind: of the tcgen05.mma, for an instruction descriptor.

    Raises:
        InputError: this is no number, or one with too many bits.
    """
    if name is not None and name not in WORD_BITS:
        raise InputError(f"expected a descriptor of {', '.join(WORD_BITS)}, got {name!r}")
    plain = digits.lower().replace("_", "")
    if name == "tensormap" or (name is None and len(plain.removeprefix("0x")) == 256):
        _refuse_kind(kind, "tensormap")
        return explain_tensormap(_bytes(plain))
    word = _number(plain, digits)
    fits = [known for known in ("instruction", "matrix") if word < 1 << WORD_BITS[known]]
    if not fits:
        raise InputError(
            f"expected a descriptor of at most 64 bits, got {word.bit_length()} bits",
            hint="a tensor map is given as 256 hexadecimal digits",
        )
    chosen = name or fits[0]
    if word >= 1 << WORD_BITS[chosen]:
        raise InputError(f"expected {WORD_BITS[chosen]} bits for --as {chosen}, got {word.bit_length()} bits: {digits}")
    if chosen == "instruction":
        return explain_instruction(word, kind)
    _refuse_kind(kind, chosen)
    return explain_matrix(word) if chosen == "matrix" else explain_zero_mask(word)


def explain_matrix(word: int) -> ExplainedDescriptor:
    """Explain a shared-memory descriptor, 64 bits."""
    meanings: dict[str, Meaning] = {
        "start": lambda value: f"the first row lies at {value << 4:#x} = {value << 4}",
        "lbo": lambda value: f"leading dimension: {value << 4} bytes",
        "sbo": lambda value: f"stride dimension: {value << 4} bytes",
        "version": lambda value: "sm_100" if value == 1 else "must be 1 on sm_100",
        "base_offset": lambda value: f"the swizzle pattern starts at 128-byte line {value}",
        "lbo_absolute": lambda value: "lbo is an address (sm_103)" if value else "lbo is a distance",
        "swizzle": lambda value: _named(SWIZZLE_CODES, value),
    }
    return _explained("matrix", "", word, SHARED_FIELDS, meanings, lambda: decode_shared(word))


def explain_instruction(word: int, kind: str | None = None) -> ExplainedDescriptor:
    """Explain an instruction descriptor, 32 bits; without its ``.kind`` type codes have several meanings.

    InputError for a kind that there is not.
    """
    if kind is not None and kind not in KINDS:
        raise InputError(f"expected a kind of tcgen05.mma, {', '.join(KINDS)}, got {kind!r}")
    scaled = kind in SCALE_OF_KIND
    kinds = (*D_OF_KIND,) if kind is None else (kind,)
    meanings: dict[str, Meaning] = {
        "sparsity_selector": lambda value: f"metadata word {value} of a sparse A",
        "sparse": lambda value: "A is 2:4 sparse" if value else "A is dense",
        "saturate": lambda value: "sums are clamped" if value else "sums wrap",
        "d_type": lambda value: _named(D_TYPES, value),
        "a_type": lambda value: _types(kinds, value),
        "b_type": lambda value: _types(kinds, value),
        "negate_a": lambda value: "-A" if value else "A as it is",
        "negate_b": lambda value: "-B" if value else "B as it is",
        "transpose_a": lambda value: "A is MN-major" if value else "A is K-major",
        "transpose_b": lambda value: "B is MN-major" if value else "B is K-major",
        "n": lambda value: f"N = {value << 3}",
        "m": lambda value: f"M = {value << 4}",
        "ws_max_shift": lambda value: f"B shifts by {_named(WS_SHIFTS, value)} columns at most (.ws)",
        "sfa_id": lambda value: f"scale factors of A from byte {value} of a cell",
        "sfb_id": lambda value: f"scale factors of B from byte {value} of a cell",
        "scale_type": lambda value: f"scale factors are {_named(SCALE_TYPES, value)}",
    }

    def check() -> object:
        if kind is None:
            return unpack(INSTRUCTION_FIELDS, word, 32)
        return decode_block_scaled(word, kind) if scaled else decode_instruction(word, kind)

    table = BLOCK_SCALED_FIELDS if scaled else INSTRUCTION_FIELDS
    return _explained("instruction", kind or "", word, table, meanings, check)


def explain_zero_mask(word: int) -> ExplainedDescriptor:
    """Explain a zero-column mask of a weight-stationary MMA, 64 bits."""
    meanings: dict[str, Meaning] = {
        "generate": lambda value: "columns are zeroed" if value else "no column is zeroed",
        "zeroed": lambda value: f"{value + 1} columns are zeroed in a row",
        "used": lambda value: f"{value + 1} columns are used in a row",
        "shift": lambda value: f"column j reads column j + {value} of B",
    }
    for part in range(4):
        meanings[f"start_{part}"] = lambda value, part=part: f"sub-mask {part} begins {value} columns into a run"
        meanings[f"zero_first_{part}"] = lambda value: f"the first run is {'zeroed' if value else 'used'}"
    return _explained("zero-mask", "", word, ZERO_MASK_FIELDS, meanings, lambda: decode_zero_mask(word))


def explain_tensormap(raw: bytes) -> ExplainedDescriptor:
    """Explain the 128 bytes of a tensor map of the simulator."""
    places: dict[str, tuple[int, int]] = {}
    meanings: dict[str, Meaning] = {}
    record = tensormap_bytes.RECORD
    for name, (kind, offset, *_) in (record.fields or {}).items():
        for index in range(kind.shape[0] if kind.shape else 1):
            label = f"{name}[{index}]" if kind.shape else name
            bits = 8 * kind.base.itemsize
            places[label] = (8 * offset + index * bits, bits)
            meanings[label] = _tensormap_meaning(name, kind.base)
    word = int.from_bytes(raw, "little")
    return _explained("tensormap", "", word, places, meanings, lambda: tensormap_bytes.decode(raw))


def explain_map(tensor_map: TensorMap) -> ExplainedDescriptor:
    """Explain a tensor map of a launch file, as the simulator would encode it at address 0."""
    return explain_tensormap(tensormap_bytes.encode(tensor_map, 0))


def _tensormap_meaning(name: str, kind: np.dtype) -> Meaning:
    """What a number of that field says."""
    tables = {
        "mode": tensormap_bytes.MODES,
        "elemtype": tensormap_bytes.TYPES,
        "interleave_layout": tensormap_bytes.INTERLEAVES,
        "fill_mode": tensormap_bytes.FILLS,
        "swizzle_mode": tuple("/".join(kinds) for kinds in tensormap_bytes.SWIZZLES),
    }

    def meaning(value: int) -> str:
        if name in tables:
            return tables[name][value] if value < len(tables[name]) else "no such code"
        if name == "rank" or name in tensormap_bytes.MINUS_ONE:
            return str(value + 1)
        if name == "magic":
            return "a map of this machine" if value == tensormap_bytes.MAGIC else "no map of this machine"
        if kind.kind == "i" and value >> (8 * kind.itemsize - 1):
            return str(value - (1 << 8 * kind.itemsize))
        return f"{value:#x}" if name == "global_address" else str(value)

    return meaning


def _explained(
    name: str, kind: str, word: int, table: Fields, meanings: Mapping[str, Meaning], check: Callable[[], object]
) -> ExplainedDescriptor:
    fields: list[Field] = []
    end = 0
    places = sorted((low, width, label) for label, (low, width) in table.items())
    for low, width, label in [*places, (WORD_BITS[name], 0, "")]:
        if low > end:
            gap = _bits(word, end, low - end)
            fields.append(Field(name="", low=end, width=low - end, value=gap, meaning="must be 0" if gap else "0"))
        if label:
            value = _bits(word, low, width)
            fields.append(Field(name=label, low=low, width=width, value=value, meaning=meanings[label](value)))
        end = low + width
    wrong = ""
    try:
        check()
    except ValueError as problem:
        wrong = str(problem)
    except (MachineFault, IndexError) as problem:
        wrong = problem.message if isinstance(problem, MachineFault) else "a reserved code"
    return ExplainedDescriptor(name=name, kind=kind, word=word, fields=tuple(fields), wrong=wrong)


def _bits(word: int, low: int, width: int) -> int:
    return word >> low & ((1 << width) - 1)


def _named(codes: Mapping[str, int] | Mapping[int, int], code: int) -> str:
    return next((str(name) for name, known in codes.items() if known == code), "no such code")


def _types(kinds: tuple[str, ...], code: int) -> str:
    """The operand type of a code under each kind that has it."""
    found = {kind: _named(OPERAND_TYPES[kind], code) for kind in kinds if code in OPERAND_TYPES[kind].values()}
    if not found:
        return "no such code"
    if len(kinds) == 1:
        return found[kinds[0]]
    return ", ".join(f"{element} (kind::{kind})" for kind, element in found.items())


def _refuse_kind(kind: str | None, name: str) -> None:
    if kind is not None:
        raise InputError(f"--kind is for an instruction descriptor, not for --as {name}: leave it out")


def _number(plain: str, digits: str) -> int:
    """The number that a text spells."""
    if not re.fullmatch(r"0x[0-9a-f]+|[0-9]{1,40}", plain):
        raise InputError(
            f"expected a descriptor such as 0x8100490, got {digits[:40]!r}", hint="hexadecimal with 0x, or decimal"
        )
    return int(plain, 0 if plain.startswith("0x") else 10)


def _bytes(plain: str) -> bytes:
    """The 128 bytes that a text spells, in the order of their addresses."""
    digits = plain.removeprefix("0x")
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        raw = b""
    if len(raw) != tensormap_bytes.SIZE:
        raise InputError(
            f"expected 256 hexadecimal digits for a tensor map, 128 bytes by address, got {len(digits)}: {plain[:40]}"
        )
    return raw
