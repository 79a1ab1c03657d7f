"""The name that is nearest to an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from itertools import islice

LISTED = 8
"""Names that a hint lists."""


def nearest(name: str, known: Iterable[str], ratio: float = 0.6) -> str | None:
    """The known name that is nearest to one that there is not, in whatever case; None where none is near.

    ``ratio`` is how much of both has to agree, 0 to 1 (`difflib`).
    """
    return next(iter(some_near(name, known, 1, ratio)), None)


def some_near(name: str, known: Iterable[str], count: int = 3, ratio: float = 0.5) -> list[str]:
    """Up to so many known names that are near one that there is not, the nearest first; otherwise as `nearest`."""
    by_case = {one.casefold(): one for one in islice(known, 5000)}
    return [by_case[one] for one in difflib.get_close_matches(name[:200].casefold(), by_case, n=count, cutoff=ratio)]


def hint_of(name: str, known: Sequence[str], what: str) -> str:
    """Name the nearest of the known names, if one is near, and list those there are.

    Example:
        >>> hint_of("xx", ["x", "y"], "inputs")
        "did you mean 'x'? inputs: 'x', 'y'"
    """
    more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
    listed = f"{what}: {', '.join(map(repr, known[:LISTED])) or 'none'}{more}"
    near = nearest(name, known)
    return listed if near is None else f"did you mean {near!r}? {listed}"
