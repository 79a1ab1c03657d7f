"""Texts from strangers, as they may be printed: names of layers and files can hold anything."""

from __future__ import annotations

_TURNING = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Marks that end a line or turn the direction of what follows, so that a table reads as something else."""
_SHOWN = {
    **{code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"},
    **{code: f"\\u{code:04x}" for code in _TURNING},
}


def visible(text: str) -> str:
    r"""Spell control characters, which a terminal would obey, as ``\x1b`` or ``\u202e``; lines and tabs stay."""
    return text.translate(_SHOWN)
