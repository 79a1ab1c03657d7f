"""What depends on data is not known to the auditor: it says so, whatever operand it is, and where it stops."""

from __future__ import annotations

import pytest
from unit.auditor.test_audited_kernels import MEET, UNKNOWN, audited

MADE = f"elect.sync _|%p, 0xffffffff;\n@%p mbarrier.init.shared::cta.b64 [%smem], 1;\n{MEET}\n"
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
CANCEL = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128"
CASES = {
    "@%p mbarrier.init.shared::cta.b64 [%a], 1;": "unknown address or arrival count of this mbarrier",
    "@%p mbarrier.init.shared::cta.b64 [%smem+8], %a;": "unknown address or arrival count of this mbarrier",
    "@%p mbarrier.arrive.shared::cta.b64 _, [%a];": "unknown mbarrier address",
    "@%p mbarrier.arrive.shared::cta.b64 _, [%smem], %a;": "unknown arrival count",
    "@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], %a;": "unknown byte count of the expect_tx",
    "mbarrier.try_wait.parity.shared::cta.b64 %q, [%a], 0;": "unknown mbarrier address",
    "mbarrier.try_wait.parity.shared::cta.b64 %q, [%smem], %a;": "unknown mbarrier or phase parity of this wait",
    f"@%p {BULK} [%a], [%out], 16, [%smem];": "unknown destination or mbarrier of this copy",
    f"@%p {BULK} [%smem+16], [%out], 16, [%a];": "unknown destination or mbarrier of this copy",
    f"@%p {BULK} [%smem+16], [%out], %a, [%smem];": "unknown byte count of this copy",
    f"@%p {CANCEL} [%a], [%smem];": "unknown destination of the response",
    f"@%p {CANCEL} [%smem+16], [%a];": "unknown destination of the response",
    "bar.sync %a;": "unknown barrier number or thread count",
    "bar.sync 1, %a;": "unknown barrier number or thread count",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%smem+32], %a;": (
        "unknown column count or destination of the address"
    ),
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%a], 32;": (
        "unknown column count or destination of the address"
    ),
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%smem+32], 32;\n"
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %a, 32;": "unknown columns of this tcgen05.dealloc",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%b}, [%a];": "unknown columns of this access",
    "@%p mbarrier.arrive.shared::cta.b64 _, [%smem+64];": "no mbarrier is known there",
}


@pytest.mark.parametrize("line", CASES)
def test_an_operand_that_is_not_known_is_named(line):
    found = audited(f"{UNKNOWN}{MADE}{line}\n", block=(32, 1, 1), grid=(1, 1, 1))
    assert CASES[line] in {unclear.reason for unclear in found.unclear}, found
    assert not {"fault", "launch-limits"} & {finding.rule for finding in found.findings}
