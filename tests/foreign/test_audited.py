"""Kernels of other compilers are audited: nothing is accused that the manual does not forbid.

Triton and Gluon leave out fences of tcgen05 and of mbarrier.init that the manual asks for: a matter for review. What is
not followed is said to be so.
"""

from __future__ import annotations

import pytest
from kernel_folder import HERE, foreign

from convc.auditor.run import audit_kernel
from convc.ir.findings import Verdict

KERNELS = sorted(path.parent.name for path in HERE.glob("*/launch.json"))
LEFT_OUT = {"tcgen05-fence", "barrier-init", "proxy-fence", "residency"}
"""Rules that they break by the letter: the last where an SM may take more CTAs than have columns."""

UNFOLLOWED = {"cuda_dispatch", "cuda_pipeline"}
"""They branch on what they load, and wait for each other behind that."""


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", KERNELS)
def test_nobody_is_accused(name):
    kernel = foreign(name)
    found = audit_kernel(kernel.text, kernel.launch, name)
    assert found.verdict <= Verdict.review, [str(finding) for finding in found.findings]
    assert {finding.rule for finding in found.findings} <= LEFT_OUT
    lost = [each for each in found.unclear if each.lost]
    assert bool(lost) == (name in UNFOLLOWED)
    assert all(each.line and each.reason for each in found.unclear)


def test_what_is_looked_at_is_counted():
    kernel = foreign("matmul_tma_specialized")
    found = audit_kernel(kernel.text, kernel.launch, "kernel.ptx")
    places = {looked.rule: looked.places for looked in found.looked}
    assert places["instruction-descriptor"] >= 4
    assert places["matrix-descriptor"] >= 4
    assert places["transaction-bytes"] >= 3
    assert places["register-sum"] >= 4
