"""Waits for an mbarrier on whose answer nothing depends, and loops that look ahead at a phase of their own."""

from __future__ import annotations

import pytest
from check_kernels import check, rules
from situations import HEAD, SHARED, arrive, kernel, load, once, read, wait
from support.kernels import module

from convc.ir.findings import Verdict

TRY = "mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0;"
PEEK = "mbarrier.try_wait.parity.shared::cta.b64 %p, [%b+8], 0;"
TEST = "mbarrier.test_wait.parity.shared::cta.b64 %p, [%b], 0;"
KEPT = "selp.u32 %x2, 1, 0, %p; and.b32 %x2, %x2, 1;"
"""The answer goes through registers, to nobody."""


@pytest.mark.parametrize("unread", [TRY, TEST, TRY + KEPT])
def test_a_wait_that_nobody_hears_orders_nothing(unread):
    """The copy is read at once: a race, and the wait itself is for review."""
    found = {f.rule: f.verdict for f in check(kernel(load(0, 0) + unread + read(0)), threads=32).findings}
    assert found["wait-answer-unread"] is Verdict.review
    assert found["race-shared-memory"] is Verdict.error
    assert rules(check(kernel(load(0, 0) + wait(0) + read(0)), threads=32)) == set()
    heard = unread + "@!%p bra AGAIN;" if unread.endswith("0;") else unread + "setp.eq.u32 %q, %x2, 0; @%q bra AGAIN;"
    assert rules(check(kernel(load(0, 0) + "AGAIN: " + heard + read(0)), threads=32)) == set()


def test_a_wait_that_nobody_hears_is_shown_where_it_is_and_is_no_error():
    """The phase that it names never ends."""
    text = kernel(load(0, 0) + wait(0) + read(0) + PEEK)
    (found,) = check(text, threads=32).findings
    assert (found.rule, found.verdict) == ("wait-answer-unread", Verdict.review)
    assert PEEK in text.splitlines()[found.line - 1]


AHEAD = """mov.u32 %x3, 0; mov.u32 %x4, 0;
LOOP: setp.ne.u32 %s, %x4, 0; @%s bra THERE;
AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], %x3; @!%p bra AGAIN;
THERE: add.u32 %x3, %x3, 1;
{look}
{again}
setp.lt.u32 %r, %x3, 4; @%r bra LOOP;
"""
LOOK = "mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], %x3; selp.u32 %x4, 1, 0, %p;"


def test_a_loop_that_looks_ahead_at_what_it_brings_about_itself():
    """One stage: the next phase ends behind the look, which says so, and the loop waits again."""
    first = once("mbarrier.arrive.shared::cta.b64 _, [%b], 1;")
    body = first + AHEAD.format(look=LOOK, again=arrive(0))
    assert rules(check(kernel(body, counts=(1,)), threads=32)) == set()
    hangs = first + AHEAD.format(look=LOOK, again="")
    assert "hang" in rules(check(kernel(hangs, counts=(1,)), threads=32))


def test_a_wait_for_a_phase_that_nobody_ends_hangs():
    body = "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p, [bars], 0; @!%p bra AGAIN;"
    text = module(HEAD + once("mbarrier.init.shared::cta.b64 [%b], 1;") + body, shared=SHARED)
    assert rules(check(text, threads=32)) == {"hang"}
