"""Changes of kernels with every option, and each two that go together, drawn at random: 98 percent are noticed.

The kernels of `KERNELS` and `SLOW` are broken in all ways; these are as many, small, and broken in a few.
"""

from __future__ import annotations

import random
import zlib

import pytest
from sabotage_changes import LEFT_OUT, Change, Sabotage
from sabotage_excuses import excuse
from sabotage_kernels import CHOSEN, subject
from test_one_change import judge

EACH = 24
"""Changes of a kernel in `make slow`."""

FEATURES = {
    "chosen: reload pairs walk": "pairs of persistent CTAs",
    "chosen: reload multicast walk": "copies for several CTAs",
    "chosen: reload split 2": "CTAs that share a K loop",
    "chosen: reload dynamic tiles": "dynamic tile scheduler, residuals by tensor copies",
    "chosen: slide pairs mask": "masks",
    "chosen: nvfp4": "scale factors",
    "chosen: reload columns": "filter columns folded into K",
}
"""Kernels of which two synchronising instructions are left out in `make test`, and what they have."""


def drawn(name: str, count: int, seed: int = 0) -> list[Change]:
    """Some of a kernel's changes, always the same for a seed."""
    kernel = subject(name)
    changes = list(Sabotage(kernel.text, kernel.ours).changes())
    return random.Random(zlib.crc32(name.encode()) + seed).sample(changes, min(count, len(changes)))


def test_there_are_sixty_kernels_and_more():
    assert len(CHOSEN) >= 60


@pytest.mark.parametrize("name", FEATURES)
def test_two_instructions_that_are_left_out_are_missed(name):
    text = subject(name).text
    left_out = [c for c in drawn(name, 1000) if c.category in LEFT_OUT and excuse(c.what, text) is None]
    total, noticed = judge(name, left_out[:2])
    assert total == noticed == 2


@pytest.mark.slow
def test_drawn_changes_are_noticed():
    counts = [judge(name, drawn(name, EACH)) for name in CHOSEN]
    total, noticed = (sum(count) for count in zip(*counts, strict=True))
    assert total >= 15 * len(CHOSEN)
    assert noticed >= 0.98 * total, (noticed, total)
