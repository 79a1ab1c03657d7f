"""Straight runs of loads, arithmetic and stores, performed at once: nobody can tell."""

from __future__ import annotations

import numpy as np
import pytest
from support.both_ways import DEFAULTS, run_both_ways
from support.kernels import module

from convc.errors import MachineFault
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import RunOptions, RunResult, run
from convc.machine.base.completion import POLICIES
from convc.machine.base.switches import Switches
from convc.machine.execute.decode import decode
from convc.machine.execute.pack_operands import side_by_side
from convc.machine.execute.slp import segments_of
from convc.ptx import parse

HEAD = """
.reg .b32 %t, %g, %c, %w, %n; .reg .b64 %row, %from, %to; .reg .pred %p;
.reg .f32 %v<16>, %b<4>; .reg .b32 %h<8>;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %w, %ntid.x; mad.lo.u32 %g, %c, %w, %t; setp.lt.u32 %p, %t, 40;
mul.wide.u32 %row, %g, {pitch}; add.u64 %to, %row, %p_out; mul.wide.u32 %from, %g, 64; add.u64 %from, %from, %p_x;
"""


def epilogue(
    *, pitch: int = 32, guard: str = "", offsets: tuple[int, ...] = (0, 16), bias: tuple[int, ...] = (0, 16, 32, 48)
) -> str:
    """Sixteen values a thread: a bias added, relu, rounded to f16 in pairs, and stored in pieces of 16 bytes."""
    lines = [HEAD.format(pitch=pitch)]
    for i in range(0, 16, 4):
        lines.append(f"ld.global.v4.f32 {{%v{i}, %v{i + 1}, %v{i + 2}, %v{i + 3}}}, [%from+{4 * i}];")
    for i, offset in zip(range(0, 16, 4), bias, strict=True):
        lines.append(f"ld.global.nc.v4.f32 {{%b0, %b1, %b2, %b3}}, [%p_bias+{offset}];")
        lines += [f"add.rn.f32 %v{i + j}, %v{i + j}, %b{j};" for j in range(4)]
    lines += [f"max.f32 %v{i}, %v{i}, 0f00000000;" for i in range(16)]
    lines += [f"cvt.rn.f16x2.f32 %h{i}, %v{2 * i + 1}, %v{2 * i};" for i in range(8)]
    for piece, offset in enumerate(offsets):
        words = ", ".join(f"%h{4 * piece + word}" for word in range(4))
        lines.append(f"{guard} st.global.v4.b32 [%to+{offset}], {{{words}}};")
    return "\n".join(lines)


def both(
    body: str, *, ctas: int = 2, threads: int = 64, out: int = 1 << 14, switches: Switches = DEFAULTS, cluster: int = 1
):
    """Run both ways; whether the lazy one has segments."""
    text = module(body, pointers=("x", "bias", "out"))
    rng = np.random.default_rng(3)
    values = rng.standard_normal(16 * ctas * threads).astype(np.float32) * 100
    values[::7] = np.array([np.nan, np.inf, -np.inf, 7e4, -0.0, 1e-7, 65519.9, 6e-8], np.float32).repeat(2)[
        rng.integers(16)
    ]
    bias = rng.standard_normal(16).astype(np.float32)
    bias[3] = np.nan
    buffers = {"x": values.view(np.uint32), "bias": bias.view(np.uint32), "out": np.zeros(out // 4, np.uint32)}
    launch = LaunchSpec(
        entry="k",
        grid=(ctas, 1, 1),
        block=(threads, 1, 1),
        cluster=(cluster, 1, 1),
        params=tuple(PointerParam(buffer=name) for name in buffers),
        buffers={name: BufferSpec(dtype="u32", shape=data.shape) for name, data in buffers.items()},
    )
    kernel = parse(text, "k.ptx")
    decoded = decode(kernel, kernel.kernels[0])
    found = segments_of(decoded.kernel.body, decoded.slots, decoded.flow)
    return run_both_ways(text, launch, buffers, switches), found


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"guard": "@%p"},
        {"guard": "@!%p"},
        {"pitch": 64},
        {"pitch": 16},  # rows overlap in part: the order of the stores shows
        {"pitch": 0},  # all threads store the same row
        {"offsets": (16, 0)},
        {"offsets": (0, 0)},
        {"offsets": (0, 32), "pitch": 64},
        {"bias": (0, 32, 32, 48)},
        {"bias": (48, 32, 16, 0)},
        {"bias": (0, 0, 0, 0)},
    ],
    ids=str,
)
def test_an_epilogue(changes):
    result, found = both(epilogue(**changes))
    assert not isinstance(result, Exception)
    assert len(found) == 1


@pytest.mark.parametrize("lane", ["highest", "lowest"])
def test_of_stores_to_one_place_the_lane_stays_that_the_switch_names(lane):
    result, found = both(epilogue(pitch=0), ctas=1, switches=Switches(colliding_stores=lane))
    assert isinstance(result, RunResult)
    assert len(found) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"pitch": 40},
        {"bias": (0, 16, 32, 56)},
        {"bias": (0, 16, 32, 64)},
        {"pitch": 1 << 12},
        {"offsets": (0, 8)},
        {"offsets": (8, 24)},  # all rows lie alike, and none where a piece may lie
        {"offsets": (8,)},
    ],
    ids=str,
)
def test_a_fault_is_at_the_instruction(changes):
    result, _ = both(epilogue(**changes))
    assert isinstance(result, MachineFault)
    assert result.span is not None


def test_registers_keep_what_the_last_instruction_left():
    more = "".join(f"add.rn.f32 %v{i}, %v{i}, %b{i % 4}; st.global.f32 [%to+{4 * i}], %v{i};" for i in range(8))
    result, _ = both(epilogue(pitch=64) + "bar.sync 0;" + more)
    assert not isinstance(result, Exception)


def test_lanes_that_part_execute_one_by_one():
    body = epilogue().replace("ld.global.v4", "@%p bra END;\nld.global.v4", 1) + "\nEND:"
    result, found = both(body)
    assert not isinstance(result, Exception)
    assert found


def test_an_address_that_an_earlier_result_decides_ends_a_segment():
    body = epilogue().replace(
        "max.f32 %v0,", "mov.b32 %n, %v0; and.b32 %n, %n, 48; cvt.u64.u32 %row, %n;\nmax.f32 %v0,"
    )
    result, found = both(body)
    assert not isinstance(result, Exception)
    assert [segment.start for segment in found]


STAGED = """.shared .align 128 .b8 s[8192];
.reg .b32 %q, %o<2>;
mov.u32 %q, s; mad.lo.u32 %o0, %t, {row}, %q; and.b32 %n, %t, 1; shl.b32 %n, %n, 4; xor.b32 %o0, %o0, %n;
xor.b32 %o1, %o0, {piece};
ld.global.v4.f32 {{%b0, %b1, %b2, %b3}}, [%p_bias]; st.shared.v4.f32 [%q+4096], {{%b0, %b1, %b2, %b3}};
bar.sync 0;
"""
READ_BACK = """
bar.sync 0;
ld.shared.v4.b32 {%h0, %h1, %h2, %h3}, [%o0]; ld.shared.v4.b32 {%h4, %h5, %h6, %h7}, [%o1];
st.global.v4.b32 [%to], {%h0, %h1, %h2, %h3}; st.global.v4.b32 [%to+16], {%h4, %h5, %h6, %h7};
"""


def staging(*, row: int = 32, piece: int = 16, bias: tuple[int, ...] = (0, 0, 0, 0), guard: str = "") -> str:
    """The epilogue with numbers from shared memory, where it leaves its results: swizzled, and read back then."""
    head, body = epilogue(bias=bias, offsets=(0, 1), guard=guard).split("ld.global.v4", 1)
    body = ("ld.global.v4" + body).replace("ld.global.nc", "ld.shared").replace("[%p_bias+", "[%q+4096+")
    for i in (0, 1):
        body = body.replace(f"st.global.v4.b32 [%to+{i}]", f"st.shared.v4.b32 [%o{i}]")
    return head + STAGED.format(row=row, piece=piece) + body + READ_BACK


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"row": 64},
        {"piece": 32},  # rows overlap in part: two stores meet
        {"row": 0},  # threads meet
        {"guard": "@%p"},  # what the others read back was never written
        {"bias": (0, 0, 16, 0)},  # numbers that were never written
        {"bias": (0, 4096, 0, 0)},  # a fault
        {"piece": 8},  # and another
    ],
    ids=str,
)
def test_rows_staged_in_shared_memory(changes):
    result, found = both(staging(**changes))
    assert isinstance(result, MachineFault) == (changes in ({"bias": (0, 4096, 0, 0)}, {"piece": 8}))
    kinds = {pack.kind for segment in found for pack in segment.packs}
    assert {"ld.shared", "st.shared"} <= kinds


NUMBERS = "".join(f"add.rn.f32 %v{i}, %v{i}, %v{i};" for i in range(11))
"""Too few for a segment, and enough for somebody to look for one."""


@pytest.mark.parametrize("guard", ["@%p", "@!%p"])
@pytest.mark.parametrize("threads", [64, 32])
@pytest.mark.parametrize("limit", [40, 0])
def test_a_guarded_copy_to_shared_memory_leaves_the_other_registers_alone(guard, threads, limit):
    copy = f"{guard} ld.global.nc.b32 %w, [%from]; {guard} st.shared.b32 [%n], %w;"
    body = HEAD.format(pitch=4).replace("%t, 40", f"%t, {limit}") + ".shared .align 16 .b8 s[256];"
    body += "mov.u32 %n, s; mad.lo.u32 %n, %t, 4, %n; mov.b32 %w, %t;" + copy + "bar.sync 0; st.global.b32 [%to], %w;"
    body += f"{guard} ld.shared.b32 %c, [%n]; {guard} st.global.b32 [%to+2048], %c;"
    result, found = both(body + NUMBERS, threads=threads)
    assert isinstance(result, RunResult)
    assert [[pack.kind for pack in segment.packs] for segment in found] == [["load", "st.shared"]]


PEERS = """.shared .align 128 .b8 s[8192];
.reg .b32 %q, %o<3>; .reg .b32 %rank;
mov.u32 %q, s; mov.u32 %rank, %cluster_ctarank; xor.b32 %rank, %rank, 1; mad.lo.u32 %o0, %t, 32, %q;
"""


def peers(*, guard: str = "", rank: str = "%rank", at: int = 0, own: int = 0, limit: int = 40) -> str:
    """Rows left in shared memory for the other CTA, which adds them to its own, and numbers of its own place."""
    lines = [HEAD.format(pitch=32).replace("%t, 40", f"%t, {limit}"), PEERS]
    for i in (0, 4):
        values = ", ".join(f"%v{i + j}" for j in range(4))
        lines.append(f"ld.global.v4.f32 {{{values}}}, [%from+{4 * i}]; st.shared.v4.f32 [%o0+{4 * i}], {{{values}}};")
    lines.append("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;")
    lines += [f"mov.f32 %v{8 + i}, 0f3f800000;" for i in range(8)]
    lines.append(f"mapa.shared::cluster.u32 %o1, %o0, {rank}; mad.lo.u32 %o2, %rank, 16, %q;")
    for i in (0, 4):
        values = ", ".join(f"%v{8 + i + j}" for j in range(4))
        lines.append(f"{guard} ld.shared::cluster.v4.f32 {{{values}}}, [%o1+{4 * i + at}];")
    lines += [f"{guard} add.rn.f32 %v{i}, %v{i}, %v{8 + i};" for i in range(8)]
    lines.append(f"ld.shared.v4.f32 {{%b0, %b1, %b2, %b3}}, [%o2+{own}];")
    lines += [f"add.rn.f32 %v{i}, %v{i}, %b{i % 4};" for i in range(8)]
    for i in (0, 4):
        lines.append(f"st.global.v4.f32 [%to+{4 * i}], {{%v{i}, %v{i + 1}, %v{i + 2}, %v{i + 3}}};")
    lines.append("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;")
    return "\n".join(lines)


WRONG = ({"rank": "2"}, {"at": 8}, {"at": 1 << 14}, {"own": 4})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rank": "0"},
        {"guard": "@%p"},
        {"guard": "@!%p", "limit": 64},  # nobody reads
        {"guard": "@%p", "rank": "1", "limit": 64},  # everybody does
        {"at": 32},  # the last thread reads what nobody wrote
        {"own": 4096},  # nobody wrote that
        *WRONG,
    ],
    ids=str,
)
def test_rows_that_another_cta_of_the_cluster_left(changes):
    result, found = both(peers(**changes), ctas=4, cluster=2)
    assert isinstance(result, MachineFault) == (changes in WRONG)
    assert {"ld.cluster", "ld.shared", "apply"} <= {pack.kind for segment in found for pack in segment.packs}


@pytest.mark.parametrize("turned", ["not.pred %p, %p;", "setp.ge.and.u32 %p, %t, 20, %p;"])
def test_a_register_is_read_where_its_guard_has_turned(turned):
    """A predicate that is made of itself is another one: what was written under the old one lies elsewhere."""
    result, found = both(epilogue() + f"bar.sync 0; @!%p mov.b32 %v0, 0; {turned} @!%p st.global.f32 [%to], %v0;")
    assert isinstance(result, RunResult)
    assert found


def sums_of_peers(*, guard: str, after: str = "", limit: int = 40) -> str:
    """Rows of all four CTAs of a cluster, through one register that names one after the other; added in their order."""
    lines = [HEAD.format(pitch=32).replace("%t, 40", f"%t, {limit}"), PEERS, ".reg .f32 %part<24>;"]
    for i in (0, 4):
        values = ", ".join(f"%v{i + j}" for j in range(4))
        lines.append(f"ld.global.v4.f32 {{{values}}}, [%from+{4 * i}]; st.shared.v4.f32 [%o0+{4 * i}], {{{values}}};")
    lines.append("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;")
    lines += [f"mov.f32 %v{i}, 0f3f800000;" for i in range(8)]
    for rank in range(4):
        lines.append(f"mapa.shared::cluster.u32 %o1, %o0, {rank};")
        for i in (0, 4):
            values = ", ".join(f"%v{i + j}" if rank == 0 else f"%part{8 * (rank - 1) + i + j}" for j in range(4))
            lines.append(f"{guard} ld.shared::cluster.v4.f32 {{{values}}}, [%o1+{4 * i}];")
    lines += [f"{guard} add.rn.f32 %v{i % 8}, %v{i % 8}, %part{i};" for i in range(24)]
    lines.append("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" + after)
    for i in (0, 4):
        lines.append(f"st.global.v4.f32 [%to+{4 * i}], {{%v{i}, %v{i + 1}, %v{i + 2}, %v{i + 3}}};")
    return "\n".join(lines)


@pytest.mark.parametrize("guard", ["", "@%p", "@!%p"])
@pytest.mark.parametrize("limit", [40, 0])
@pytest.mark.parametrize(
    "after", ["", "add.rn.f32 %v0, %v0, %part3;", "@%p add.rn.f32 %v0, %v0, %part3;", "mov.b32 %v1, %o1;"]
)
def test_one_register_names_one_peer_after_the_other(guard, limit, after):
    """What is read after the adds, and in which threads, decides what must be left in registers."""
    result, found = both(sums_of_peers(guard=guard, limit=limit, after=after), ctas=4, cluster=4)
    assert isinstance(result, RunResult)
    [segment] = [s for s in found if any(pack.kind == "ld.cluster" for pack in s.packs)]
    assert [pack.before for pack in segment.packs if pack.kind == "ld.cluster"] == [0, 1, 2, 3]


PUT_OFF = """
.shared .align 8 .b32 slot; .reg .b32 %t, %tmem, %lane, %old<12>, %new, %sum; .reg .b64 %row, %to; .reg .pred %other;
mov.u32 %t, %tid.x; mul.wide.u32 %row, %t, 4; add.u64 %to, %row, %p_out;
setp.ge.u32 %other, %t, 128;
@%other tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32; bar.sync 0;
ld.shared.b32 %tmem, [slot]; @%other bra FREE;
and.b32 %lane, %t, 96; shl.b32 %lane, %lane, 16; add.u32 %tmem, %tmem, %lane;
{stores}
tcgen05.wait::st.sync.aligned;
{loads}
{between}
mov.b32 %new, 1000;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%tmem], {{%new}};
tcgen05.wait::st.sync.aligned; tcgen05.wait::ld.sync.aligned;
mov.b32 %sum, 0;
{sums}
st.global.b32 [%to], %sum;
FREE: bar.sync 0;
@%other tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, 32;
"""


LOADS = "\n".join(f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%old{i}}}, [%tmem+{i}];" for i in range(12))

ONE_CTA = LaunchSpec(
    entry="k",
    grid=(1, 1, 1),
    block=(160, 1, 1),
    params=(PointerParam(buffer="out"),),
    buffers={"out": BufferSpec(dtype="u32", shape=(128,))},
)


def deferred(between: str) -> str:
    """A kernel that loads twelve words of tensor memory, overwrites the first, and stores the sum of what it loaded."""
    body = PUT_OFF.format(
        stores="\n".join(
            f"mov.b32 %new, {1 << i}; tcgen05.st.sync.aligned.32x32b.x1.b32 [%tmem+{i}], {{%new}};" for i in range(12)
        ),
        loads=LOADS,
        between=between,
        sums="\n".join(f"add.u32 %sum, %sum, %old{i};" for i in range(12)),
    )
    return module(body, pointers=("out",))


@pytest.mark.parametrize("waits", [True, False])
def test_a_load_that_is_deferred_is_performed_where_its_warp_waits(waits):
    """A segment that has the load and its wait may be performed as one under any policy, another one may not."""
    text = deferred("tcgen05.wait::ld.sync.aligned; bar.sync 1, 128;" if waits else "bar.sync 1, 128;")
    kernel = parse(text, "k.ptx")
    decoded = decode(kernel, kernel.kernels[0])
    found = segments_of(decoded.kernel.body, decoded.slots, decoded.flow)
    assert any(pack.kind == "tensor" for segment in found for pack in segment.packs)
    old = (1 << 12) - 1
    expected = {"eager": old, "late": old if waits else old + 999}
    for policy in POLICIES:
        result = run_both_ways(text, ONE_CTA, {}, policy=policy)
        assert isinstance(result, RunResult)
        assert policy not in expected or (result.buffers["out"] == expected[policy]).all()


def test_loads_of_a_segment_are_drawn_for_too():
    """By policy seeded: whether a load behind the segment is deferred is what it would be without segments."""
    text = deferred(f"tcgen05.wait::ld.sync.aligned; bar.sync 1, 128; {LOADS} bar.sync 1, 128;")
    sums: set[int] = set()
    for seed in range(8):
        lazy, eager = (
            run(text, ONE_CTA, {}, options=RunOptions(policy="seeded", seed=seed, evaluation=how)).buffers["out"]
            for how in ("lazy", "eager")
        )
        assert np.array_equal(lazy, eager)
        sums.update(lazy.tolist())
    assert sums == {(1 << 12) - 1, (1 << 12) - 1 + 999}


@pytest.mark.parametrize("low", [0, 3])
def test_registers_that_lie_side_by_side_are_a_block_again(low):
    block = np.arange(2 * 4 * 32 * 8, dtype=np.uint32).reshape(2, 4, 32, 8)
    registers = [block[..., at] for at in range(low, 7)]
    found = side_by_side(registers)
    assert found is not None
    assert np.shares_memory(found, block)
    assert not found.flags.writeable
    assert np.array_equal(found, block[..., low:7])


@pytest.mark.parametrize(
    "other",
    [
        lambda block: [block[..., 1], block[..., 0]],
        lambda block: [block[..., 0], block[..., 2]],
        lambda block: [block[..., 0], block.copy()[..., 1]],
        lambda block: [block[..., 0], block[:1, ..., 1]],
        lambda block: [block[..., 0], 7],
        lambda block: [7, block[..., 0]],
        lambda block: [np.ascontiguousarray(block[..., at]) for at in range(2)],
    ],
    ids=["order", "gap", "other", "fewer", "number behind", "number in front", "copies"],
)
def test_other_registers_are_no_block(other):
    assert side_by_side(other(np.arange(2 * 4 * 32 * 8, dtype=np.uint32).reshape(2, 4, 32, 8))) is None
