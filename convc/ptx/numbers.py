"""Numbers of PTX text (manual 4.5 "Constants"), read with care: they come from strangers."""

from __future__ import annotations

import math
import re
import struct
from functools import lru_cache

from convc.ptx.syntax import Imm

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)U?", re.ASCII)
_FLOAT = re.compile(r"([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]{1,4})?", re.ASCII)
_PATTERN = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})", re.ASCII)

MAX_DIGITS = 80


def read_integer(text: str) -> int | None:
    """An integer constant: decimal, ``0x``, ``0b``, octal, with ``U`` or without; None if it is not one of 64 bits."""
    if len(text) > MAX_DIGITS or not _INTEGER.fullmatch(text):
        return None
    digits = text.rstrip("U")
    if digits[:2] in ("0x", "0X"):
        value = int(digits[2:], 16)
    elif digits[:2] in ("0b", "0B"):
        value = int(digits[2:], 2)
    else:
        value = int(digits, 8 if digits[0] == "0" else 10)
    return value if value < 1 << 64 else None


@lru_cache(maxsize=4096)
def read_number(text: str, *, negative: bool = False) -> Imm | None:
    """A constant; None for a text that is not one. ``0f…`` and ``0d…`` take no sign."""
    pattern = _PATTERN.fullmatch(text)
    if pattern is not None:
        if negative:
            return None
        single, double = pattern.groups()
        if single:
            return Imm(struct.unpack(">f", bytes.fromhex(single))[0], True, int(single, 16), 32)
        return Imm(struct.unpack(">d", bytes.fromhex(double))[0], True, int(double, 16), 64)
    integer = read_integer(text)
    if integer is not None:
        value = -integer if negative else integer
        return Imm(value, False, value & (1 << 64) - 1)
    if len(text) > MAX_DIGITS or not _FLOAT.fullmatch(text):
        return None
    number = -float(text) if negative else float(text)
    if math.isinf(number):
        return None
    return Imm(number, True, struct.unpack(">Q", struct.pack(">d", number))[0], 64)
