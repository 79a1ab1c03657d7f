"""Changes of kernels with every option, and each two that go together, drawn at random: 98 percent are noticed.

The kernels of `KERNELS` and `SLOW` are broken in all ways; these are as many, small, and broken in a few.
"""

from __future__ import annotations

import re

import pytest
from sabotage_caught import accusations, inside, upheld, with_mistake
from sabotage_changes import LEFT_OUT
from sabotage_draw import drawn, outcome
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


def test_there_are_sixty_kernels_and_more():
    assert len(CHOSEN) >= 60


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", FEATURES)
def test_two_instructions_that_are_left_out_are_missed(name):
    text = subject(name).text
    left_out = [c for c in drawn(name, 1000) if c.category in LEFT_OUT and excuse(c.what, text) is None]
    total, noticed = judge(name, left_out[:2])
    assert total == noticed == 2


@pytest.mark.parametrize(
    ("step", "gone", "instead", "accused", "holds"),
    [
        ("start.sync", r"tcgen05.fence::after_thread_sync;", "", False, True),
        ("epilogue.wait", r"tcgen05.fence::after_thread_sync;", "", True, False),
        ("epilogue.out_byte", r"%t0, 2;", "%t0, 1;", False, False),
    ],
    ids=["nothing depends on it", "the auditor says so", "bytes are others"],
)
def test_an_excuse_holds_where_two_more_witnesses_agree(step, gone, instead, accused, holds):
    name = "golden pointwise_f16"
    text = with_mistake(name, inside(step) + re.escape(gone), rf"\1{instead}")
    assert bool(accusations(name, text) - accusations(name, subject(name).text)) == accused
    assert upheld(name, text) == holds


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOSEN)
def test_drawn_changes_are_noticed(name):
    changes = drawn(name, EACH)
    assert len(changes) >= 15
    unexplained = [change.what for change in changes if outcome(name, change) == "unexplained"]
    assert not unexplained, "\n".join(unexplained)


@pytest.mark.slow
def test_few_of_the_drawn_changes_may_go_unseen():
    """So few that 98 percent of those that alter something are noticed, as all without an excuse are."""
    reasons = [excuse(change.what, subject(name).text) for name in CHOSEN for change in drawn(name, EACH)]
    unseen = sum(reason is not None and reason.unseen for reason in reasons)
    assert unseen <= 0.02 * (reasons.count(None) + unseen)
