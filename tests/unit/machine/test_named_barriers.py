"""CTA barriers whose number and count are registers: each warp has its own; more warps than the count are reported."""

from __future__ import annotations

import numpy as np
import pytest
from support import kernels
from support.recorded import assemble_all, recorded

from convc.errors import DeadlockError, MachineFault
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import RunOptions, RunResult


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(texts)


HEAD = """
.reg .b32 %t, %w, %c, %v, %g, %n, %m, %x, %s; .reg .b64 %a; .reg .pred %p, %q;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; shr.u32 %w, %t, 5; mov.u32 %v, 0; mov.u32 %s, data;
"""
STORE = """mov.u32 %x, %ntid.x; mad.lo.u32 %g, %c, %x, %t; mul.wide.u32 %a, %g, 4; add.u64 %a, %a, %p_out;
st.global.u32 [%a], %v;"""


def run(body: str, *, ctas: int = 1, threads: int = 128, cohort: int = 148) -> RunResult:
    launch = LaunchSpec(
        entry="k",
        grid=(ctas, 1, 1),
        block=(threads, 1, 1),
        params=(PointerParam(buffer="out"),),
        buffers={"out": BufferSpec(dtype="u32", shape=(ctas, threads))},
    )
    text = kernels.module(HEAD + body + STORE, shared=".shared .align 16 .b8 data[4096];\n")
    buffers = {"out": np.zeros((ctas, threads), np.uint32)}
    return kernels.run(text, launch, buffers, options=RunOptions(cohort=cohort))


EXCHANGE = """mad.lo.u32 %x, %t, 3, %c; shl.b32 %m, %t, 2; add.u32 %m, %m, %s; st.shared.u32 [%m], %x;
{barrier}
xor.b32 %m, %t, 32; shl.b32 %m, %m, 2; add.u32 %m, %m, %s; ld.shared.u32 %v, [%m];"""
"""Each thread reads what the thread 32 further on or back has stored."""


@pytest.mark.parametrize("ctas", [1, 3])
@pytest.mark.parametrize(
    "barrier",
    [
        "shr.u32 %n, %w, 1; add.u32 %n, %n, 1; bar.sync %n, 64;",
        "shr.u32 %n, %w, 1; add.u32 %n, %n, %c; mov.u32 %g, 64; bar.sync %n, %g;",
        "shr.u32 %n, %w, 1; setp.lt.u32 %p, %t, 500; @%p barrier.cta.sync.aligned %n, 64;",
    ],
)
def test_pairs_of_warps_have_barriers_of_their_own(barrier, ctas):
    found = run(EXCHANGE.format(barrier=barrier), ctas=ctas)
    want = [[3 * (t ^ 32) + c for t in range(128)] for c in range(ctas)]
    assert np.array_equal(found.buffers["out"], want)
    assert found.findings == ()


def test_counts_in_registers_are_those_of_each_warp():
    """Warps 0 to 2 meet at barrier 1, warp 3 alone at barrier 2, by one instruction."""
    body = """setp.eq.u32 %p, %w, 3; selp.b32 %n, 2, 1, %p; selp.b32 %m, 32, 96, %p;
    bar.red.popc.u32 %v, %n, %m, %q; setp.lt.u32 %q, %t, 70; bar.red.popc.u32 %v, %n, %m, %q;"""
    found = run(f"setp.ne.u32 %q, %t, %t; {body}")
    assert np.array_equal(found.buffers["out"][0], [70] * 96 + [0] * 32)
    assert found.findings == ()


def test_a_pair_that_is_done_goes_on_while_the_other_waits_for_it():
    """Warps 2 and 3 wait at barrier 2 for 96 threads: warp 0 comes there from barrier 1."""
    body = """setp.gt.u32 %p, %w, 1; selp.b32 %n, 2, 1, %p; selp.b32 %m, 96, 64, %p; bar.sync %n, %m;
    setp.eq.u32 %p, %w, 0; @!%p bra DONE; bar.arrive 2, 96; DONE: mov.u32 %v, 7;"""
    found = run(body)
    assert (found.buffers["out"] == 7).all()
    assert found.findings == ()


def test_more_warps_than_the_count_hang():
    with pytest.raises(DeadlockError, match=r"warp 2: .* CTA barrier 1 \(1 of 2 warps there\)") as error:
        run("bar.sync 1, 64;", threads=96)
    assert "96 threads reach a CTA barrier whose count is 64" in str(error.value)


def test_more_warps_than_the_count_are_an_error_where_they_go_on():
    """Four warps make two rounds of two."""
    found = run("bar.sync 1, 64; mov.u32 %v, 3;")
    assert [(f.rule, f.verdict.name, f.warp) for f in found.findings] == [("barrier-overflow", "error", 0)]
    assert (found.buffers["out"] == 3).all()


def test_each_round_of_too_many_warps_has_its_own_votes():
    """Thread t votes t < 40: 32 and 8 votes in the first round of two warps, none in the second."""
    found = run("setp.lt.u32 %q, %t, 40; bar.red.popc.u32 %v, 1, 64, %q;")
    assert np.array_equal(found.buffers["out"][0], [40] * 64 + [0] * 64)
    assert [f.rule for f in found.findings] == ["barrier-overflow"]


def test_different_counts_at_one_barrier_are_an_error():
    body = "setp.eq.u32 %p, %w, 0; @%p bar.arrive 1, 96; setp.eq.u32 %p, %w, 1; @%p bar.sync 1, 64;"
    found = run(body)
    assert [(f.rule, f.verdict.name) for f in found.findings] == [("barrier-counts", "error")]


@pytest.mark.parametrize(
    ("barrier", "message"),
    [
        ("bar.sync %t, 64;", "the number of a barrier must be the same in all lanes of a warp"),
        ("shl.b32 %n, %t, 5; bar.sync 1, %n;", "the threads of a barrier must be the same in all lanes"),
        ("add.u32 %n, %w, 13; bar.sync %n, 32;", "barriers 0 to 15, not 16"),
        ("add.u32 %n, %w, 31; bar.sync 1, %n;", "must be a multiple of 32, got"),
        ("shl.b32 %n, %w, 5; bar.sync 1, %n;", "must be a multiple of 32, got 0"),
    ],
)
def test_what_no_barrier_takes(barrier, message):
    with pytest.raises(MachineFault, match=message):
        run(barrier)


@pytest.mark.parametrize("ctas", [1, 3])
def test_warps_that_meet_alike_meet_some_that_do_not(ctas):
    """Barrier 0 is used by all warps alike, then by one before the others, then after one has left."""
    body = """mov.u32 %n, 0; L: bar.sync 0; setp.eq.u32 %p, %w, 1; @%p bar.sync 0;
    setp.ne.u32 %q, %w, 1; @%q bar.sync 0;
    bar.sync 0, 128; bar.sync 0; add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 2; @%p bra L;
    setp.eq.u32 %p, %w, %c; @%p exit; bar.sync 0; mov.u32 %v, %n;"""
    found = run(body, ctas=ctas)
    want = [[0 if t // 32 == c else 2 for t in range(128)] for c in range(ctas)]
    assert found.buffers["out"].tolist() == want
    assert not found.findings
