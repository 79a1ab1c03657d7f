"""Loads, stores and atomics in every state space, generic addresses included."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some
from support.forms import Form, evaluate, sample
from support.kernels import execute, module
from support.recorded import assemble_all, recorded

from convc import machine
from convc.errors import MachineFault, UnmodelledError
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(texts)


ID = """.reg .b32 %id, %n, %c; mov.u32 %id, %tid.x; mov.u32 %n, %ntid.x; mov.u32 %c, %ctaid.x;
mad.lo.u32 %id, %c, %n, %id;
"""
OUT = ".reg .b64 %o; mul.wide.u32 %o, %id, 4; add.u64 %o, %o, %p_out;\n"


def run_ids(body, variables="", *, threads=64, ctas=2, buffers=None, dtype=np.uint32, cluster=(1, 1, 1)):
    out = np.zeros(threads * ctas, dtype)
    given = {"out": out, **(buffers or {})}
    text = module(ID + OUT + body, shared=variables, pointers=tuple(given)).replace(".version 8.7", ".version 8.8")
    return execute(text, given, grid=(ctas, 1, 1), block=(threads, 1, 1), pointers=tuple(given))


# ---- data of the module ------------------------------------------------------------------------------------

VARIABLES = """
.global .align 8 .b32 table[2][3] = {{1, 2, 3}, {4, -5}};
.global .align 8 .u64 where[2] = {table, table+4};
.global .b32 counter;
.const .align 4 .f32 halves[2] = {0.5, 0f40200000};
.const .align 2 .b8 text[5] = {72, 101, 0x6c, 108, 255};
"""


def test_module_variables_have_their_initial_values_and_keep_stores():
    body = """
    .reg .b64 %t, %w; .reg .b32 %x, %y, %z; .reg .f32 %h; .reg .pred %p;
    setp.ne.u32 %p, %id, 0; @%p ret;
    ld.global.u64 %t, [where+8]; ld.global.u32 %x, [%t+12]; st.global.u32 [%p_out], %x;
    mov.u64 %t, table; ld.global.u32 %x, [%t+20]; st.global.u32 [%p_out+4], %x;
    ld.const.f32 %h, [halves+4]; st.global.f32 [%p_out+8], %h;
    cvta.const.u64 %t, text; ld.u8 %x, [%t+4]; st.global.u32 [%p_out+12], %x;
    ld.const.u8 %x, [text+1]; st.global.u32 [%p_out+16], %x;
    mov.u32 %x, 9; st.global.u32 [counter], %x; ld.global.u32 %y, [counter]; st.global.u32 [%p_out+20], %y;
    cvta.global.u64 %w, counter; ld.u32 %y, [%w]; st.global.u32 [%p_out+24], %y;
    """
    got = run_ids(body, VARIABLES, ctas=1).buffers["out"][:7]
    assert got.tolist() == [0xFFFFFFFB, 0, 0x40200000, 255, 101, 9, 9]


def test_each_launch_begins_with_the_initial_values():
    body = """.reg .b32 %x; .reg .pred %p; setp.ne.u32 %p, %id, 0; @%p ret;
    ld.global.u32 %x, [table]; add.u32 %x, %x, 1; st.global.u32 [table], %x; st.global.u32 [%p_out], %x;"""
    assert [run_ids(body, VARIABLES, ctas=1).buffers["out"][0] for _ in range(2)] == [2, 2]


def test_constants_cannot_be_written_and_are_bounded():
    write = ".reg .b64 %t; .reg .b32 %x; mov.u32 %x, 1; cvta.const.u64 %t, text; st.u32 [%t], %x;"
    with pytest.raises(MachineFault, match="constants cannot be written"):
        run_ids(write, VARIABLES)
    with pytest.raises(MachineFault, match="a read outside constant memory"):
        run_ids(".reg .b32 %x; ld.const.u32 %x, [halves+400];", VARIABLES)
    with pytest.raises(MachineFault, match="offset 24 of buffer 'table', which has 24 bytes"):
        run_ids(".reg .b32 %x; ld.global.u32 %x, [table+24];", VARIABLES)


def test_functions_have_addresses():
    text = ".func f() { ret; } .func g() { ret; }\n.global .align 16 .u64 pointers[2] = {f, g};\n"
    body = """.reg .b64 %f, %g; ld.global.v2.u64 {%f, %g}, [pointers]; sub.u64 %f, %g, %f; mov.b64 %o, g;
    sub.u64 %g, %g, %o; st.global.v2.u64 [%p_out], {%f, %g};"""
    assert run_ids(body, text).buffers["out"].tolist()[:4] == [16, 0, 0, 0]


def test_an_address_of_a_constant_in_an_initial_value_is_refused():
    text = ".const .b32 c; .const .u64 pointer = c;\n"
    with pytest.raises(UnmodelledError, match="the initial value of 'pointer' is the address of 'c'"):
        run_ids("", text)


# ---- local memory ------------------------------------------------------------------------------------------


def test_local_memory_belongs_to_each_thread():
    body = """
    .local .align 16 .b8 frame[64]; .reg .b64 %s, %g; .reg .b32 %x, %i, %y; .reg .pred %p;
    mov.u64 %s, frame; and.b32 %i, %id, 7; mul.wide.u32 %g, %i, 4; add.u64 %s, %s, %g;
    mul.lo.u32 %x, %id, 3; st.local.u32 [%s], %x;
    setp.lt.u32 %p, %id, 40; @%p st.local.u32 [%s], %id;
    cvta.local.u64 %g, %s; ld.u32 %y, [%g];
    ld.local.u32 %x, [frame+60]; shr.u32 %x, %x, 31; mad.lo.u32 %y, %x, 1000, %y;
    st.global.u32 [%o], %y;
    """
    i = np.arange(128)
    assert np.array_equal(run_ids(body).buffers["out"], np.where(i < 40, i, 3 * i) + 1000)


def test_local_vectors_and_bounds():
    body = """
    .local .align 16 .b8 frame[32]; .reg .b32 %a, %b, %x, %y;
    mov.u32 %a, frame; add.u32 %b, %id, 1; st.local.v2.u32 [%a+8], {%id, %b}; ld.local.v2.u32 {%x, %y}, [%a+8];
    add.u32 %x, %x, %y; st.global.u32 [%o], %x;
    """
    assert np.array_equal(run_ids(body).buffers["out"], 2 * np.arange(128) + 1)
    with pytest.raises(MachineFault, match="access of 8 bytes at local address 32, but a thread has 32 bytes"):
        run_ids(body.replace("%a+8", "%a+32"))
    with pytest.raises(MachineFault, match="not aligned to 8 bytes"):
        run_ids(body.replace("%a+8", "%a+4"))
    with pytest.raises(MachineFault, match="access of 8 bytes at local address -8, but a thread has 32 bytes"):
        run_ids(body.replace("%a+8", "frame+-8"))


# ---- generic addresses -------------------------------------------------------------------------------------

SPACES = """
.local .align 8 .b8 frame[16]; .reg .b64 %g<4>, %t; .reg .b32 %k, %x; .reg .pred %p, %q, %r;
cvta.shared.u64 %g0, tile; mul.wide.u32 %t, %id, 4; rem.u64 %t, %t, 256; add.u64 %g0, %g0, %t;
cvta.local.u64 %g1, frame; mov.u64 %g2, %o; and.b32 %k, %id, 3;
setp.eq.u32 %p, %k, 1; setp.eq.u32 %q, %k, 2; mov.u64 %t, %g0; @%p mov.u64 %t, %g1; @%q mov.u64 %t, %g2;
"""
TILE = ".shared .align 16 .b8 tile[256];\n"


def test_one_instruction_may_access_several_spaces():
    body = SPACES + "st.u32 [%t], %id; ld.u32 %x, [%t]; add.u32 %x, %x, 5; st.global.u32 [%o], %x;"
    result = run_ids(body, TILE)
    assert result.findings == ()
    assert np.array_equal(result.buffers["out"], np.arange(128) + 5)


@pytest.mark.parametrize(
    ("space", "wanted"), [("shared", 0), ("local", 1), ("global", 2), ("const", 9), ("shared::cluster", 0)]
)
def test_isspacep(space, wanted):
    body = SPACES + f"isspacep.{space} %r, %t; selp.u32 %x, 1, 0, %r; st.global.u32 [%o], %x;"
    k = np.arange(128) & 3
    where = np.select([k == 1, k == 2], [1, 2], 0)
    assert np.array_equal(run_ids(body, TILE).buffers["out"], where == wanted)


def test_cvta_param_stays_inside_64_bits():
    y = run_ids("""
    .reg .b64 %m, %g; .reg .pred %above; .reg .b32 %x;
    mov.u64 %m, -1; cvta.param.u64 %g, %m;
    setp.gt.u64 %above, %g, %m; selp.u32 %x, 1, 0, %above; st.global.u32 [%o], %x;
    """)  # fmt: skip
    assert not y.buffers["out"].any()


def test_cvta_to_takes_the_window_off_again():
    body = (
        SPACES
        + """
    .reg .b64 %b; .reg .b32 %s, %l; mov.u32 %s, tile; cvta.to.shared.u64 %b, %g0; cvt.u32.u64 %x, %b;
    sub.u32 %x, %x, %s;
    cvt.u32.u64 %l, %g0; sub.u32 %l, %l, %s; xor.b32 %l, %l, %x; add.u32 %x, %x, %l; st.global.u32 [%o], %x;
    """
    )
    assert np.array_equal(run_ids(body, TILE).buffers["out"], np.arange(128) * 4 % 256)


def test_lanes_may_point_into_different_buffers():
    body = """.reg .b64 %t; .reg .b32 %k, %x; .reg .pred %p; and.b32 %k, %id, 1; setp.eq.u32 %p, %k, 1;
    mul.wide.u32 %t, %id, 4; add.u64 %t, %t, %p_other; selp.b64 %t, %t, %o, %p;
    st.global.u32 [%t], %id; ld.global.u32 %x, [%t]; add.u32 %x, %x, 1; st.global.u32 [%t], %x;"""
    result = run_ids(body, buffers={"other": np.zeros(128, np.uint32)})
    i = np.arange(128)
    assert np.array_equal(result.buffers["out"], np.where(i % 2, 0, i + 1))
    assert np.array_equal(result.buffers["other"], np.where(i % 2, i + 1, 0))


def test_a_stray_generic_address_faults():
    with pytest.raises(MachineFault, match="generic address 0x5500000000000000 is in no state space"):
        run_ids(".reg .b64 %t; .reg .b32 %x; mov.b64 %t, 0x5500000000000000; ld.u32 %x, [%t];")
    with pytest.raises(MachineFault, match="global address 0x8 is in no buffer"):
        run_ids(".reg .b64 %t; .reg .b32 %x; mov.b64 %t, 8; ld.u32 %x, [%t];")


SHAPES = [
    (Form("{{ .reg .b64 %y; add.u64 %y, %out, 8; st.global.relaxed.gpu.u64 [%y], {a};"
          " ld.acquire.sys.global.u64 {d}, [%y]; }}",
          "b64", "b64"), lambda a: a),
    (Form("{{ st.volatile.global.u16 [%out], {a}; ld.volatile.global.s16 {d}, [%out]; }}", "b16", "b32"),
     lambda a: a | (0xFFFF0000 if a >> 15 else 0)),
    (Form("{{ st.mmio.relaxed.sys.global.u32 [%out], {a};"
          " ld.mmio.relaxed.sys.global.u32 {d}, [%out]; }}", "b32", "b32"),
     lambda a: a),
    (Form("{{ st.global.b128 [%out], {a}; ld.global.nc.b128 {d}, [%out]; }}", "b128", "b128"), lambda a: a),
    (Form("{{ .reg .b32 %x, %y, %z; .reg .b64 %g; createpolicy.fractional.L2::evict_first.b64 %g, 0f3F800000;"
          " st.global.L1::no_allocate.L2::cache_hint.v2.b32 [%out], {{{a}, {b}}}, %g;"
          " ld.global.L2::cache_hint.v2.b32 {{%x, %y}}, [%out], %g; sub.u32 {d}, %x, %y; }}", "b32 b32", "b32"),
     lambda a, b: a - b & 0xFFFFFFFF),
    (Form("{{ .local .align 16 .b8 f[32]; .reg .b32 %x; st.local.b128 [f+16], {a}; ld.local.b32 {d}, [f+20]; }}",
          "b128", "b32"), lambda a: a >> 32 & 0xFFFFFFFF),
    (Form("{{ .reg .b64 %w; applypriority.global.L2::evict_normal [%in], 128;"
          " prefetch.global.L2 [%in]; mov.b64 {d}, {a}; }}",
          "b64", "b64"), lambda a: a),
]  # fmt: skip


@pytest.mark.parametrize(("form", "oracle"), SHAPES, ids=range(len(SHAPES)))
def test_orderings_hints_and_wide_accesses(form, oracle):
    tuples = sample(form, 40)
    got = evaluate(form, tuples)
    assert got == [oracle(*t) for t in tuples]


def test_eight_elements_at_once():
    data = np.arange(128 * 8, dtype=np.uint32)
    body = """.reg .b64 %t; .reg .b32 %v<8>; mul.wide.u32 %t, %id, 32; add.u64 %t, %t, %p_x;
    ld.global.v8.b32 {%v0, %v1, %v2, %v3, %v4, %v5, %v6, %v7}, [%t];
    st.global.v8.b32 [%t], {%v7, %v6, %v5, %v4, %v3, %v2, %v1, %v0};"""
    result = run_ids(body, buffers={"x": data})
    assert np.array_equal(result.buffers["x"].reshape(128, 8), data.reshape(128, 8)[:, ::-1])


# ---- atomics -----------------------------------------------------------------------------------------------

SCALAR = {
    "add.u32": lambda old, b: old + b & 0xFFFFFFFF,
    "min.s32": lambda old, b: min(old, b, key=lambda v: v - (1 << 32) if v >> 31 else v),
    "max.u32": max,
    "and.b32": lambda old, b: old & b,
    "or.b32": lambda old, b: old | b,
    "xor.b32": lambda old, b: old ^ b,
    "exch.b32": lambda old, b: b,
    "inc.u32": lambda old, b: 0 if old >= b else old + 1,
    "dec.u32": lambda old, b: b if old == 0 or old > b else old - 1,
}


@pytest.mark.parametrize("name", SCALAR)
@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@settings(max_examples=some(6), deadline=None)
@given(seed=st.integers(0, 2**16), slots=st.sampled_from([1, 3, 64]), skip=st.integers(0, 3))
def test_colliding_lanes_act_one_after_another(name, space, seed, slots, skip):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 1 << 32, 64, dtype=np.uint32) >> rng.integers(0, 32, 64).astype(np.uint32)
    at = rng.integers(0, slots, 64).astype(np.uint32)
    dot = "" if space == "generic" else f".{space}"
    base = "%p_mem" if space == "global" else "%g"
    body = f"""
    .reg .b64 %t, %g, %v; .reg .b32 %b, %i, %d, %z, %k; .reg .pred %p;
    mul.wide.u32 %t, %id, 4; add.u64 %v, %p_b, %t; ld.global.u32 %b, [%v]; add.u64 %v, %p_at, %t;
    ld.global.u32 %i, [%v];
    mov.u32 %z, 7; cvta.shared.u64 %g, tile; {"cvta.to.shared.u64 %g, %g;" if space == "shared" else ""}
    add.u64 %v, %g, %t; st{"" if space != "shared" else ".shared"}.u32 [%v], %z; bar.sync 0;
    mul.wide.u32 %t, %i, 4; add.u64 %t, {base}, %t; mov.u32 %d, 0; and.b32 %k, %id, 3; setp.ne.u32 %p, %k, {skip};
    @%p atom{dot}.{name} %d, [%t], %b; bar.sync 0; st.global.u32 [%o], %d;
    add.u64 %v, %g, 0; mul.wide.u32 %t, %id, 4; add.u64 %v, %v, %t;
    ld{"" if space != "shared" else ".shared"}.u32 %z, [%v];
    {"" if space == "global" else "add.u64 %v, %p_mem, %t; st.global.u32 [%v], %z;"}
    """
    mem = np.full(64, 7, np.uint32)
    result = run_ids(body, TILE, ctas=1, buffers={"mem": mem, "b": values, "at": at})
    want, olds = [7] * 64, []
    for i, (b, slot) in enumerate(zip(values.tolist(), at.tolist(), strict=True)):
        olds.append(want[slot] if i % 4 != skip else 0)
        if i % 4 != skip:
            want[slot] = SCALAR[name](want[slot], b)
    assert result.buffers["mem"].tolist() == want
    assert result.buffers["out"].tolist() == olds


def one_place(kind, b_kind, text, start, values, ctas=2, threads=64):
    """All threads of all CTAs act on one place of global memory."""
    size = np.dtype(b_kind).itemsize
    bits = 8 * size
    body = f"""
    .reg .b64 %t; .reg .b{bits} %b, %d; mul.wide.u32 %t, %id, {size}; add.u64 %t, %p_b, %t;
    ld.global.b{bits} %b, [%t];
    {text}
    """
    return run_ids(body, buffers={"mem": start, "b": values.view(b_kind)}, ctas=ctas, threads=threads).buffers["mem"]


def test_floating_sums_go_lane_by_lane():
    rng = np.random.default_rng(1)
    values = rng.standard_normal(128).astype(np.float32)
    want = np.float32(0)
    for v in values:
        want += v
    got = one_place("f32", np.uint32, "red.global.add.f32 [%p_mem], %b;", np.zeros(1, np.float32), values)
    assert got[0] == want
    doubles = rng.standard_normal(128)
    total = 0.0
    for v in doubles.tolist():
        total += v
    assert one_place("f64", np.uint64, "red.global.add.f64 [%p_mem], %b;", np.zeros(1), doubles)[0] == total


def test_packed_sums_and_extremes():
    rng = np.random.default_rng(2)
    for kind, dtype in (("f16x2", np.float16), ("bf16x2", ml_dtypes.bfloat16)):
        pairs = rng.standard_normal((128, 2)).astype(dtype)
        total = np.zeros(2, dtype)
        for pair in pairs:
            total = (total.astype(np.float32) + pair.astype(np.float32)).astype(dtype)
        text = f"red.relaxed.gpu.global.add.noftz.{kind} [%p_mem], %b;"
        got = one_place(kind, np.uint32, text, np.zeros(1, np.uint32), pairs.reshape(-1).view(np.uint32))
        assert np.array_equal(got.view(dtype), total)
    singles = rng.standard_normal(128).astype(np.float16)
    text = "{ .reg .b16 %e; mov.b16 %e, %b; red.global.max.noftz.v2.f16 [%p_mem], {%b, %e}; }"
    got = one_place("f16", np.uint16, text, np.full(2, -np.inf, np.float16), singles)
    assert got.tolist() == [singles.max()] * 2


def test_subnormals_are_flushed_in_global_memory_only():
    text = "red.global.add.f32 [%p_mem], %b;"
    tiny = np.full(128, 1e-40, np.float32)
    assert one_place("f32", np.uint32, text, np.zeros(1, np.float32), tiny)[0] == 0
    shared = """.reg .b32 %s, %b; mov.u32 %s, tile; mov.b32 %b, 0; st.shared.b32 [%s], %b; bar.sync 0; mov.b32 %b, 1;
    red.shared.add.f32 [%s], %b; bar.sync 0; ld.shared.b32 %b, [%s]; st.global.b32 [%o], %b;"""
    assert run_ids(shared, TILE).buffers["out"].tolist() == [64] * 128


def test_vector_sums():
    body = """.reg .b32 %v<4>, %d<4>; .reg .f32 %f; cvt.rn.f32.u32 %f, %id; mov.b32 %v0, %f; mov.b32 %v1, 0f3F800000;
    atom.global.add.v2.f32 {%d0, %d1}, [%p_mem], {%v0, %v1}; cvt.rzi.u32.f32 %d1, %d1; st.global.u32 [%o], %d1;"""
    result = run_ids(body, buffers={"mem": np.zeros(2, np.float32)})
    assert result.buffers["mem"].tolist() == [128 * 127 / 2, 128.0]
    assert result.buffers["out"].tolist() == list(range(128))


def test_compare_and_swap_takes_one_winner():
    body = (
        """.reg .b32 %d, %b; add.u32 %b, %id, 100; atom.global.cas.b32 %d, [%p_mem], 0, %b; st.global.u32 [%o], %d;"""
    )
    result = run_ids(body, buffers={"mem": np.zeros(1, np.uint32)})
    assert result.buffers["mem"].tolist() == [100]
    assert result.buffers["out"].tolist() == [0] + [100] * 127


def test_wide_exchange_and_swap():
    body = """.reg .b64 %l, %h; .reg .b128 %w, %old, %zero; cvt.u64.u32 %l, %id; mov.b64 %h, -1;
    mov.b128 %w, {%l, %h};
    atom.global.exch.b128 %old, [%p_mem], %w; mov.b128 {%l, %h}, %old; st.global.u32 [%o], %l;
    mov.b64 %l, 127; mov.b64 %h, -1; mov.b128 %zero, {%l, %h}; mov.b64 %l, 5; mov.b128 %w, {%l, %h};
    atom.global.cas.b128 %old, [%p_mem], %zero, %w;"""
    result = run_ids(body, buffers={"mem": np.full(2, 77, np.uint64)})
    assert result.buffers["out"].tolist() == [77, *range(127)]
    assert result.buffers["mem"].tolist() == [5, (1 << 64) - 1]


def test_each_thread_swaps_a_wide_word_of_its_own():
    """Where both halves are as expected: those of every third thread, and not one of them alone."""
    body = """.reg .b32 %three; .reg .b64 %l, %h, %at; .reg .b128 %w, %old; cvt.u64.u32 %l, %id; mov.b64 %h, 7;
    mov.b128 %old, {%l, %h}; rem.u32 %three, %id, 3; mul.wide.u32 %at, %id, 16; add.u64 %at, %at, %p_mem;
    mov.b64 %h, 99; mov.b128 %w, {%l, %h};
    atom.global.cas.b128 %old, [%at], %old, %w; mov.b128 {%l, %h}, %old; st.global.u32 [%o], %h;"""
    words = np.array([[i + (i % 3 == 1), 7 + (i % 3 == 2)] for i in range(128)], np.uint64)
    result = run_ids(body, buffers={"mem": words})
    assert result.buffers["out"].tolist() == words[:, 1].tolist()
    after = [[i, 99] if i % 3 == 0 else words[i].tolist() for i in range(128)]
    assert result.buffers["mem"].tolist() == after


def test_atomics_elsewhere_fault():
    body = ".local .b32 f; .reg .b64 %t; .reg .b32 %d; cvta.local.u64 %t, f; atom.add.u32 %d, [%t], 1;"
    with pytest.raises(MachineFault, match="atom: local memory has no atomic operations"):
        run_ids(body)
    with pytest.raises(MachineFault, match="not aligned to 4 bytes"):
        run_ids(".reg .b32 %d; atom.global.add.u32 %d, [%p_out+2], 1;")


# ---- shared memory of other CTAs ---------------------------------------------------------------------------

CLUSTER = """
.reg .b32 %s, %r, %v, %w; .reg .b64 %g; mov.u32 %s, tile; mad.lo.u32 %s, %n, 0, %s; mov.u32 %v, %tid.x;
    mad.lo.u32 %s, %v, 4, %s;
add.u32 %v, %id, 1000; mov.u32 %r, %cluster_ctarank; xor.b32 %r, %r, 1; shl.b32 %r, %r, 24;
    and.b32 %w, %s, 16777215; add.u32 %r, %r, %w;
cvt.u64.u32 %g, %r; cvta.shared::cluster.u64 %g, %g;
"""


@pytest.mark.parametrize(
    ("store", "load"),
    [
        ("st.shared::cluster.u32 [%r], %v;", "ld.shared.u32 %w, [%s];"),
        ("st.u32 [%g], %v;", "ld.shared.u32 %w, [%s];"),
        ("st.shared.u32 [%s], %v;", "ld.shared::cluster.u32 %w, [%r];"),
        ("st.shared.u32 [%s], %v;", "ld.u32 %w, [%g];"),
        (
            "mov.u32 %w, 0; st.shared.u32 [%s], %w; atom.shared::cluster.exch.b32 %w, [%r], %v;",
            "ld.shared.u32 %w, [%s];",
        ),
        ("mov.u32 %w, 0; st.shared.u32 [%s], %w; red.add.u32 [%g], %v;", "ld.shared.u32 %w, [%s];"),
    ],
)
def test_shared_memory_of_the_other_cta(store, load):
    """Two CTAs per cluster exchange values; addresses of peers: `convc.machine.base.cluster_ranks`."""
    text = module(ID + OUT + CLUSTER + store + load + "st.global.u32 [%o], %w;", shared=TILE).replace(
        ".version 8.7", ".version 8.8"
    )
    specs = {"out": BufferSpec(dtype="u32", shape=(256,))}
    launch = LaunchSpec(
        entry="k",
        grid=(4, 1, 1),
        block=(64, 1, 1),
        cluster=(2, 1, 1),
        shared_bytes=0,
        buffers=specs,
        params=(PointerParam(buffer="out"),),
    )
    result = machine.run(text, launch, {"out": np.zeros(256, np.uint32)})
    assert result.findings == ()
    assert np.array_equal(result.buffers["out"], (np.arange(256) ^ 64) + 1000)


def test_a_peer_that_is_not_there_faults():
    with pytest.raises(MachineFault, match="but the CTA has"):
        run_ids(".reg .b32 %s, %v; mov.u32 %s, 0x2000400; ld.shared::cluster.u32 %v, [%s];", TILE)
    with pytest.raises(MachineFault, match="but the CTA has"):
        run_ids(".reg .b32 %s, %v; mov.u32 %s, 0x2000400; ld.shared.u32 %v, [%s];", TILE)
