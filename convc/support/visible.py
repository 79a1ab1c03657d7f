"""Texts from strangers, as they may be printed: names of layers and files can hold anything."""

from __future__ import annotations

_SHOWN = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def visible(text: str) -> str:
    r"""Spell control characters, which a terminal would obey, as ``\x1b``; lines and tabs stay."""
    return text.translate(_SHOWN)
