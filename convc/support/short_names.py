"""Names that are shortened where people read them: layers of nested modules, mangled names of C++ templates."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

LONGEST_NAME = 64
"""Characters of a name that a table or a sentence has at most, unless two names of a table would then be one."""

_LONG = re.compile(rf"[\w$]{{{LONGEST_NAME + 1},}}")
"""A name of PTX or C++ that is longer."""


def short_names(names: Sequence[str]) -> list[str]:
    """Names with a ``*`` in place of their middle where they are long: no two that differ become the same."""
    kept = {name: name if len(name) <= LONGEST_NAME else "" for name in names}
    length = LONGEST_NAME
    while "" in kept.values():
        made = {name: name if len(name) <= length else _cut(name, length) for name, short in kept.items() if not short}
        counts = Counter((*kept.values(), *made.values()))
        kept |= {name: short for name, short in made.items() if counts[short] == 1 or short == name}
        length *= 2
    return [kept[name] for name in names]


def with_short_names(sentence: str) -> str:
    """A sentence in which long names have a ``*`` in place of their middle."""
    return _LONG.sub(lambda found: _cut(found[0], LONGEST_NAME), sentence)


def _cut(name: str, length: int) -> str:
    """A name of so many characters: its start, a star, and its end."""
    return f"{name[: length // 2 - 1]}*{name[-length // 2 :]}"
