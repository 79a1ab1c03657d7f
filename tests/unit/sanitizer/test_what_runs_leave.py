"""Buffers that two runs leave otherwise are compared a piece at a time, and told as wholes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from convc.sanitizer import run


def left(**buffers: np.ndarray) -> Any:
    return SimpleNamespace(buffers=buffers)


@pytest.mark.parametrize("piece", [1, 3, 8, 1 << 18])
def test_bytes_that_differ_are_counted_from_the_start_of_the_buffer(monkeypatch, piece):
    monkeypatch.setattr(run, "PIECE", piece)
    y = np.zeros((3, 4), np.uint16)
    other = y.copy()
    other[1, 2] = 0x0101
    other[2, 3] = 0x0100
    same = np.arange(5.0)
    found = list(run._changed(left(x=same, y=y, none=y[:0]), left(x=same.copy(), y=other, none=y[:0])))
    assert found == [("y", 3, 12)]
