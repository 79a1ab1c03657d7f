"""Families of tests of which some run by default, and all in the slow part."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import pytest


def one_of(count: int, names: Iterable[str]) -> list[Any]:
    """Parameters of a test, all of ``names``: one of ``count``, chosen by its name, is not marked slow.

    Which one that is does not depend on the others, so that a new name leaves the old ones where they are.
    """
    return [
        pytest.param(name, marks=() if zlib.crc32(name.encode()) % count == 0 else pytest.mark.slow) for name in names
    ]
