"""A text of many entries without the bodies of those that are not wanted: they are not even taken apart into tokens.

Libraries put dozens of kernels into one text. Reading all of them for the one that runs takes as many times as long.
"""

from __future__ import annotations

import re

_HEAD = re.compile(r"^[ \t]*(?:\.\w+[ \t]+)*\.entry[ \t]+([\w$]+)", re.MULTILINE)
_NO_CODE = re.compile(r'"[^"\n]*"|//[^\n]*')
CLOSING = "\n}"


def without_other_bodies(text: str, entry: str) -> str:
    """The text with all lines inside the bodies of other entries empty; lines keep their numbers.

    Texts with block comments stay as they are, and so do bodies that do not end with a brace at the start of a line.
    """
    if "/*" in text or text.count(".entry") < 2:
        return text
    parts: list[str] = []
    done = 0
    for head in _HEAD.finditer(text):
        if head[1] == entry or head.start() < done:
            continue
        opened = text.find("{", head.end())
        end = _end(text, opened + 1) if opened > 0 else None
        if end is None:
            return text
        parts += [text[done : opened + 1], "\n" * text.count("\n", opened + 1, end)]
        done = end
    parts.append(text[done:])
    return "".join(parts)


def _end(text: str, start: int) -> int | None:
    """The position of the line break before the brace that closes a body; None where there is no such line."""
    depth = 0
    while (end := text.find(CLOSING, start)) >= 0:
        piece = text[start:end]
        code = _NO_CODE.sub("", piece) if '"' in piece or "//" in piece else piece
        depth += code.count("{") - code.count("}")
        if depth == 0:
            return end
        depth -= 1  # for the brace itself
        start = end + len(CLOSING)
    return None
