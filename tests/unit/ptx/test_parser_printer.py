"""Printed modules: read again they are equal, and ptxas takes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.ptxas import assemble_text

from convc.ptx import Kernel, format_instr, format_module, parse

CASES = sorted((Path(__file__).parents[2] / "ptx_cases" / "syntax").glob("*.ptx"))

NESTED = """.version 9.0
.target sm_100a
.address_size 64
.global .align 16 .f32 table[2][2] = {{1.5, -2.0}, {0f7F800000}};
.const .u64 where[] = {table, generic(table)+8};
.extern .shared .align 1024 .b8 dynamic[];
.shared .b64 once;
.global .v2 .f32 pair;
.global .attribute(.managed) .b32 both;
.func (.param .b32 r) f(.param .b32 a) { .reg .b32 x; ld.param.b32 x, [a]; st.param.b32 [r], x; ret; }
.func (.reg .b32 r) g(.reg .b32 a) { { .reg .b32 r; mov.b32 r, a; } mov.b32 r, a; ret; }
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 .ptr .global out, .param .f32 x)
  .reqntid 192, 1, 1 .maxnreg 128
{
  .reg .b32 %r<4>; .reg .pred %p; .reg .b64 %rd<2>; .reg .f32 %f;
//@ step=a role=b
LOOP:
  mov.u32 %r0, once; mov.u32 %r1, dynamic; mov.f32 %f, 0f7FC00001; ld.param.u64 %rd0, [out];
  { .reg .b64 %r0; .shared .b32 s[4]; mov.u64 %r0, s+4; @%p bra LOOP; @!%p bra NEXT; }
//@ end
  { .shared .b16 s; .reg .u16 %r0; LOOP: ld.shared.u16 %r0, [s+-2]; @%p bra LOOP; bra END; }
NEXT:
  { .param .b32 p; .param .b32 q; st.param.b32 [p], -5; call.uni (q), f, (p); ld.param.b32 %r2, [q]; }
  call (%r3), g, (7);
  { P: .callprototype (.param .b32 _) _ (.param .b32 a); .param .b32 p; .param .b32 q;
    mov.u64 %rd1, f; call (q), %rd1, (p), P; }
  P: .callprototype _ (); @%p call %rd1, P;
  WHERE: .branchtargets NEXT, LOOP, END;
  { WHERE: .branchtargets LOOP, NEXT; brx.idx %r0, WHERE; }
  brx.idx %r3, WHERE;
  setp.lt.and.s32 %p|_, %r2, 0, !%p;
END:
}
"""


def same(first: Kernel, second: Kernel) -> bool:
    return (first.body, first.registers, first.shared, first.local, first.call_params, first.directives) == (
        second.body,
        second.registers,
        second.shared,
        second.local,
        second.call_params,
        second.directives,
    )


@pytest.mark.parametrize(
    "text", [*(path.read_text() for path in CASES), NESTED], ids=[*(path.stem for path in CASES), "nested"]
)
def test_a_printed_module_reads_the_same(text, tmp_path):
    module = parse(text)
    printed = format_module(module)
    again = parse(printed)
    for first, second in zip((*module.functions, *module.kernels), (*again.functions, *again.kernels), strict=True):
        assert same(first, second)
    assert again.variables == module.variables
    assert format_module(again) == printed
    status, said = assemble_text(printed, tmp_path)
    assert status == 0, said


def test_what_it_looks_like():
    printed = format_module(parse(NESTED))
    assert "  .reg .b64 %r0_8;\n" in printed
    assert "\n.global .v2 .f32 pair;\n" in printed, "it has the alignment that its elements ask for"
    assert "  .shared .b16 s$2;\n" in printed
    assert "LOOP:\n//@ step=a role=b\n  mov.u32 %r0, once;\n" in printed
    assert "  mov.f32 %f, 0f7FC00001;\n" in printed
    assert "LOOP_7:\n" in printed
    assert printed.endswith("END:\n}\n")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("@!%p  add .u32 %r,%r , 0x10;", "@!%p add.u32 %r, %r, 16;"),
        ("ld.global.acquire.gpu.b32 %r, [%rd+4+-8];", "ld.acquire.gpu.global.b32 %r, [%rd+-4];"),
        ("mov.f64 %fd, 1.0;", "mov.f64 %fd, 0d3FF0000000000000;"),
        ("elect.sync _|%p, 0xffffffffU;", "elect.sync _|%p, 4294967295;"),
        ("mov.b64 {%r, _}, %rd;", "mov.b64 {%r, _}, %rd;"),
        ("and.pred %p, %p, !%p;", "and.pred %p, %p, !%p;"),
        ("mov.u32 %r, %tid.x;", "mov.u32 %r, %tid.x;"),
        (
            "cp.async.bulk.prefetch.tensor.1d.L2.global [%rd,{-1}];",
            "cp.async.bulk.prefetch.tensor.1d.L2.global [%rd, {-1}];",
        ),
        ("ret;", "ret;"),
    ],
)
def test_one_instruction(text, canonical):
    declared = ".reg .b32 %r; .reg .b64 %rd; .reg .f64 %fd; .reg .pred %p;"
    body = parse(f".version 9.0\n.target sm_100a\n.entry k() {{ {declared} {text} }}").kernels[0].body
    assert format_instr(body[0]) == canonical
