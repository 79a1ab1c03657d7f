"""What our kernels keep to because the manual says so, though the simulator runs them without: all of it is missed.

The results of these kernels are right here, and wrong, or late for ever, on some GPU some day.
"""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from sabotage_caught import inside, right, with_mistake
from sabotage_kernels import subject

from convc.ir.findings import Verdict
from convc.sanitizer.run import check_kernel

PAIR, CLUSTER, DEPENDENT = "golden pair_f16", "golden multicast_f16", "dependent launch, residual"
WAIT = r"barrier\.cluster\.wait\.acquire\.aligned;"
FENCE = r"fence\.proxy\.async\.shared::cta;"
AWAIT = r"griddepcontrol\.wait;"
LAST = r"(?s:mbarrier\.try_wait(?:(?!//@).)*?bra load_last_empty_retry;)"

MISTAKES = {
    "a pair allocates before its other CTA runs": (
        PAIR, inside(r"alloc\.met") + WAIT + r"((?s:.)*?tcgen05\.relinquish_alloc_permit\S+;)",
        r"\1\2 barrier.cluster.wait.acquire.aligned;", "pair-allocation",
    ),
    "a slab of a residual comes without a fence": (
        "golden copied_residual_f16", inside(r"epilogue\.added_r") + FENCE, r"\1", "proxy-fence-missing",
    ),
    "scale factors come without a fence": (
        "nvfp4, scaled", inside(r"epilogue\.ready") + FENCE, r"\1", "proxy-fence-missing",
    ),
    "an answer comes without a fence": (
        "golden dynamic_f16", inside(r"\w+\.told") + FENCE, r"\1", "proxy-fence-missing",
    ),
    "a CTA of a pair leaves before the last signals": (
        PAIR, inside(r"load\.last_empty") + LAST, r"\1", "exit-before-arrival",
    ),
    "a CTA of a cluster leaves before the last signals": (
        CLUSTER, inside(r"load\.last_empty") + LAST, r"\1", "exit-before-arrival",
    ),
    "the dependent kernel begins before there is tensor memory": (
        DEPENDENT, inside(r"begin\.await") + AWAIT, r"\1griddepcontrol.wait; griddepcontrol.launch_dependents;",
        "launch-before-allocation",
    ),
    "the warp that loads does not wait for the preceding kernel": (
        DEPENDENT, inside(r"begin\.await") + AWAIT, r"\1", "dependent-access",
    ),
    "nobody waits for the preceding kernel": (DEPENDENT, AWAIT, "", "dependent-access"),
    "a residual is read as a constant": (
        DEPENDENT, inside(r"epilogue\.apply_0") + r"ld\.global\.v4", r"\1ld.global.nc.v4", "dependent-constant",
    ),
}  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_the_manual_asks_for_is_missed(mistake):
    name, pattern, wrong, rule = MISTAKES[mistake]
    kernel = subject(name)
    assert right(name).verdict is Verdict.clean
    found = check_kernel(with_mistake(name, pattern, wrong), kernel.launch, kernel.inputs).findings
    assert {finding.rule for finding in found} == {rule}


def test_clusters_that_ask_for_too_little_shared_memory_may_wait_for_columns_for_ever():
    """Of 256 columns an SM has two; the tiles and barriers alone would let three CTAs in."""
    name = "clusters with many columns and few bytes"
    kernel = subject(name)
    assert right(name).verdict is Verdict.clean
    used = int(re.search(r"//   (\d+): nothing, which keeps other CTAs from the SM", kernel.text)[1])
    launch = replace(kernel.launch, shared_bytes=used)
    (found,) = check_kernel(kernel.text, launch, kernel.inputs).findings
    assert (found.rule, found.verdict) == ("tensor-memory-residency", Verdict.review)
