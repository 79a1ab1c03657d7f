"""What the reader says about mistakes, and where it points: the marked characters are asserted."""

from __future__ import annotations

import pytest

from convc.errors import PtxSyntaxError
from convc.ptx import parse

HEAD = (
    ".version 9.0\n.target sm_100a\n.address_size 64\n.entry k(.param .u64 out)\n{\n"
    "  .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>; .reg .f32 %f<4>;\n  .shared .align 8 .b64 bar;\n"
)


def complaint(text: str) -> PtxSyntaxError:
    with pytest.raises(PtxSyntaxError) as caught:
        parse(text)
    return caught.value


def check(statement: str, marked: str, message: str, hint: str, *, line: int = 8) -> None:
    """``marked`` is the text under the carets; its first occurrence in the line is meant (or @N: column N)."""
    error = complaint(f"{HEAD}{statement}\n  ret;\n}}\n")
    span = error.span
    assert error.message == message
    assert error.hint == hint
    assert span.line == line
    assert span.text == f"{HEAD}{statement}\n  ret;\n}}\n".split("\n")[line - 1]
    if marked.startswith("@"):
        assert (span.column, span.length) == (int(marked[1:]), 1)
    else:
        assert span.text[span.column - 1 : span.column - 1 + span.length] == marked


MODIFIERS = [
    ("  addd.u32 %r1, %r2, %r3;", "addd", "unknown instruction 'addd'", "did you mean 'add' or 'addc'?"),
    (
        "  add.u33 %r1, %r2, %r3;",
        "u33",
        ".u33 cannot follow 'add': expected .u16, .u32, .u64, .u16x2, .rn, .rz, .rm, .rp, .ftz, .sat, .f32, .f64 "
        "or another",
        "did you mean '.u32'?",
    ),
    (
        "  mbarrier.tri_wait.b64 %p1, [bar], %rd1;",
        "tri_wait",
        ".tri_wait cannot follow 'mbarrier': expected .test_wait, .try_wait, .init, .inval, .expect_tx, .complete_tx, "
        ".arrive, .arrive_drop or .pending_count",
        "did you mean '.try_wait' or '.test_wait'?",
    ),
    (
        "  wgmma.fence.sync.aligned;",
        "wgmma.fence.sync.aligned",
        "'wgmma.fence.sync.aligned' is of .target sm_90a only, this text says sm_100a",
        "sm_100a has tcgen05.mma",
    ),
    (
        "  mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 %r1, %r2, %r3, %r4;",
        "kind::mxf4",
        ".kind::mxf4 cannot follow 'mma.sync.aligned.m16n8k64.row.col': expected .satfinite or .s32",
        "mma with .block_scale is of sm_120a only; sm_100a has tcgen05.mma with .block_scale",
    ),
    ("  mul.u32 %r1, %r2, %r3;", "mul", "modifier missing after 'mul': expected .lo, .hi or .wide before .u32", ""),
    (
        "  fma.f32 %f1, %f2, %f3, %f1;",
        "fma",
        "modifier missing after 'fma': expected .rn, .rz, .rm or .rp before .f32",
        "",
    ),
    (
        "  tcgen05.mma.cta_group::1 [%r1], %rd1, %rd2, %r3, %p1;",
        "cta_group::1",
        "modifier missing after 'tcgen05.mma.cta_group::1': expected .kind::f16, .kind::tf32, "
        ".kind::f8f6f4 or .kind::i8",
        "",
    ),
    (
        "  add.rn.rz.f32 %f1, %f2, %f3;",
        "rz",
        ".rz cannot follow 'add.rn': expected .ftz, .sat, .f32, .f64, .f16, .f16x2, .bf16, .bf16x2 or .f32x2",
        "the order is add{.rnd}{.ftz}{.sat}.type",
    ),
    ("  ld.shared.shared.b32 %r1, [bar];", "shared", ".shared is given twice", ""),
    (
        "  mbarrier.try_wait.shared::cta.parity.b64 %p1, [bar], 0;",
        "parity",
        ".parity cannot follow 'mbarrier.try_wait.shared::cta': expected .b64",
        "the order is mbarrier.test_wait.parity{.sem.scope}{.space}.b64",
    ),
    ("  setp.lo.s32 %p1, %r1, 5;", "lo", ".s32 goes with .eq, .ne, .lt, .le, .gt or .ge, not .lo", ""),
    (
        "  tcgen05.cp.cta_group::1.64x128b [%r1], %rd1;",
        "64x128b",
        ".64x128b needs .warpx2::02_13 or .warpx2::01_23",
        "",
    ),
    ("  st.shared.L1::no_allocate.b32 [bar], %r1;", "shared", ".L1::no_allocate goes with .global, not .shared", ""),
    (
        "  tcgen05.shift.cta_group::1.down [%r1]; tcgen05.shift.cta_group::2.down [%r1];",
        "tcgen05.shift.cta_group::2.down",
        "this is .cta_group::2, but an instruction above is .cta_group::1: a kernel uses one of them",
        "",
    ),
]

OPERANDS = [
    ("  add.u32 %r1, %r2;", "@19", "'add.u32' takes 3 operands, got 2", "the operands are: d, a, b"),
    ("  add.u32 %r1, %r2, %r3, %r4;", "%r4", "'add.u32' takes 3 operands, got 4", "the operands are: d, a, b"),
    (
        "  mbarrier.try_wait.parity.b64 %p1, [bar];",
        "@42",
        "'mbarrier.try_wait.parity.b64' takes 3 or 4 operands, got 2",
        "the operands are: p, [addr], parity {, hint}",
    ),
    ("  add.u32 %r1, %r2, %rr3;", "%rr3", "register '%rr3' is not declared", "did you mean '%r3' or '%rd3'?"),
    (
        "  mov.u32 %r1, %tidx;",
        "%tidx",
        "register '%tidx' is not declared",
        "did you mean '%tid.x' or '%ntid.x' or '%ctaid.x'?",
    ),
    ("  mov.u32 %r1, baz;", "baz", "name 'baz' is not declared", "did you mean 'bar'?"),
    (
        "  add.u32 %r1, %rd2, %r3;",
        "%rd2",
        "operand 2 (a) of 'add.u32' must be a .u32 or .b32 register or a number; got %rd2, a .b64 register",
        "",
    ),
    (
        "  add.u32 %r1, %r2, 1.5;",
        "1.5",
        "operand 3 (b) of 'add.u32' must be a .u32 or .b32 register or a number; got the number 1.5",
        "",
    ),
    (
        "  add.u32 %r1, %tid.x, 1;",
        "%tid.x",
        "operand 2 (a) of 'add.u32' must be a .u32 or .b32 register or a number; "
        "got the special register %tid.x (mov it to a register first)",
        "",
    ),
    (
        "  ld.shared.b64 %r1, [bar];",
        "%r1",
        "operand 1 (d) of 'ld.shared.b64' must be a 64-bit register or a wider one; got %r1, a .b32 register",
        "",
    ),
    (
        "  ld.global.b32 %r1, [bar+4];",
        "[bar+4]",
        "operand 2 (a) of 'ld.global.b32' must be an address [a] in .global space (a 64-bit register or a variable); "
        "got [the address of bar (.shared)]",
        "",
    ),
    (
        "  tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r1, %r2}, [%r3];",
        "{%r1, %r2}",
        "operand 1 (r) of 'tcgen05.ld.sync.aligned.32x32b.x4.b32' must be a vector of 4, each a 32-bit register; "
        "got a vector of 2 (%r1, a .b32 register, …)",
        "",
    ),
    (
        "  tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r3, {%r1, %r2}, %p1;",
        "{%r1, %r2}",
        "operand 5 (mask) of 'tcgen05.mma.cta_group::1.kind::f16' must be a vector of 4, each a .u32 or .b32 register "
        "or a number; got a vector of 2 (%r1, a .b32 register, …)",
        "",
    ),
    (
        "  tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r3, %r1, %p1;",
        "%r1",
        "operand 5 (enable) of 'tcgen05.mma.cta_group::1.kind::f16' must be a predicate register or a number; "
        "got %r1, a .b32 register",
        "",
    ),
    (
        "  tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r3, %p1, 16;",
        "16",
        "operand 6 (scale) of 'tcgen05.mma.cta_group::1.kind::f16' must be a number from 0 to 15; got the number 16",
        "",
    ),
    (
        "  createpolicy.fractional.L2::evict_last.b64 %rd1, 1.5;",
        "1.5",
        "operand 2 (fraction) of 'createpolicy.fractional.L2::evict_last.b64' must be a .f32 or .b32 register "
        "or a number above 0, 1 at most; got the number 1.5",
        "",
    ),
    (
        "  bar.sync 1, 100;",
        "100",
        "operand 2 (b) of 'bar.sync' must be a .u32 or .b32 register or a number from 0 to 4294967264 "
        "(a multiple of 32); got the number 100",
        "",
    ),
    (
        "  elect.sync %p1, -1;",
        "%p1",
        "operand 1 (d) of 'elect.sync' must be a pair d|p (a 32-bit register, and a predicate register); "
        "got %p1, a .pred register",
        "",
    ),
    (
        "  cp.async.bulk.prefetch.tensor.2d.L2.global [%rd1, {%r1}];",
        "[%rd1, {%r1}]",
        "operand 1 (map) of 'cp.async.bulk.prefetch.tensor.2d.L2.global' must be a tensor address [map, {…}] with 2 "
        "coordinates; got [%rd1, a .b64 register, {1 coordinates}]",
        "",
    ),
    ("  @%r1 bra L;", "%r1", "expected a predicate register, '%r1' is a .b32 register", ""),
    ("  @!%p9 ret;", "%p9", "predicate '%p9' is not declared", "did you mean '%p3' or '%p2' or '%p1'?"),
    ("  ld.shared.b32 %r1, [%r2-4];", "-", "an offset is added, '-' is not allowed here", "write [base+-4]"),
    ("  ld.shared.b32 %r1, [bar;", ";", "expected ']' at the end of the address, got ';'", ""),
    ("  mov.b64 {%r1, %r2, %rd1;", ";", "expected ',' or '}', got ';'", ""),
    ("  mov.u32 %r1, 0xzz;", "0xzz", "'0xzz' is not a number of at most 64 bits", ""),
    (
        "  mov.u32 %r1, 1+2;",
        "+",
        "expected ',' or ';' after the operand, got '+'",
        "constant expressions are not read: write the number",
    ),
    ("  mov.u32 %r1 %r2;", "%r2", "expected ',' or ';' after the operand, got '%r2'", ""),
    ("  mov.u32 %r1, ;", ";", "expected an operand, got ';'", ""),
    ("  mov.u32 %r1, é;", "é", "expected an operand, got 'é'", ""),
    ("  call f;", "f", "function 'f' is not declared", ""),
    ("P: .callprototype f ();", "f", "expected '_' where the name of a function would stand, got 'f'", ""),
    (
        "T: .branchtargets E; E: call %rd1, T;",
        "T",
        "operand 2 (prototype) of 'call' must be a .callprototype; got the .branchtargets list T",
        "",
    ),
]

STATEMENTS = [
    ("  mov.u32 %r1, 12\n  mov.u32 %r2, 2;", "2", "';' is missing at the end of this instruction", ""),
    ("  bar.sync 0\nL: ret;", "0", "';' is missing at the end of this instruction", ""),
    ("  bra LOOPX;\nLOOP:", "LOOPX", "no label 'LOOPX' here", "did you mean 'LOOP'?"),
    ("  %r1 = 5;", "=", "expected an operand, got '='", ""),
    (
        "  .shred .b32 x;",
        ".shred",
        "'.shred' is not a directive that a kernel's body may have",
        "did you mean '.shared' or '.reg'?",
    ),
    ("  .reg .b32 %q, %r1;", "%r1", "'%r1' is declared twice in this scope", ""),
    ("  .shared .b32 bar;", "bar", "'bar' is declared twice in this scope", ""),
    ("  .reg .b32 %tid;", "%tid", "'%tid' is a special register and cannot be declared", ""),
    ("  .shared .b32 %laneid;", "%laneid", "'%laneid' is a special register and cannot be declared", ""),
    ("  .local .b32 ;", "@15", "expected a name, got ';'", ""),
    ("  .reg .b32 %z<999999999>;", "%z", "999999999 registers are too many: an entry may declare 262144", ""),
    ("  .reg .b32 %z<-1>;", "-", "expected a number of registers, got '-'", ""),
    ("  .shared .align 3 .b32 x;", "3", "an alignment is a power of two, got '3'", ""),
    ("  .shared .b32 x[];", "x", "'x' has no size", "only an .extern array may leave it open"),
    ("  .shared .b32 x = 1;", "=", "a .shared variable has no initial value", ""),
    ("  .global .b32 x;", "x", ".global variables stand outside of kernels", ""),
    ("  /* never closed", "/*", "this comment is never closed: '*/' is missing", ""),
    ("5: ret;", "5", "expected a name, got '5'", ""),
]


@pytest.mark.parametrize(("statement", "marked", "message", "hint"), MODIFIERS + OPERANDS + STATEMENTS)
def test_message_and_place(statement, marked, message, hint):
    check(statement, marked, message, hint)


def test_a_list_of_types():
    check(
        "  .reg .b33 %x;",
        ".b33",
        "expected a type (.pred, .b8, .b16, .b32, .b64, .b128, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f16, "
        ".f16x2, .f32 or .f64), got '.b33'",
        "did you mean '.b32'?",
    )


def test_a_label_defined_twice():
    check("L: ret;\nL: ret;", "L", "label 'L' is defined twice in this scope", "", line=9)
    check("bar: ret;", "bar", "'bar' is declared in this scope already, so it cannot be a label", "")


def test_a_label_of_an_inner_scope_is_not_seen():
    check(
        "  bra L;\n  { L: ret; }",
        "L",
        "no label 'L' here",
        "a label is visible in its own { … } and in those inside it",
    )


def test_an_open_brace():
    error = complaint(f"{HEAD}  {{ ret;\n")
    assert error.message == "the text ends inside a '{', '}' is missing"
    assert error.hint == "it was opened at line 8"
    assert error.span.line == 9


def test_the_whole_text_of_an_error():
    assert str(complaint(f"{HEAD}  add.u32 %r1, %r2, %rr3;\n}}")) == (
        "error[P100]: register '%rr3' is not declared\n"
        "  --> kernel.ptx:8:21\n"
        "  |\n"
        "8 |   add.u32 %r1, %r2, %rr3;\n"
        "  |                     ^^^^\n"
        "  hint: did you mean '%r3' or '%rd3'?"
    )


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("", "1:1", "a PTX file begins with .version, this one with the end of the text", ""),
        ("\0", "1:1", "a PTX file begins with .version, this one with '\\x00'", ""),
        (".target sm_100a\n", "1:1", "a PTX file begins with .version, this one with '.target'", ""),
        (".version 9\n", "1:10", "expected a version such as 9.0, got '9'", ""),
        (".version 9.0\n.entry k() {}", "2:1", "expected .target after .version, got '.entry'", ""),
        (".version 9.0\n.target gfx90\n", "2:9", "expected a target such as sm_100a, got 'gfx90'", ""),
        (".version 9.0\n.target sm_100a\n.address_size 32\n", "3:15", "expected .address_size 64, got '32'", ""),
        (
            ".version 9.0\n.target sm_100a\n.entri k() {}",
            "3:1",
            "expected a kernel, a function or a variable, got '.entri'",
            "did you mean '.entry' or '.extern'?",
        ),
        (
            ".version 9.0\n.target sm_100a\n.entry k() .maxntd 3 {}",
            "3:12",
            "expected '{' and the body, got '.maxntd'",
            "did you mean '.maxntid' or '.maxnreg' or '.maxnctapersm'?",
        ),
        (
            ".version 9.0\n.target sm_100a\n.entry k() .maxnreg {}",
            "3:21",
            "expected a number after .maxnreg, got '{'",
            "",
        ),
        (
            ".version 9.0\n.target sm_100a\n.entry k() .reqntid 1,1,1,1 {}",
            "3:26",
            ".reqntid takes at most three numbers",
            "",
        ),
        (".version 9.0\n.target sm_100a\n.entry k() {}\n.entry k() {}", "4:8", "'k' is declared twice", ""),
        (
            ".version 9.0\n.target sm_100a\n.entry k(.param .u32 a, .param .u32 a) {}",
            "3:37",
            "parameter 'a' is declared twice",
            "",
        ),
        (
            ".version 9.0\n.target sm_100a\n.entry k(.param .u32 a {}",
            "3:24",
            "expected ',' or ')' after the parameter, got '{'",
            "",
        ),
        (".version 9.0\n.target sm_100a\n.global .b32 a = x;", "3:18", "expected a number or a variable, got 'x'", ""),
        (
            ".version 9.0\n.target sm_100a\n.global .b32 a",
            "3:15",
            "expected ';' at the end of the declaration, got the end of the text",
            "",
        ),
        (".version 9.0\n.target sm_100a\n.section .debug {", "3:1", "this section is never closed: '}' is missing", ""),
    ],
)
def test_outside_of_kernels(text, place, message, hint):
    error = complaint(text)
    assert (error.message, error.hint, str(error.span)) == (message, hint, f"kernel.ptx:{place}")


SIZES = "only the first of an array's sizes may be left out, and it has at most 16"


@pytest.mark.parametrize(
    ("declared", "column", "message"),
    [
        (".global .b32 a[x];", 16, "expected an array size, got 'x'"),
        (".global .b32 a[0];", 16, "expected an array size, got '0'"),
        (".global .b32 a[2][];", 14, SIZES),
        (".global .b32 a" + 17 * "[1]" + ";", 14, SIZES),
        (".global .b8 a[1048576][1048577];", 13, "1099512676352 elements are too many"),
        (".global .pred a;", 9, "a predicate cannot be in .global space"),
        (".global .b32 a; .global .b32 a;", 30, "'a' is declared twice"),
        (".global .b32 a; .global .b64 b = a+c;", 36, "expected an offset, got 'c'"),
        (".entry k() .maxnreg 32,1 {}", 24, ".maxnreg takes one number"),
        (".entry k() .maxnreg 0 {}", 21, "expected a number after .maxnreg, got '0'"),
        (".entry k() .maxnreg 2147483649 {}", 21, "expected a number after .maxnreg, got '2147483649'"),
        (".entry k() { .reg .v2 .b32 a; }", 19, "vector registers are not read; declare the elements one by one"),
        (".entry k() { ld.global.u32 a, [1.5]; }", 32, "an address begins with a register, a variable or an integer"),
    ],
)
def test_declarations_that_cannot_be(declared, column, message):
    error = complaint(f".version 9.0\n.target sm_100a\n{declared}")
    assert (error.message, str(error.span)) == (message, f"kernel.ptx:3:{column}")


@pytest.mark.parametrize(
    "declared",
    [
        ".global .b32 a" + 16 * "[1]" + ";", ".global .b8 a[1048576][1048576];", ".extern .shared .b32 a[][4];",
        ".entry k() .maxnreg 2147483648 {}", ".entry k() .maxntid 1,1,1 {}",
    ],
)  # fmt: skip
def test_declarations_at_the_limits(declared):
    parse(f".version 9.0\n.target sm_100a\n{declared}")


def test_many_small_ranges_count_together():
    text = HEAD + "  .reg .b32 %a<200000>; { .reg .b32 %b<100000>; }\n}"
    assert complaint(text).message == "100000 registers are too many: an entry may declare 262144"
