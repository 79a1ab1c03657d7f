"""A text of many entries with nothing but the names of those that are not wanted.

What stands in their parameters and bodies is not even taken apart into tokens.

Libraries put dozens of kernels into one text. Reading all of them for the one that runs takes as many times as long.
"""

from __future__ import annotations

import re

_ENTRY = ".entry"
_HEAD = re.compile(r"(?:[ \t]*\.\w+)*[ \t]*\.entry[ \t]+([\w$]+)")
_NO_CODE = re.compile(r'"[^"\n]*"|//[^\n]*')
_BRACE_ASIDE = re.compile(r'"[^"\n{}]*+[{}]|//[^\n{}]*+[{}]')
"""A brace that may be inside of a string or a comment."""

CLOSING = "\n}"


def without_other_bodies(text: str, entry: str) -> str:
    """The text in which other entries have neither parameters nor a body; lines keep their numbers.

    Texts with block comments stay as they are, and so do bodies that do not end with a brace at the start of a line.
    """
    if "/*" in text or text.count(_ENTRY) < 2:
        return text
    aside = _BRACE_ASIDE.search(text) is not None
    parts: list[str] = []
    done = 0
    at = 0
    while (at := text.find(_ENTRY, at)) >= 0:
        head = _HEAD.match(text, max(done, text.rfind("\n", done, at) + 1))
        at += len(_ENTRY)
        if head is None or head[1] == entry:
            continue
        opened = text.find("{", head.end())
        end = _end(text, opened + 1, aside) if opened > 0 else None
        if end is None:
            return text
        named = text[done : head.end()]
        parts += [named, "\n" * text.count("\n", head.end(), opened), "{", "\n" * text.count("\n", opened, end)]
        done = at = end
    parts.append(text[done:])
    return "".join(parts)


def _end(text: str, start: int, aside: bool) -> int | None:
    """The position of the line break before the brace that closes a body; None where there is no such line.

    ``aside``: strings and comments may have braces.
    """
    depth = 0
    while (end := text.find(CLOSING, start)) >= 0:
        if aside:
            code = _NO_CODE.sub("", text[start:end])
            depth += code.count("{") - code.count("}")
        else:
            depth += text.count("{", start, end) - text.count("}", start, end)
        if depth == 0:
            return end
        depth -= 1  # for the brace itself
        start = end + len(CLOSING)
    return None
