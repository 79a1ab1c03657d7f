"""Waits for an mbarrier whose answer nobody looks at, and their twins that repeat."""

from __future__ import annotations

import pytest
from check_kernels import check
from support.kernels import module

from convc.ir.findings import Verdict

SHARED = ".shared .align 8 .b64 bar[1];"
BODY = """.reg .b32 %t, %b; .reg .b64 %state; .reg .pred %p, %q;
mov.u32 %t, %tid.x; mov.u32 %b, bar;
setp.ne.u32 %p, %t, 0; @%p bra READY;
mbarrier.init.shared::cta.b64 [%b], 32;
READY: bar.sync 0;
mbarrier.arrive.shared::cta.b64 %state, [%b];
{wait}
"""
TRY = "mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], 0;"
TEST = "mbarrier.test_wait.shared::cta.b64 %q, [%b], %state;"


@pytest.mark.parametrize(("wait", "verdict"), [(TRY, Verdict.error), (TEST, Verdict.review)])
def test_a_wait_is_repeated_until_it_is_over(wait, verdict):
    def found(text: str):
        return check(module(BODY.format(wait=text), shared=SHARED), threads=32).findings

    (once,) = found(wait)
    assert (once.rule, once.verdict) == ("wait-answer-unread", verdict)
    assert once.line, "it is shown where it is"
    assert found(f"AGAIN: {wait} @!%q bra AGAIN;") == ()
    assert found(f"AGAIN: {wait} selp.u32 %t, 1, 0, %q; setp.eq.u32 %p, %t, 0; @%p bra AGAIN;") == ()
