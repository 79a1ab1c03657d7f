"""Registers of a tcgen05.ld belong to it until tcgen05.wait::ld, whether it or who names them has a guard or none."""

from __future__ import annotations

import pytest
from check_kernels import check, rules
from support.kernels import module

TEXT = """
.reg .b32 %t, %s, %d, %v; .reg .pred %p; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 128; mov.u32 %s, slot;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%s], 32;
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; bar.warp.sync 0xffffffff; ld.shared.b32 %d, [%s];
tcgen05.st.sync.aligned.32x32b.x1.b32 [%d], {{%t}}; tcgen05.wait::st.sync.aligned;
{guard} tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%v}}, [%d];
{early}
tcgen05.wait::ld.sync.aligned; add.u32 %v, %v, 1;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 32;
"""


@pytest.mark.parametrize("guard", ["", "@%p"])
@pytest.mark.parametrize(
    ("early", "named"),
    [("add.u32 %t, %t, %v;", True), ("mov.b32 %v, 0;", True), ("@%p mov.b32 %v, 0;", True), ("mov.b32 %t, 0;", False)],
)
def test_who_names_a_register_before_it_is_filled_is_found(guard, early, named):
    text = module(TEXT.format(guard=guard, early=early), shared=".shared .align 4 .b32 slot;")
    assert rules(check(text, threads=32)) == ({"register-before-wait"} if named else set())
