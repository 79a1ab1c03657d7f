"""Calls of device functions, traps, clocks."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from support.kernels import execute, module
from support.recorded import assemble_all, recorded

from convc.errors import MachineFault, UnmodelledError


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(texts)


HEAD = """.reg .b32 %id, %d, %x; .reg .b64 %o; .reg .pred %p;
mov.u32 %id, %tid.x; mul.wide.u32 %o, %id, 4; add.u64 %o, %p_out, %o;
"""
TAIL = "st.global.u32 [%o], %d;"


def run_calls(functions: str, body: str, threads: int = 64) -> list[int]:
    text = module(HEAD + body + TAIL, shared=functions)
    return execute(text, {"out": np.zeros(threads, np.uint32)}, block=(threads, 1, 1)).buffers["out"].tolist()


CALL = """{{ .param .b32 a0; .param .b32 a1; .param .b32 r0; st.param.b32 [a0], {x}; st.param.b32 [a1], {y};
call.uni (r0), {name}, (a0, a1); ld.param.b32 %d, [r0]; }}"""
TWICE = (
    """
.func (.param .b32 out) plus(.param .b32 a, .param .b32 b)
{ .reg .b32 %x, %y; ld.param.b32 %x, [a]; ld.param.b32 %y, [b]; add.u32 %x, %x, %y; st.param.b32 [out], %x; ret; }
.func (.param .b32 out) twice(.param .b32 a, .param .b32 b)
{ .reg .b32 %x, %y, %d; ld.param.b32 %x, [a]; ld.param.b32 %y, [b];
"""
    + CALL.format(x="%x", y="%y", name="plus")
    + CALL.format(x="%d", y="%d", name="plus")
    + "st.param.b32 [out], %d; ret; }\n"
)


def test_nested_calls_pass_parameters_by_memory():
    assert run_calls(
        TWICE, CALL.format(x="%id", y="5", name="twice").replace("st.param.b32 [a1], 5", "st.param.b32 [a1], 5")
    ) == [2 * (i + 5) for i in range(64)]


def test_register_parameters():
    function = """.func (.reg .b32 %r) f(.reg .b32 %a, .reg .b64 %b)
    { .reg .b32 %t; cvt.u32.u64 %t, %b; mad.lo.u32 %r, %a, 3, %t; ret; }
    """
    assert run_calls(function, ".reg .b64 %w; mov.b64 %w, 7; call (%d), f, (%id, %w);") == [
        3 * i + 7 for i in range(64)
    ]


def test_arrays_go_both_ways():
    function = """
    .func (.param .align 8 .b8 out[16]) swap(.param .align 8 .b8 in[16])
    { .reg .b64 %x, %y; ld.param.v2.b64 {%x, %y}, [in]; st.param.b64 [out], %y; st.param.b64 [out+8], %x; ret; }
    """
    body = """{ .param .align 8 .b8 a[16]; .param .align 8 .b8 r[16]; .reg .b64 %l, %h; cvt.u64.u32 %l, %id;
    mov.b64 %h, 1000;
    st.param.b64 [a], %l; st.param.b64 [a+8], %h; call (r), swap, (a); ld.param.b64 %l, [r]; ld.param.b64 %h, [r+8];
    add.u64 %l, %l, %l; add.u64 %l, %l, %h; cvt.u32.u64 %d, %l; }"""
    assert run_calls(function, body) == [2000 + i for i in range(64)]


def test_lanes_return_early_and_take_guarded_calls():
    function = """
    .func (.reg .b32 %r) f(.reg .b32 %a) { .reg .pred %p; mov.u32 %r, 1; setp.lt.u32 %p, %a, 10; @%p ret;
    and.b32 %r, %a, 1; setp.eq.u32 %p, %r, 1; mov.u32 %r, 2; @%p bra OUT; mov.u32 %r, 3;
    OUT: add.u32 %r, %r, %a; ret; }
    """
    body = "mov.u32 %d, 77; setp.lt.u32 %p, %id, 40; @%p call (%d), f, (%id);"
    want = [77 if i >= 40 else 1 if i < 10 else i + (2 if i % 2 else 3) for i in range(64)]
    assert run_calls(function, body) == want


RECURSIVE = """
.func (.param .b32 out) sum(.param .b32 n);
.func (.param .b32 out) sum(.param .b32 n)
{ .reg .b32 %n, %d; .reg .pred %p; ld.param.b32 %n, [n]; mov.u32 %d, 0; setp.eq.u32 %p, %n, 0; @%p bra DONE;
  { .param .b32 a; .param .b32 r; sub.u32 %d, %n, 1; st.param.b32 [a], %d; call (r), sum, (a); ld.param.b32 %d, [r]; }
  add.u32 %d, %d, %n;
DONE: st.param.b32 [out], %d; ret; }
"""
SUM = """{ .param .b32 a; .param .b32 r; and.b32 %x, %id, 15; @%p add.u32 %x, %x, 100;
st.param.b32 [a], %x; call (r), sum, (a); ld.param.b32 %d, [r]; }"""


def test_recursion_to_a_limit():
    none = "setp.ne.u32 %p, 0, 0;"
    assert run_calls(RECURSIVE, none + SUM) == [(i % 16) * (i % 16 + 1) // 2 for i in range(64)]
    with pytest.raises(MachineFault, match=r"trap \(more than 32 calls inside one another\)"):
        run_calls(RECURSIVE, "setp.eq.u32 %p, 0, 0;" + SUM)


def test_functions_have_shared_and_local_variables_of_their_own():
    function = """
    .func (.reg .b32 %r) f(.reg .b32 %a) { .shared .align 4 .b8 box[256]; .local .align 4 .b8 mine[8];
    .reg .b64 %l; .reg .b32 %s;
    st.local.u32 [mine+4], %a; mov.u32 %s, box; mad.lo.u32 %s, %a, 4, %s; st.shared.u32 [%s], %a; bar.sync 0;
    xor.b32 %s, %a, 63; mov.u32 %r, box; mad.lo.u32 %s, %s, 4, %r; ld.shared.u32 %r, [%s]; ld.local.u32 %s, [mine+4];
    mad.lo.u32 %r, %s, 100, %r; ret; }
    """
    assert run_calls(function, "call (%d), f, (%id);") == [100 * i + (i ^ 63) for i in range(64)]


def test_system_functions():
    assertion = ".extern .func __assertfail(.param .b64 a);\n"
    call = "{ .param .b64 a; .reg .b64 %z; mov.b64 %z, 0; st.param.b64 [a], %z; @%p call __assertfail, (a); }"
    with pytest.raises(MachineFault, match=r"executed a trap \(__assertfail\)"):
        run_calls(assertion, "setp.eq.u32 %p, %id, 3;" + call)
    assert run_calls(assertion, "setp.eq.u32 %p, %id, 300; mov.u32 %d, 1;" + call) == [1] * 64
    with pytest.raises(UnmodelledError, match="the function 'other' is declared here and has no body"):
        run_calls(".extern .func other;\n", "call other;")
    printing = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n"
    body = """{ .param .b64 f; .param .b64 v; .param .b32 r; st.param.b64 [f], %o; st.param.b64 [v], %o;
    call (r), vprintf, (f, v); ld.param.b32 %d, [r]; }"""
    text = module(HEAD + body + TAIL, shared=printing)
    result = execute(text, {"out": np.ones(32, np.uint32)})
    assert result.buffers["out"].tolist() == [0] * 32
    assert [f.rule for f in result.findings] == ["printf"]


INDEXED = """.reg .b32 %k; LIST: .branchtargets A, B, C, B, END;
 rem.u32 %k, %id, 5; {guard} brx.idx %k, LIST; mov.u32 %d, 9; bra END;
A: mov.u32 %d, 1; bra END; B: mov.u32 %d, 2; bra A2; C: mov.u32 %d, 3; bra END; A2: add.u32 %d, %d, 10;
END: """


def test_indexed_branches():
    want = [(1, 12, 3, 12, 0)[i % 5] for i in range(64)]
    assert run_calls("", "mov.u32 %d, 0;" + INDEXED.format(guard="")) == want
    body = "mov.u32 %d, 0; setp.lt.u32 %p, %id, 30;" + INDEXED.format(guard="@%p")
    assert run_calls("", body) == [want[i] if i < 30 else 9 for i in range(64)]
    inside = ".func (.reg .b32 %d) f(.reg .b32 %id) { mov.u32 %d, 0;" + INDEXED.format(guard="") + "ret; }\n"
    assert run_calls(inside, "call (%d), f, (%id);") == want
    with pytest.raises(MachineFault, match=r"the index of brx\.idx is past its list of 5 targets") as caught:
        run_calls("", "mov.u32 %d, 0;" + INDEXED.replace("rem.u32 %k, %id, 5", "mov.b32 %k, %id").format(guard=""))
    assert "brx.idx" in caught.value.span.text


def test_trap_and_what_has_no_effect():
    assert run_calls("", "mov.u32 %d, 3; brkpt; pmevent 1; nanosleep.u32 100;") == [3] * 64
    with pytest.raises(MachineFault, match="the kernel executed a trap") as caught:
        run_calls("", "setp.eq.u32 %p, %id, 9;\n@%p trap;\n")
    assert caught.value.span.text.strip() == "@%p trap;"


def test_clocks_advance():
    body = """.reg .b64 %a, %b; mov.u64 %a, %clock64; LOOP: mov.u64 %b, %globaltimer; sub.u64 %b, %b, %a;
    setp.lt.u64 %p, %b, 500;
    @%p bra LOOP; mov.u32 %d, 1;"""
    assert run_calls("", body) == [1] * 64


@pytest.mark.parametrize("name", ["eq", "lt", "le", "gt", "ge"])
def test_masks_of_lanes(name):
    compare = getattr(operator, name)
    want = [sum(1 << other for other in range(32) if compare(other, lane)) for lane in range(32)]
    assert run_calls("", f"mov.u32 %d, %lanemask_{name};") == 2 * want


def test_special_registers_without_a_value_are_refused():
    with pytest.raises(UnmodelledError, match="the simulator has no special register %envreg3"):
        run_calls("", "mov.b32 %d, %envreg3;")


@pytest.mark.parametrize(("move", "value"), [
    ("mov.u32 %d, %gridid;", 0),
    ("mov.u64 %t, %gridid; cvt.u32.u64 %d, %t;", 0),
    ("mov.u32 %d, %smid;", 0),
    ("mov.u32 %d, %nsmid;", 1),
])  # fmt: skip
def test_one_grid_runs_on_one_multiprocessor(move, value):
    assert run_calls("", f".reg .b64 %t; {move}") == [value] * 64


METHODS = """
.func (.param .b32 out) plus(.param .b32 a, .param .b32 b)
{ .reg .b32 %x, %y; ld.param.b32 %x, [a]; ld.param.b32 %y, [b]; add.u32 %x, %x, %y; st.param.b32 [out], %x; ret; }
.func (.param .b32 out) product(.param .b32 a, .param .b32 b)
{ .reg .b32 %x, %y; ld.param.b32 %x, [a]; ld.param.b32 %y, [b]; mul.lo.u32 %x, %x, %y; st.param.b32 [out], %x; ret; }
.func (.param .b32 out) half(.param .b32 a)
{ .reg .b32 %x; ld.param.b32 %x, [a]; shr.u32 %x, %x, 1; st.param.b32 [out], %x; ret; }
.func nothing() { ret; }
.global .align 8 .u64 methods[4] = {plus, product, half, nothing};
"""
POINTER = """.reg .b64 %f; .reg .b32 %k; rem.u32 %k, %id, {count}; mul.wide.u32 %f, %k, 8; mov.b64 %t, methods;
add.u64 %f, %f, %t; ld.global.u64 %f, [%f];
"""
THROUGH = """{{ .param .b32 a0; .param .b32 a1; .param .b32 r0; st.param.b32 [a0], %id; st.param.b32 [a1], 5;
P: .callprototype (.param .b32 _) _ (.param .b32 a, .param .b32 b);
{guard} call (r0), {pointer}, (a0, a1), P; ld.param.b32 %x, [r0]; {guard} mov.b32 %d, %x; }}"""


def test_calls_through_pointers():
    table = ".reg .b64 %t;" + POINTER.format(count=2)
    want = [i * 5 if i % 2 else i + 5 for i in range(64)]
    assert run_calls(METHODS, table + THROUGH.format(pointer="%f", guard="")) == want
    body = "mov.u32 %d, 3; setp.lt.u32 %p, %id, 9;" + table + THROUGH.format(pointer="%f", guard="@%p")
    assert run_calls(METHODS, body) == [want[i] if i < 9 else 3 for i in range(64)]
    alone = METHODS.split(".func (.param .b32 out) half")[0]
    body = ".reg .b64 %f; mov.u64 %f, product;" + THROUGH.format(pointer="%f", guard="")
    assert run_calls(alone, body) == [5 * i for i in range(64)]


def test_a_call_by_another_prototype_or_of_no_function_faults():
    table = ".reg .b64 %t;" + POINTER.format(count=3)
    trap = r"trap \(a call through %f, which does not hold the address of a matching function,\)"
    with pytest.raises(MachineFault, match=trap):
        run_calls(METHODS, table + THROUGH.format(pointer="%f", guard=""))
    with pytest.raises(MachineFault, match=trap):
        run_calls("", ".reg .b64 %f; mov.b64 %f, 0;" + THROUGH.format(pointer="%f", guard=""))
    body = table + "P: .callprototype _ (); setp.lt.u32 %p, %id, 99; mov.u32 %d, 4; @!%p call %f, P;"
    assert run_calls(METHODS, body) == [4] * 64


def test_recursion_through_a_pointer():
    function = """
.func (.param .b32 out) sum(.param .b32 n, .param .b64 f)
{ .reg .b32 %n, %d; .reg .b64 %f; .reg .pred %p; ld.param.b32 %n, [n]; ld.param.b64 %f, [f]; mov.u32 %d, 0;
  setp.eq.u32 %p, %n, 0; @%p bra DONE;
  { .param .b32 a; .param .b64 b; .param .b32 r; sub.u32 %d, %n, 1; st.param.b32 [a], %d; st.param.b64 [b], %f;
    P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _); call (r), %f, (a, b), P; ld.param.b32 %d, [r]; }
  add.u32 %d, %d, %n;
DONE: st.param.b32 [out], %d; ret; }
"""
    start = """.reg .b64 %f; mov.u64 %f, sum; {{ .param .b32 a; .param .b64 b; .param .b32 r; and.b32 %x, %id, {mask};
st.param.b32 [a], %x; st.param.b64 [b], %f; call (r), sum, (a, b); ld.param.b32 %d, [r]; }}"""
    assert run_calls(function, start.format(mask=15)) == [(i % 16) * (i % 16 + 1) // 2 for i in range(64)]
    with pytest.raises(MachineFault, match=r"trap \(more than 32 calls inside one another\)"):
        run_calls(function, start.format(mask=63))
