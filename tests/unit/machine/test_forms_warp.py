"""Warp-level forms against plain loops over lanes, under divergence too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.exact import decode
from support.examples import some
from support.kernels import execute, module
from support.recorded import assemble_all, recorded

from convc.ir.findings import Verdict


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(texts)


HEAD = """.reg .b32 %id, %x, %y, %z, %d, %m; .reg .b64 %o, %t; .reg .pred %p, %q, %r;
mov.u32 %id, %tid.x; mul.wide.u32 %o, %id, 8; mul.wide.u32 %t, %id, 4; add.u64 %t, %p_x, %t; add.u64 %o, %p_out, %o;
ld.global.u32 %x, [%t]; mov.u32 %d, 0; mov.u32 %m, 0xffffffff;
"""
TAIL = "selp.u32 %z, 1, 0, %q; st.global.v2.u32 [%o], {%d, %z};"


def run_lanes(body: str, x: np.ndarray, *, shared: str = "", findings: int = 0):
    """Run ``body`` with x of each thread in %x; returns (d, q) of every thread."""
    out = np.zeros(2 * x.size, np.uint32)
    text = module(HEAD + "setp.eq.u32 %q, 0, 1;\n" + body + TAIL, pointers=("x", "out"), shared=shared)
    result = execute(text, {"x": x, "out": out}, block=(x.size, 1, 1), pointers=("x", "out"))
    assert len(result.findings) == findings
    return result.buffers["out"].reshape(-1, 2).T.tolist()


def shuffle(mode, lane, b, c):
    """The manual's program for shfl.sync (9.7.9.6)."""
    segment, cval, bval = c >> 8 & 31, c & 31, b & 31
    limit = lane & segment | cval & ~segment & 31
    low = lane & segment
    if mode == "up":
        j, inside = lane - bval, lane - bval >= limit
    elif mode == "down":
        j, inside = lane + bval, lane + bval <= limit
    elif mode == "bfly":
        j, inside = lane ^ bval, (lane ^ bval) <= limit
    else:
        j = low | bval & ~segment & 31
        inside = j <= limit
    return (j if inside else lane), inside


@settings(max_examples=some(25), deadline=None)
@given(
    mode=st.sampled_from(["up", "down", "bfly", "idx"]),
    b=st.integers(0, 40),
    c=st.sampled_from([0, 31, 0x1800, 0x181F, 0x1C1F, 0x100F, 0x1E01]),
    seed=st.integers(0, 1000),
)
def test_shuffles(mode, b, c, seed):
    if mode == "up":
        c &= ~31
    x = np.random.default_rng(seed).integers(0, 1 << 32, 64, dtype=np.uint32)
    d, q = run_lanes(f"shfl.sync.{mode}.b32 %d|%q, %x, {b}, {c}, -1;", x)
    want = [shuffle(mode, i % 32, b, c) for i in range(64)]
    want = [(int(x[i // 32 * 32 + j]), int(inside)) for i, (j, inside) in enumerate(want)]
    assert list(zip(d, q, strict=True)) == want


def test_shuffle_by_a_lane_of_its_own_and_of_a_uniform_value():
    x = np.arange(64, dtype=np.uint32)
    d, _ = run_lanes("sub.u32 %y, 31, %x; shfl.sync.idx.b32 %d, %x, %y, 31, -1;", x)
    assert d == [i // 32 * 32 + (31 - i) % 32 for i in range(64)]
    d, _ = run_lanes("mov.u32 %y, 9; shfl.sync.idx.b32 %d, %y, 3, 31, -1;", x)
    assert d == [9] * 64


def test_shuffle_among_parted_lanes():
    """Odd lanes talk to odd lanes; a lane that asks one that is not there keeps its own value."""
    x = np.arange(32, dtype=np.uint32)
    body = """and.b32 %y, %x, 1; setp.eq.u32 %p, %y, 1; @!%p bra SKIP;
    shfl.sync.down.b32 %d|%q, %x, 2, 31, 0xaaaaaaaa; shfl.sync.down.b32 %y, %x, 1, 31, 0xaaaaaaaa;
    mad.lo.u32 %d, %y, 100, %d;
    SKIP: """
    d, q = run_lanes(body, x)
    # the lane behind takes no part, which gives zero; lane 31 has none behind it, and keeps its own
    assert d == [0 if i % 2 == 0 else (i + 2 if i < 30 else 101 * i) for i in range(32)]
    assert q == [int(i % 2 == 1 and i < 30) for i in range(32)]


def test_a_membermask_with_parted_lanes_is_reported():
    x = np.arange(32, dtype=np.uint32)
    body = "setp.lt.u32 %p, %x, 16; @!%p bra SKIP; shfl.sync.bfly.b32 %d, %x, 1, 31, -1; SKIP: "
    out = np.zeros(64, np.uint32)
    text = module(HEAD + "setp.eq.u32 %q, 0, 1;\n" + body + TAIL, pointers=("x", "out"))
    result = execute(text, {"x": x, "out": out}, pointers=("x", "out"))
    assert [(f.rule, f.verdict) for f in result.findings] == [("warp-sync-mask", Verdict.error)]
    assert "shfl.sync: the membermask includes lanes that have diverged" in result.findings[0].message


NAMING = [
    "shfl.sync.bfly.b32 %d, %x, 1, 31, {};", "elect.sync %d|%p, {};", "bar.warp.sync {};",
    "vote.sync.any.pred %q, %q, {};",
]  # fmt: skip


@pytest.mark.parametrize("form", NAMING)
def test_a_membermask_without_an_executing_lane_is_reported(form):
    x = np.arange(32, dtype=np.uint32)

    def found(body: str) -> list[str]:
        text = module(HEAD + "setp.eq.u32 %q, 0, 1;\n" + body + TAIL, pointers=("x", "out"))
        result = execute(text, {"x": x, "out": np.zeros(64, np.uint32)}, pointers=("x", "out"))
        return [f"{f.rule}: {f.message}" for f in result.findings]

    name = form.split(" ")[0].removesuffix(".bfly.b32").removesuffix(".any.pred")
    words = f"warp-sync-mask: {name}: the membermask does not include all executing lanes, which is undefined"
    assert found(form.format("0xffffffff")) == []
    assert found(form.format("0xfffffffe")) == found(form.format("0x80000000")) == [words]
    assert found(f"setp.ne.u32 %p, %x, 31; @%p bra OVER; {form.format('0x80000000')} OVER: ") == []


def test_lanes_that_exited_may_be_named():
    x = np.arange(32, dtype=np.uint32)
    d, _ = run_lanes("setp.ge.u32 %p, %x, 16; @%p exit; vote.sync.ballot.b32 %d, %q, -1; not.b32 %d, %d;", x)
    assert d[:16] == [0xFFFFFFFF] * 16
    d, _ = run_lanes("setp.ge.u32 %p, %x, 16; @%p exit; activemask.b32 %d;", x)
    assert d[:16] == [0xFFFF] * 16


@settings(max_examples=some(20), deadline=None)
@given(st.lists(st.sampled_from([0, 1, 2, 0xFFFFFFFF]), min_size=32, max_size=32), st.integers(1, (1 << 32) - 1))
def test_votes_and_matches(values, mask):
    """The lanes of the mask take part, the others go round."""
    x = np.array(values, np.uint32)
    part = [i for i in range(32) if mask >> i & 1]
    enter = (
        f"mov.u32 %m, {mask}; shr.u32 %y, %m, %id; and.b32 %y, %y, 1; setp.eq.u32 %p, %y, 1; setp.ne.u32 %r, %x, 0;\n"
    )
    enter += "@!%p bra SKIP;\n"
    leave = "\nSKIP: "

    def ones(lanes):
        return sum(1 << i for i in lanes)

    cases = {
        "vote.sync.all.pred %q, %r, %m;": (0, all(x[part])),
        "vote.sync.any.pred %q, !%r, %m;": (0, not all(x[part])),
        "vote.sync.uni.pred %q, %r, %m;": (0, len({bool(x[i]) for i in part}) == 1),
        "vote.sync.ballot.b32 %d, %r, %m;": (ones(i for i in part if x[i]), False),
        "match.all.sync.b32 %d|%q, %x, %m;": (mask if len(set(x[part])) == 1 else 0, len(set(x[part])) == 1),
        "activemask.b32 %d;": (mask, False),
    }
    for text, (d_want, q_want) in cases.items():
        d, q = run_lanes(enter + text + leave, x)
        assert [d[i] for i in part] == [d_want] * len(part), text
        assert [q[i] for i in part] == [int(q_want)] * len(part), text
        assert all(d[i] == 0 and q[i] == 0 for i in range(32) if i not in part), text
    d, _ = run_lanes(enter + "match.any.sync.b32 %d, %x, %m;" + leave, x)
    assert [d[i] for i in part] == [ones(j for j in part if x[j] == x[i]) for i in part]


@pytest.mark.parametrize(("mode", "answers"), [("all", (0, 0, 1)), ("any", (0, 1, 1)), ("uni", (1, 0, 1))])
def test_each_warp_votes_by_itself(mode, answers):
    x = np.repeat(np.array([0, 0, 1], np.uint32), 32)
    x[40] = 1
    _, q = run_lanes(f"setp.ne.u32 %r, %x, 0; vote.sync.{mode}.pred %q, %r, -1;\n", x)
    assert q == [answer for answer in answers for _ in range(32)]


def s32(v):
    return v - (1 << 32) if v >> 31 else v


REDUCTIONS = {
    "add.u32": lambda v: sum(v) & 0xFFFFFFFF,
    "add.s32": lambda v: sum(v) & 0xFFFFFFFF,
    "min.s32": lambda v: min(v, key=s32),
    "max.s32": lambda v: max(v, key=s32),
    "min.u32": min,
    "max.u32": max,
    "and.b32": lambda v: int(np.bitwise_and.reduce(np.array(v, np.uint32))),
    "or.b32": lambda v: int(np.bitwise_or.reduce(np.array(v, np.uint32))),
    "xor.b32": lambda v: int(np.bitwise_xor.reduce(np.array(v, np.uint32))),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_redux(name):
    x = np.random.default_rng(5).integers(0, 1 << 32, 64, dtype=np.uint32)
    d, _ = run_lanes(f"redux.sync.{name} %d, %x, -1;", x)
    halves = [REDUCTIONS[name](x[w * 32 : w * 32 + 32].tolist()) for w in (0, 1)]
    assert d == [halves[i // 32] for i in range(64)]
    d, _ = run_lanes(f"setp.lt.u32 %p, %id, 5; @%p redux.sync.{name} %d, %x, 31;", x[:32], findings=0)
    assert d == [REDUCTIONS[name](x[:5].tolist())] * 5 + [0] * 27


def test_redux_of_floats():
    values = np.random.default_rng(6).standard_normal(32).astype(np.float32)
    values[3] = np.nan
    x = values.view(np.uint32)
    d, _ = run_lanes("redux.sync.max.f32 %d, %x, -1;", x)
    assert decode(d[0], "f32") == np.nanmax(values)
    d, _ = run_lanes("redux.sync.min.abs.f32 %d, %x, -1;", x)
    assert decode(d[9], "f32") == np.nanmin(np.abs(values))
    d, _ = run_lanes("redux.sync.max.NaN.f32 %d, %x, -1;", x)
    assert d == [0x7FFFFFFF] * 32
    zeros = np.where(np.arange(32) < 7, 0x80000000, 0).astype(np.uint32)
    for name, want in (("max", 0), ("min", 0x80000000)):
        d, _ = run_lanes(f"redux.sync.{name}.f32 %d, %x, -1;", zeros)
        assert d == [want] * 32
    d, _ = run_lanes("redux.sync.max.f32 %d, %x, -1;", np.full(32, 0xFFC00001, np.uint32))
    assert d == [0x7FFFFFFF] * 32


# ---- matrices ----------------------------------------------------------------------------------------------

TILE = ".shared .align 128 .b8 tile[1024];\n"
FILL = """.reg .b32 %s, %v<4>; mov.u32 %s, tile; mad.lo.u32 %y, %id, 4, %s;
ld.global.u32 %v0, [%t]; st.shared.b32 [%y], %v0; bar.sync 0;
"""


def matrix_words(matrix: np.ndarray) -> list[int]:
    """Registers of a warp that holds an 8x8 matrix: lane l has (l / 4, 2 (l % 4)) and the next element."""
    pairs = matrix.reshape(8, 4, 2).astype(np.uint32)
    return (pairs[..., 0] | pairs[..., 1] << 16).reshape(-1).tolist()


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("generic", [False, True])
def test_ldmatrix(count, trans, generic):
    """Rows of four 8x8 matrices lie in shared memory in a scrambled order; lane i gives the address of row i."""
    data = np.random.default_rng(count).integers(0, 1 << 16, (32, 8), dtype=np.uint16)
    words = data.view(np.uint32).reshape(-1)
    x = np.concatenate([words, words[:0]])
    names = ", ".join(f"%v{i}" for i in range(count))
    where, base = "", "%z"
    if not generic:
        where = ".shared"
    else:
        base = "%t"
    for i in range(count):
        body = (
            FILL
            + f"""
        and.b32 %z, %id, 31; mul.lo.u32 %z, %z, 5; and.b32 %z, %z, 31; mad.lo.u32 %z, %z, 16, %s;
        cvt.u64.u32 %t, %z; cvta.shared.u64 %t, %t;
        ldmatrix.sync.aligned.m8n8.x{count}{".trans" * trans}{where}.b16 {{{names}}}, [{base}]; mov.u32 %d, %v{i};
        """
        )
        d, _ = run_lanes(body, x, shared=TILE)
        matrix = np.stack([data[(8 * i + r) * 5 & 31] for r in range(8)])
        want = matrix_words(matrix.T if trans else matrix)
        assert d[:32] == want


@pytest.mark.parametrize("trans", [False, True])
def test_stmatrix_and_movmatrix(trans):
    x = np.random.default_rng(9).integers(0, 1 << 32, 128, dtype=np.uint32)
    body = f"""
    .reg .b32 %s, %v<4>, %w; mov.u32 %s, tile; shr.u32 %w, %id, 5; mul.lo.u32 %w, %w, 256; add.u32 %s, %s, %w;
    and.b32 %z, %id, 31; mad.lo.u32 %z, %z, 16, %s; mov.u32 %v0, %x; not.b32 %v1, %x;
    stmatrix.sync.aligned.m8n8.x2{".trans" * trans}.shared.b16 [%z], {{%v0, %v1}};
    and.b32 %z, %id, 31; mad.lo.u32 %z, %z, 4, %s; {"add.u32 %z, %z, 128;"} ld.shared.b32 %d, [%z];
    movmatrix.sync.aligned.m8n8.trans.b16 %y, %x;
    {"xor.b32 %d, %d, %y; not.b32 %d, %d;" if trans else "xor.b32 %d, %d, %x; not.b32 %d, %d;"}
    """
    d, _ = run_lanes(body, x, shared=TILE)
    assert d == [0] * 128


def test_movmatrix_transposes():
    matrix = np.random.default_rng(4).integers(0, 1 << 16, (8, 8), dtype=np.uint16)
    d, _ = run_lanes("movmatrix.sync.aligned.m8n8.trans.b16 %d, %x;", np.array(matrix_words(matrix), np.uint32))
    assert d == matrix_words(matrix.T)
