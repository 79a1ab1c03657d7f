"""A copy reads a buffer as it is by then, where the loader keeps rounded numbers of an earlier copy too."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import execute, module

from convc.ir.tensormap import TensorMap
from convc.machine import RunOptions, RunResult

MAP = TensorMap(mode="tile", buffer="x", dtype="tf32", dims=(32,), strides=(), element_strides=(1,), box=(32,))
HEAD = """
.reg .pred %p; .reg .b32 %bar, %t, %v, %w, %d, %got<2>; .reg .b64 %a;
mov.u32 %bar, 8192; mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; mov.u32 %d, 0; mul.lo.u32 %w, %t, 4;
@%p bra READY; mbarrier.init.shared.b64 [%bar], 1; READY: bar.sync 0;
"""
LOAD = """
@%p bra WAIT{phase}; mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 128;
cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%d], [%m_m, {{0}}], [%bar];
WAIT{phase}: mbarrier.try_wait.parity.shared.b64 %p, [%bar], {phase}; @!%p bra WAIT{phase};
setp.ne.u32 %p, %t, 0; ld.shared.u32 %got{phase}, [%w]; bar.sync 0;
"""
SHOW = "mul.wide.u32 %a, %t, 4; add.u64 %a, %a, %p_out; st.global.u32 [%a], %got0; st.global.u32 [%a+128], %got1;"
NEW = 0x40400001
"""3 and the last bit, which the rounding to tf32 takes away."""

BULK = (
    "mov.b32 %v, {new}; st.shared.b32 [%w+4096], %v; fence.proxy.async.shared::cta; bar.sync 0; @%p bra SAME; "
    ".reg .b32 %s; mov.b32 %s, 4096; cp.async.bulk.global.shared::cta.bulk_group [%p_x], [%s], 16; "
    "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; SAME: bar.sync 0;"
)
STORES = {
    "a store": "@!%p st.global.u32 [%p_x], {new};",
    "a store of all threads": "mul.wide.u32 %a, %t, 4; add.u64 %a, %a, %p_x; st.global.u32 [%a], {new};",
    "an atomic": ".reg .b32 %x; mov.b32 %x, {new}; @!%p atom.global.exch.b32 %v, [%p_x], %x;",
    "a bulk copy": BULK,
    "a tensor copy": BULK.replace("cp.async.bulk.global.shared::cta.bulk_group [%p_x], [%s], 16;",
                                  "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%m_m, {{0}}], [%s];"),
}  # fmt: skip
READ = "ld.shared.u32 %got0, [%w];"


def run(text: str, evaluation: str) -> RunResult:
    """Each element of the buffer is 1 and the last bit."""
    return execute(
        module(text.replace("; ", ";\n"), pointers=("x", "out"), maps=("m",)),
        {"x": np.full(32, 0x3F800001, np.uint32), "out": np.zeros(64, np.uint32)},
        shared_bytes=16384,
        maps=(MAP,),
        pointers=("x", "out"),
        options=RunOptions(evaluation=evaluation),
    )


@pytest.mark.parametrize("evaluation", ["eager", "lazy"])
@pytest.mark.parametrize("name", STORES)
def test_what_a_copy_has_read_stays_when_the_buffer_changes(name, evaluation):
    """Whenever the copy is performed: nobody looks at what it has written before."""
    late = LOAD.format(phase=0).replace(READ, "") + STORES[name].format(new=NEW) + f" bar.sync 0; {READ} "
    result = run(HEAD + late + SHOW.replace("%got1", "%w"), evaluation)
    assert result.buffers["x"][0] == NEW
    assert (result.buffers["out"][:32] == 0x3F800000).all()


@pytest.mark.parametrize("evaluation", ["eager", "lazy"])
@pytest.mark.parametrize("name", STORES)
def test_a_copy_reads_what_was_stored_since_the_last_one(name, evaluation):
    change = STORES[name].format(new=NEW) + " bar.sync 0; fence.proxy.async;"
    result = run(HEAD + LOAD.format(phase=0) + change + LOAD.format(phase=1) + SHOW, evaluation)
    before, after = result.buffers["out"].reshape(2, 32)
    assert (before == 0x3F800000).all()
    assert np.array_equal(after, result.buffers["x"] & ~np.uint32(1))
    assert after[0] == 0x40400000
