"""Whole small kernels: divergence, barriers, memory, faults."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some
from support.kernels import execute, module

from convc.errors import DeadlockError, EndlessError, LaunchError, MachineFault, PtxSyntaxError, UnmodelledError
from convc.ir.findings import Verdict
from convc.machine import RunOptions
from convc.machine.execute.engine import TURN

GLOBAL_ID = """
.reg .b32 %id, %n, %c, %v; .reg .b64 %a;
mov.u32 %id, %tid.x; mov.u32 %n, %ntid.x; mov.u32 %c, %ctaid.x;
mad.lo.u32 %id, %c, %n, %id;
"""
STORE = """
mul.wide.u32 %a, %id, 4; add.u64 %a, %a, %p_out; st.global.u32 [%a], %v;
"""


def run_ids(body: str, ctas: int = 3, threads: int = 64, **options) -> np.ndarray:
    """Run ``body`` with the global thread number in %id; it leaves its answer in %v."""
    out = np.zeros(ctas * threads, np.uint32)
    result = execute(
        module(GLOBAL_ID + body + STORE), {"out": out}, grid=(ctas, 1, 1), block=(threads, 1, 1), **options
    )
    assert result.findings == ()
    return result.buffers["out"]


@pytest.mark.parametrize("cohort", [1, 2, 148])
def test_every_thread_writes_its_number(cohort):
    got = run_ids("add.u32 %v, %id, 7;", ctas=5, threads=96, options=RunOptions(cohort=cohort))
    assert np.array_equal(got, np.arange(480) + 7)


def test_lanes_that_part_run_both_sides_and_meet():
    body = """
    .reg .pred %odd; .reg .b32 %t;
    and.b32 %t, %id, 1; setp.eq.u32 %odd, %t, 1;
    @%odd bra ODD;
    mul.lo.u32 %v, %id, 10;
    bra JOIN;
ODD: mul.lo.u32 %v, %id, 1000;
JOIN: add.u32 %v, %v, 1;
    """
    i = np.arange(192)
    assert np.array_equal(run_ids(body), np.where(i % 2, i * 1000, i * 10) + 1)


def test_loops_with_a_different_trip_count_in_every_lane():
    body = """
    .reg .pred %more; .reg .b32 %k;
    mov.u32 %v, 0; mov.u32 %k, 0;
LOOP: setp.ge.u32 %more, %k, %id;
    @%more bra OUT;
    add.u32 %v, %v, %k;
    add.u32 %k, %k, 1;
    bra LOOP;
OUT: add.u32 %v, %v, 0;
    """
    i = np.arange(192)
    assert np.array_equal(run_ids(body), i * (i - 1) // 2)


def test_lanes_that_exit_early_leave_the_others_alone():
    body = """
    .reg .pred %gone; .reg .b32 %t;
    rem.u32 %t, %id, 3; setp.eq.u32 %gone, %t, 0;
    @%gone ret;
    add.u32 %v, %id, 5;
    """
    i = np.arange(192)
    assert np.array_equal(run_ids(body), np.where(i % 3 == 0, 0, i + 5))


def test_branches_that_differ_by_warp_and_by_cta_split_the_strand():
    body = """
    .reg .pred %p, %q; .reg .b32 %w;
    shr.u32 %w, %id, 5; and.b32 %w, %w, 1;
    setp.eq.u32 %p, %w, 0; setp.eq.u32 %q, %c, 1;
    mov.u32 %v, 1;
    @%p bra A;
    add.u32 %v, %v, 10;
A:  @%q bra B;
    add.u32 %v, %v, 100;
B:  add.u32 %v, %v, 1000;
    """
    i = np.arange(192)
    expected = 1001 + np.where(i // 32 % 2, 10, 0) + np.where(i // 64 == 1, 0, 100)
    assert np.array_equal(run_ids(body), expected)


@settings(max_examples=some(40), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(1, 7), st.booleans())
def test_random_nested_divergence_matches_plain_python(first, second, modulus, swap):
    """Two nested conditions and a data-dependent loop; plain Python is the oracle."""
    body = f"""
    .reg .pred %p, %q, %r; .reg .b32 %t, %k;
    xor.b32 %t, %id, {first}; rem.u32 %t, %t, {modulus};
    setp.{"gt" if swap else "le"}.u32 %p, %t, {modulus // 2};
    mov.u32 %v, {second};
    @%p bra ELSE;
    add.u32 %v, %v, %t;
    and.b32 %k, %id, 5;
LOOP: setp.eq.u32 %r, %k, 0;
    @%r bra OUT;
    mad.lo.u32 %v, %v, 3, %k;
    sub.u32 %k, %k, 1;
    bra LOOP;
ELSE: setp.lt.u32 %q, %id, 70;
    @!%q bra SKIP;
    xor.b32 %v, %v, 255;
SKIP: add.u32 %v, %v, 9;
OUT: xor.b32 %v, %v, %t;
    """

    def oracle(i: int) -> int:
        t = (i ^ first) % modulus
        v = second
        if not (t > modulus // 2 if swap else t <= modulus // 2):
            v += t
            for k in range(i & 5, 0, -1):
                v = (v * 3 + k) & 0xFFFFFFFF
        else:
            if i < 70:
                v ^= 255
            v += 9
        return (v ^ t) & 0xFFFFFFFF

    assert run_ids(body, ctas=2).tolist() == [oracle(i) for i in range(128)]


def test_predicated_instructions_act_per_lane():
    body = """
    .reg .pred %p; setp.lt.u32 %p, %id, 40;
    mov.u32 %v, 3; @%p add.u32 %v, %v, 4; @!%p mov.u32 %v, %id;
    """
    i = np.arange(192)
    assert np.array_equal(run_ids(body), np.where(i < 40, 7, i))


EXCHANGE = """
.reg .b32 %s, %o; .reg .b32 %base;
mov.u32 %base, tile; mov.u32 %s, %tid.x; shl.b32 %o, %s, 2; add.u32 %s, %base, %o;
st.shared.u32 [%s], %id;
{sync}
mov.u32 %o, %tid.x; xor.b32 %o, %o, 63; shl.b32 %o, %o, 2; add.u32 %o, %o, %base;
ld.shared.u32 %v, [%o];
"""


def test_shared_memory_and_bar_sync_exchange_values():
    out = np.zeros(128, np.uint32)
    text = module(GLOBAL_ID + EXCHANGE.format(sync="bar.sync 0;") + STORE, shared=".shared .align 16 .b8 tile[256];\n")
    result = execute(text, {"out": out}, grid=(2, 1, 1), block=(64, 1, 1))
    assert result.findings == ()
    i = np.arange(128)
    assert np.array_equal(result.buffers["out"], i ^ 63)


def test_reading_unwritten_shared_memory_is_poison_and_reported_with_its_line():
    out = np.zeros(1, np.uint32)
    body = ".reg .b32 %b, %v; mov.u32 %b, tile;\nld.shared.u32 %v, [%b+8];\nst.global.u32 [%p_out], %v;"
    text = module(body, shared=".shared .align 16 .b8 tile[256];\n")
    result = execute(text, {"out": out})
    line = text[: text.index("ld.shared")].count("\n") + 1
    assert [(f.rule, f.verdict, f.line) for f in result.findings] == [("shared-memory-unwritten", Verdict.error, line)]
    assert result.buffers["out"][0] == 0xFFFFFFFF


HANDSHAKE = """
.reg .b32 %bar, %v, %w; .reg .pred %p, %first;
mov.u32 %bar, bars; mov.u32 %w, %tid.x; shr.u32 %w, %w, 5; setp.ne.u32 %first, %w, 0;
@%first bra SKIP;
{{ .reg .pred %one; elect.sync _|%one, 0xffffffff; @!%one bra DONE;
mbarrier.init.shared::cta.b64 [%bar], 1;
DONE: }}
SKIP: bar.sync 0;
setp.eq.u32 %first, %w, 0;
@%first bra PRODUCE;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;
@!%p bra WAIT;
mov.u32 %v, 42; st.global.u32 [%p_out], %v;
bra END;
PRODUCE:
{{ .reg .pred %one; elect.sync _|%one, 0xffffffff; @!%one bra DONE;
{arrive}
DONE: }}
END:
"""
BARS = ".shared .align 8 .b8 bars[64];\n"


def test_an_elected_thread_signals_another_warp_through_an_mbarrier():
    text = module(HANDSHAKE.format(arrive="mbarrier.arrive.shared::cta.b64 _, [%bar];"), shared=BARS)
    result = execute(text, {"out": np.zeros(1, np.uint32)}, block=(64, 1, 1), grid=(1, 1, 1))
    assert result.buffers["out"][0] == 42
    assert result.findings == ()


def test_a_hang_names_each_warp_its_line_and_the_barriers():
    text = module(HANDSHAKE.format(arrive="mov.u32 %v, 1;"), shared=BARS)
    line = text[: text.index("WAIT:")].count("\n") + 1
    with pytest.raises(DeadlockError) as caught:
        execute(text, {"out": np.zeros(1, np.uint32)}, block=(64, 1, 1))
    message = str(caught.value)
    assert f"warp 1: kernel.ptx:{line}: waits for mbarrier 0x400, phase parity 0" in message
    assert "mbarrier 0x400 in CTA 0: phase 0 (parity 0), 1 of 1 arrivals pending, 0 bytes outstanding" in message
    assert caught.value.exit_code == 1


def test_straight_code_keeps_the_limit_too():
    text = module(".reg .b32 %v; mov.u32 %v, 1;\n" + "add.u32 %v, %v, 1;\n" * 20 + "st.global.u32 [%p_out], %v;")
    done = execute(text, {"out": np.zeros(1, np.uint32)}, options=RunOptions(max_instructions=24))
    assert done.buffers["out"][0] == 21
    with pytest.raises(EndlessError, match=r"^error.M300.: a warp executed 24 instructions, the limit is 23"):
        execute(text, {"out": np.zeros(1, np.uint32)}, options=RunOptions(max_instructions=23))


def test_a_loop_that_changes_nothing_is_a_hang():
    loop = "LOOP: ld.global.u32 %v, [%p_out]; setp.eq.u32 %p, %v, 0; @%p bra LOOP;"
    text = module(".reg .pred %p; .reg .b32 %v;\n" + loop)
    with pytest.raises(DeadlockError, match="it spins in a loop without side effects"):
        execute(text, {"out": np.zeros(1, np.uint32)})


def test_a_loop_that_counts_for_ever_ends_at_the_limit():
    body = """
    .reg .b32 %w; .reg .pred %first;
    mov.u32 %w, %tid.x; setp.lt.u32 %first, %w, 32;
    @!%first bra COUNT;
    bar.sync 1, 64;
COUNT: add.u32 %w, %w, 1;
    bra COUNT;
    """
    text = module(body)
    counting, waiting = (text[: text.index(piece)].count("\n") + 1 for piece in ("COUNT: ", "bar.sync"))
    with pytest.raises(EndlessError, match="the kernel did not end: a warp executed") as caught:
        execute(text, {"out": np.zeros(1, np.uint32)}, block=(64, 1, 1), options=RunOptions(max_instructions=200_000))
    message = str(caught.value)
    assert f"CTA 0, warp 0: kernel.ptx:{waiting}: waits for CTA barrier 1 (1 of 2 warps there)" in message
    assert f"CTA 0, warp 1: kernel.ptx:{counting}: runs, " in message
    executed = int(message.split("a warp executed ")[1].split()[0])
    assert 200_000 < executed <= 200_000 + 2 * TURN, "stopped at the end of the turn in which it passed the limit"
    assert (caught.value.warp, caught.value.exit_code) == (1, 1)


def test_what_is_executed_before_warps_part_counts_for_both():
    count = "{name}: add.u32 %n, %n, 1; setp.lt.u32 %p, %n, {most}; @%p bra {name};\n"
    body = ".reg .b32 %w, %n; .reg .pred %p, %first;\nmov.u32 %n, 0; mov.u32 %w, %tid.x; setp.lt.u32 %first, %w, 32;\n"
    body += count.format(name="TOGETHER", most=100_000) + "@%first bra END;\n"
    text = module(body + count.format(name="APART", most=200_000) + "END:")
    run = {"buffers": {"out": np.zeros(1, np.uint32)}, "block": (64, 1, 1)}
    execute(text, options=RunOptions(max_instructions=620_000), **run)
    with pytest.raises(EndlessError, match=r"warp 1: kernel\.ptx"):
        execute(text, options=RunOptions(max_instructions=400_000), **run)


def test_a_warp_that_polls_memory_sees_what_another_writes():
    body = """
    .reg .b32 %w, %v; .reg .pred %p, %first;
    mov.u32 %w, %tid.x; setp.lt.u32 %first, %w, 32;
    @!%first bra WRITE;
LOOP: ld.global.u32 %v, [%p_out]; setp.ne.u32 %p, %v, 7; @%p bra LOOP;
    bra END;
WRITE: mov.u32 %v, 0; mov.u32 %w, 0;
COUNT: add.u32 %w, %w, 1; setp.lt.u32 %p, %w, 100000; @%p bra COUNT;
    mov.u32 %v, 7; st.global.u32 [%p_out], %v;
END:
    """
    result = execute(module(body), {"out": np.zeros(1, np.uint32)}, block=(64, 1, 1))
    assert result.buffers["out"][0] == 7


def test_a_missing_warp_at_a_cta_barrier_is_a_hang():
    text = module(
        ".reg .b32 %w; .reg .pred %p; mov.u32 %w, %tid.x; setp.lt.u32 %p, %w, 32;\n@%p bra END; bar.sync 1, 64;\nEND:"
    )
    with pytest.raises(DeadlockError, match=r"CTA barrier 1 \(1 of 2 warps there\)"):
        execute(text, {"out": np.zeros(1, np.uint32)}, block=(64, 1, 1))


def test_exited_warps_do_not_hold_up_a_barrier():
    body = GLOBAL_ID + ".reg .pred %p; setp.ge.u32 %p, %id, 32; @%p ret; bar.sync 0; mov.u32 %v, 5;" + STORE
    result = execute(module(body), {"out": np.zeros(64, np.uint32)}, block=(64, 1, 1))
    assert result.buffers["out"].tolist() == [5] * 32 + [0] * 32


FAULTS = {
    "stray pointer": (
        ".reg .b32 %v; .reg .b64 %a; mov.b64 %a, 64; ld.global.u32 %v, [%a];",
        MachineFault, "global address 0x40 is in no buffer",
    ),
    "past the end": (
        ".reg .b32 %v; ld.global.u32 %v, [%p_out+256];",
        MachineFault, "access of 4 bytes at offset 256 of buffer 'out', which has 256 bytes",
    ),
    "misaligned": (
        ".reg .b32 %v; mov.u32 %v, 1; st.global.u32 [%p_out+2], %v;",
        MachineFault, "not aligned to 4 bytes",
    ),
    "outside shared memory": (
        ".reg .b32 %v; .reg .b32 %s; mov.u32 %s, 0; ld.shared.u32 %v, [%s+4096];",
        MachineFault, "ld.shared of 4 bytes at shared address 0x1000, but the CTA has 0x400 bytes",
    ),
    "no barrier there": (
        ".reg .b32 %s; .reg .b64 %t; mov.u32 %s, 1024; mbarrier.arrive.shared::cta.b64 %t, [%s];",
        MachineFault, "no initialised mbarrier at shared address 0x400",
    ),
    "no semantics": (
        ".reg .b64 %d; .reg .b32 %t, %i; .reg .pred %p; "
        "tcgen05.mma.sp.cta_group::1.kind::f16 [%t], %d, %d, [%t], %i, %p;",
        UnmodelledError, "the simulator has no tcgen05.mma.sp",
    ),
    "undeclared": (".reg .b32 %v; mov.u32 %v, %w;", PtxSyntaxError, "%w"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_say_what_and_where(name):
    body, error, message = FAULTS[name]
    with pytest.raises(error) as caught:
        execute(module(body.replace("; ", ";\n")), {"out": np.zeros(64, np.uint32)})
    assert message in str(caught.value)
    assert caught.value.span.file == "kernel.ptx"


SPACES = """
.reg .b32 %t, %v, %w, %x; .reg .b64 %a, %s, %o; .reg .pred %p;
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.u64 %o, %o, %p_out; mov.u32 %w, cells; mad.lo.u32 %w, %t, 4, %w;
add.u32 %v, %t, 100; st.shared.u32 [%w], %v; cvt.u64.u32 %s, %w; cvta.shared.u64 %s, %s;
and.b32 %x, %t, 1; setp.ne.u32 %p, %x, 0; selp.b64 %a, %s, %o, %p;
ld.u32 %v, [%a]; add.u32 %v, %v, 1; st.u32 [%a], %v; atom.add.u32 %x, [%a], 10;
st.global.u32 [%o+128], %v; st.global.u32 [%o+256], %x; ld.shared.u32 %v, [%w]; st.global.u32 [%o+384], %v;
"""


def test_lanes_of_one_instruction_use_two_state_spaces():
    """Odd lanes have generic addresses of shared memory, even ones of a buffer."""
    text = module(SPACES.replace("; ", ";\n"), shared=".shared .align 4 .b32 cells[32];")
    lane = np.arange(32, dtype=np.uint32)
    buffer, loaded, old, shared = (
        execute(text, {"out": np.concatenate([7 * lane, np.zeros(96, np.uint32)])}).buffers["out"].reshape(4, 32)
    )
    odd = lane % 2 == 1
    assert np.array_equal(buffer, np.where(odd, 7 * lane, 7 * lane + 11))
    assert np.array_equal(shared, np.where(odd, lane + 111, lane + 100))
    assert np.array_equal(loaded, np.where(odd, lane + 101, 7 * lane + 1))
    assert np.array_equal(old, loaded)


def test_what_takes_a_carry_and_gives_none_leaves_it():
    body = """.reg .b32 %x, %y, %z; add.cc.u32 %x, 0xFFFFFFFF, 1; addc.u32 %y, 5, 5; addc.u32 %z, 0, 0;
    add.u32 %z, %z, %y; st.global.u32 [%p_out], %z;"""
    found = execute(module(body.replace("; ", ";\n")), {"out": np.zeros(1, np.uint32)}).buffers["out"]
    assert found.tolist() == [11 + 1]


def test_a_launch_that_does_not_fit_the_kernel_is_refused():
    for extents in ("64, 1, 1", "64, 1", "64"):
        text = module("").replace(".u64 out)", f".u64 out)\n.reqntid {extents}")
        with pytest.raises(LaunchError, match=r"a block of \(32, 1, 1\), the kernel says .reqntid 64, 1, 1"):
            execute(text, {"out": np.zeros(1, np.uint32)})
        execute(text, {"out": np.zeros(1, np.uint32)}, block=(64, 1, 1))
    with pytest.raises(LaunchError, match=r"has 1 parameters .*, the launch file gives 0"):
        execute(module(""), {"out": np.zeros(1, np.uint32)}, pointers=())
