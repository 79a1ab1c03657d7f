"""What a kernel must have put back before it exits, as a run of it reports."""

from __future__ import annotations

import numpy as np
import pytest
from recordings.program_text import DRAIN, entry
from tma_programs import execute_program

from convc.ir.findings import Verdict

STORE = (
    "setp.ne.u32 %p, %t, 5; @%p bra END; cvt.u64.u32 %d, %t;\n"
    "cp.async.bulk.global.shared::cta.bulk_group [%p_out], [%s], 16;\n"
)
COMMIT = "cp.async.bulk.commit_group;\n"


def findings(body: str):
    text = entry("st.shared.b32 [%s], 1; bar.sync 0;\n" + body, 0, ("src", "out"))
    program = {"text": text, "maps": [], "numbers": [], "grid": [2, 1, 1], "cluster": [1, 1, 1], "block": [32, 1, 1]}
    buffers = {"src": np.zeros(16, np.uint8), "out": np.zeros(16, np.uint8)}
    found = execute_program(program | {"shared": (96 << 10) + 64}, buffers).findings
    return [f for f in found if f.rule.startswith("bulk-group")]


@pytest.mark.parametrize(
    ("rest", "rule", "verdict"),
    [
        ("", "bulk-group-uncommitted", Verdict.error),
        (COMMIT, "bulk-group-unwaited", Verdict.review),
    ],
)
def test_bulk_copies_that_a_thread_leaves_behind_are_reported(rest, rule, verdict):
    (found,) = findings(STORE + rest + "END:")
    assert (found.rule, found.verdict, found.cta, found.warp, found.lanes) == (rule, verdict, 0, 0, (5,))


def test_bulk_copies_that_were_waited_for_are_not():
    assert findings(STORE + DRAIN + "END:") == []
