"""Who is said to have made a fault, where warps whose guard is false took no part in an instruction that may wait."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import execute, module

from convc.errors import MachineFault

TRY = """
.reg .pred %p, %q; .reg .b32 %t, %bar, %w, %c;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; shr.u32 %w, %t, 5; mov.u32 %bar, 1024;
setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [%bar], 1; bar.sync 0;
setp.eq.u32 %p, %w, {warp}; setp.eq.and.u32 %p, %c, {cta}, %p; @%p mov.u32 %bar, 1048576;
setp.ge.u32 %q, %w, {least};
@%q mbarrier.try_wait.parity.shared.b64 %p, [%bar], 1;
"""


@pytest.mark.parametrize(
    ("cta", "warp", "least"),
    [
        (0, 1, 0),
        (0, 1, 1),
        (1, 3, 0),
        (1, 3, 2),
        (1, 3, 3),
    ],
)
def test_the_warp_of_a_guarded_wait_that_faults_is_found(cta, warp, least):
    text = module(TRY.format(cta=cta, warp=warp, least=least).replace("; ", ";\n"))
    with pytest.raises(MachineFault) as caught:
        execute(text, {"out": np.zeros(1, np.uint32)}, grid=(2, 1, 1), block=(128, 1, 1), shared_bytes=2048)
    error = caught.value
    assert "1048576" in error.message or "0x100000" in error.message
    assert (error.cta, error.warp, error.lanes) == (cta, warp, tuple(range(32)))
