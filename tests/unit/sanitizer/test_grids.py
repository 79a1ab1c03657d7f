"""Kernels that overlap with those in front and behind: each rule with a kernel that breaks it and one that does not."""

from __future__ import annotations

import numpy as np
import pytest
from check_kernels import check, line_of, only_error, rules
from msgspec.structs import replace
from support.kernels import module

from convc.errors import LaunchError
from convc.ir.findings import Verdict
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.ir.tensormap import TensorMap
from convc.sanitizer.run import check_kernel

SHARED = ".shared .align 1024 .b8 data[2048];\n"
HEAD = """
.reg .b32 %t, %v, %s, %d, %bar; .reg .b64 %a; .reg .pred %p, %skip;
mov.u32 %t, %tid.x; mov.u32 %s, data; mul.wide.u32 %a, %t, 4; add.u64 %a, %a, %p_out; add.u32 %bar, %s, 1024;
"""
AWAIT = "griddepcontrol.wait;"
BEGIN = "griddepcontrol.launch_dependents;"
ACCESSES = {
    "ld.global": "ld.global.u32 %v, [%a];",
    "st.global": "st.global.u32 [%a], %t;",
    "atom.global": "atom.global.add.u32 %v, [%a], 1;",
    "cp.async.ca": "cp.async.ca.shared.global [%s], [%p_out], 4; cp.async.wait_all;",
}
COPY = """
setp.ne.u32 %skip, %t, 0; @%skip bra DONE;
mbarrier.init.shared::cta.b64 [%bar], 1; fence.mbarrier_init.release.cluster; fence.proxy.async;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 64;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%p_out], 64, [%bar];
AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra AGAIN;
DONE: bar.warp.sync 0xffffffff;
"""


def kernel(*parts: str) -> str:
    return module("\n".join((HEAD, *parts)).replace("; ", ";\n"), shared=SHARED)


def run(text: str, dependent: tuple[str, ...] = ("out",)):
    return check(text, threads=64, dependent=dependent, shared=0)


@pytest.mark.parametrize("access", ACCESSES)
def test_what_the_kernel_in_front_may_use_is_reached_behind_a_wait(access):
    """Loads of what it writes, stores to what it reads."""
    assert rules(run(kernel(AWAIT, ACCESSES[access]))) <= {"race-global-memory", "race-shared-memory"}
    text = kernel(ACCESSES[access], AWAIT)
    found = [f for f in run(text).findings if f.rule == "dependent-access"]
    assert [(f.verdict, f.line) for f in found] == [(Verdict.error, line_of(text, access))]
    assert "accesses buffer 'out', which the preceding kernel may still use" in found[0].message
    assert "dependent-access" not in rules(run(text, dependent=()))


def test_copies_come_behind_a_wait_too():
    assert rules(run(kernel(AWAIT, COPY))) == set()
    text = kernel(COPY)
    assert (only_error(run(text)).rule, only_error(run(text)).line) == (
        "dependent-access",
        line_of(text, "cp.async.bulk"),
    )


def test_a_wait_is_known_to_those_who_hear_of_it():
    """One warp waits, and all meet behind that."""
    one = f"setp.gt.u32 %skip, %t, 31; @%skip bra MET; {AWAIT} MET: {{meet}} {ACCESSES['ld.global']}"
    assert rules(run(kernel(one.format(meet="bar.sync 0;")))) == set()
    found = only_error(run(kernel(one.format(meet="bar.warp.sync 0xffffffff;"))))
    assert (found.rule, found.warp) == ("dependent-access", 1)


def test_what_another_kernel_writes_is_no_constant():
    text = kernel(AWAIT, "ld.global.nc.u32 %v, [%a];")
    found = only_error(run(text))
    assert (found.rule, found.line) == ("dependent-constant", line_of(text, "ld.global.nc"))
    assert found.message.endswith("may write it while this one runs: use ld.global without .nc")
    assert rules(run(text, dependent=())) == set()
    assert rules(run(kernel(AWAIT, ACCESSES["ld.global"]))) == set()


ALLOCATE = """
setp.gt.u32 %skip, %t, 31; @%skip bra {label};
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%s], 32;
{label}:
"""
FREE = """
bar.sync 0;
ld.shared.b32 %d, [%s];
setp.gt.u32 %skip, %t, 31; @%skip bra DONE;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 32;
DONE: bar.sync 0;
"""


def test_the_kernel_behind_begins_when_the_columns_are_got():
    """One thread's instruction counts for its CTA, so that every thread that executes it must know of them."""
    got = ALLOCATE.format(label="GOT")
    assert rules(run(kernel(got, "bar.sync 0;", BEGIN, FREE))) == set()
    alone = f"setp.lt.u32 %skip, %t, 32; @%skip bra LET; {BEGIN} LET: bar.warp.sync 0xffffffff;"
    for text in (kernel(BEGIN, got, FREE), kernel(got, BEGIN, FREE), kernel(got, alone, FREE)):
        (found,) = run(text).findings
        assert (found.rule, found.verdict) == ("launch-before-allocation", Verdict.review)
        assert found.line == line_of(text, "launch_dependents")
    own = f"setp.gt.u32 %skip, %t, 31; @%skip bra LET; {BEGIN} LET: bar.warp.sync 0xffffffff;"
    assert rules(run(kernel(got, own, FREE))) == set(), "the warp that allocates knows of its own columns"


def test_tensor_copies_are_accesses():
    box = TensorMap(buffer="out", dtype="u32", dims=(64,), strides=(), box=(16,), element_strides=(1,), mode="tile")
    copy = COPY.replace(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%p_out], 64, [%bar];",
        "cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%s], [%m_map, {%d}], [%bar];",
    )
    for begin, wanted in ((AWAIT, set()), ("", {"dependent-access"})):
        body = "\n".join((HEAD, "mov.b32 %d, 0;", begin, copy)).replace("; ", ";\n")
        text = module(body, shared=SHARED, maps=("map",))
        assert rules(check(text, threads=64, dependent=("out",), maps=(box,))) == wanted


def test_what_is_not_said_is_not_looked_for():
    launch = LaunchSpec(
        entry="k",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        buffers={"out": BufferSpec(dtype="u32", shape=(64,))},
        params=(PointerParam(buffer="out"),),
    )
    zeros = {"out": np.zeros(64, np.uint32)}
    (found,) = check_kernel(kernel(ACCESSES["ld.global"], AWAIT), launch, zeros).findings
    assert (found.rule, found.verdict) == ("dependent-unnamed", Verdict.clean)
    assert check_kernel(kernel(ACCESSES["ld.global"]), launch, zeros).findings == ()
    with pytest.raises(LaunchError, match="dependent names buffer 'in', which the launch file does not have"):
        replace(launch, dependent=("in",)).check()
