"""Families of tests of which some run by default, and all in the slow part: ``@pytest.mark.one_of(3)``."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable

import pytest


def chosen(names: Collection[str], count: int) -> set[str]:
    """One of ``count`` of the names, and at least one; which ones does not depend on their order."""
    drawn = sorted(names, key=lambda name: zlib.crc32(name.encode()))
    return set(drawn[: -(-len(drawn) // count)])


def leave_to_the_slow_part(items: Iterable[pytest.Item]) -> None:
    """Mark the tests slow that their family, the parameters of a function, does not run by default."""
    families: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("one_of")
        if mark is not None and item.get_closest_marker("slow") is None:
            families[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    for (_, count), family in families.items():
        kept = chosen([item.nodeid for item in family], count)
        for item in family:
            if item.nodeid not in kept:
                item.add_marker(pytest.mark.slow)
