"""Levels of findings, once all runs are known.

What the manual forbids is an *error* where this run shows that it went wrong, or where it is undefined and nothing is
known to keep it right. It is a breach of a *rule* where the hardware is known to be lenient, every run came to its end,
and the result did not depend on when asynchronous work was performed:

* an aligned instruction behind a divergent branch without bar.warp.sync (what an ``elect`` branch compiles to);
* a CTA that exits before its last copy into global memory is known to be complete;
* tcgen05 operations of one thread, in an order that the manual does not promise (mma, then cp);
* an mbarrier that a warp makes behind its fence.mbarrier_init, and then arrives at the cluster barrier, relaxed;
* warps of a warpgroup that take different counts of registers (setmaxnreg), each of which is done for its warp;
* a wait that says ``.cta`` for what another CTA arrives at, where that CTA hands over no data of its own;
* registers of a wgmma touched before its wait, or without wgmma.fence: the assembler puts the wait and the fence there;
* bits 46-48 of a shared-memory descriptor that are 0, as in the kernels of Triton 3.5, which run on B200;
* a tcgen05.ld without a wait, where an instruction of the warp has used its registers since: the assembler waits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from convc.ir.findings import Finding, Verdict

SENTENCES = {
    "aligned-after-divergence": "PTX manual, .aligned: all threads of the warp must execute the same instruction",
    "exit-before-completion": "PTX manual, cp.async.bulk.wait_group: a copy has read its source only when its "
    "group is complete",
    "warpgroup-apart": "PTX manual, setmaxnreg: all warps of a warpgroup must execute the same one",
    "scope-too-narrow": "PTX manual, mbarrier.try_wait, Scope: .cta does not order accesses of another CTA",
    "race-shared-memory": "PTX manual, fence.mbarrier_init, barrier.cluster: the fence orders the mbarrier.init "
    "before it, a relaxed arrival orders nothing",
    "accumulator-before-wait": "PTX manual, wgmma.mma_async: accessing its registers before wgmma.wait_group is "
    "undefined",
    "descriptor-version": "PTX manual, tcgen05 shared memory descriptor: bits 46-48 have the fixed value 0b001",
    "wgmma-fence-missing": "PTX manual, wgmma.fence: it orders accesses of registers by wgmma.mma_async and by others",
}
"""What the manual says, by the rule that is broken; that of tensor memory depends on who is early."""

LOADED = "PTX manual, tcgen05.wait: a tcgen05.ld is complete after tcgen05.wait::ld of its thread"
ISSUED = "PTX manual, tcgen05 pipelined instructions: these two of one thread are not among the pairs in order"

WENT_WRONG = frozenset(("fault", "hang", "instruction-limit", "completion-order", "grant-order"))
"""Rules of findings that say that a run did not come out right."""


def levelled(findings: Sequence[Finding]) -> list[Finding]:
    """Findings with the levels that they have in the light of all."""
    if any(finding.rule in WENT_WRONG for finding in findings):
        return [
            dataclasses.replace(finding, verdict=Verdict.error) if finding.verdict is Verdict.rule else finding
            for finding in findings
        ]
    used = {finding.other.line for finding in findings if finding.rule == "register-before-wait" and finding.other}
    return [_in_words(finding, used) for finding in findings]


def _in_words(finding: Finding, used: set[int]) -> Finding:
    """A breach of a rule with the sentence that it breaks; ``used``: lines of loads whose registers were used since."""
    loaded = finding.rule == "race-tensor-memory" and finding.other is not None and finding.other.line in used
    if finding.verdict is Verdict.error and loaded:
        finding = dataclasses.replace(finding, verdict=Verdict.rule)
    if finding.verdict is not Verdict.rule:
        return finding
    sentence = LOADED if loaded else SENTENCES.get(finding.rule, ISSUED)
    return dataclasses.replace(finding, message=f"{finding.message}; {sentence}")
