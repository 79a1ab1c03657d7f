"""Words made of bit fields: a table says where each field lies, and records are packed into words and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

Fields = Mapping[str, tuple[int, int]]
"""Field name -> (lowest bit, number of bits)."""

Key = TypeVar("Key", str, int)


def pack(fields: Fields, **values: int) -> int:
    """The word with these values in its fields, and zero in the others; ValueError where one does not fit."""
    word = 0
    for name, value in values.items():
        low, width = fields[name]
        if not 0 <= value < 1 << width:
            raise ValueError(f"{name} does not fit into its {width}-bit field (got {int(value)} for it)")
        word |= int(value) << low
    return word


def unpack(fields: Fields, value: int, bits: int) -> dict[str, int]:
    """The fields of a word of ``bits`` bits; ValueError where a bit outside of all fields is set."""
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{value:#x} is not a {bits}-bit word")
    known = 0
    for low, width in fields.values():
        known |= ((1 << width) - 1) << low
    if stray := value & ~known:
        listed = [bit for bit in range(bits) if stray >> bit & 1]
        raise ValueError(f"bit(s) {', '.join(map(str, listed))} must be 0")
    return {name: value >> low & ((1 << width) - 1) for name, (low, width) in fields.items()}


def check_choice(what: str, value: object, choices: Collection[object]) -> None:
    """ValueError where the value is none of the choices."""
    if value not in choices:
        raise ValueError(f"{what} must be one of {', '.join(map(str, choices))}, got {value}")


def code_of(what: str, codes: Mapping[str, int], name: str) -> int:
    """The code of a name; ValueError where it has none."""
    check_choice(what, name, codes)
    return codes[name]


def name_of(what: str, codes: Mapping[Key, int], code: int) -> Key:
    """What a code stands for; ValueError where it stands for nothing."""
    for name, known in codes.items():
        if known == code:
            return name
    table = ", ".join(f"{known} = {name}" for name, known in codes.items())
    raise ValueError(f"code {code} is no {what} ({table})")
