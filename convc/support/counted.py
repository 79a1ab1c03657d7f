"""A number and what it counts."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """``1 layer``, ``2 layers``; ``many`` where the plural is not formed with an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"
