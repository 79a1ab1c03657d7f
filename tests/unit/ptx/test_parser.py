"""What a module says: kernels, variables, scopes, registers, labels, operands, marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from convc.errors import PtxSyntaxError
from convc.ptx import (
    Address,
    Arguments,
    Func,
    Imm,
    Label,
    Module,
    NotPred,
    Pair,
    Reg,
    Sink,
    Special,
    Symbol,
    Targets,
    TensorAddress,
    Vector,
    parse,
)

CASES = sorted((Path(__file__).parents[2] / "ptx_cases" / "syntax").glob("*.ptx"))
HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"
DECLARED = "  .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .b128 %q;\n"


def kernel(body: str, before: str = "", params: str = ".param .u64 out", declared: str = DECLARED):
    return parse(f"{HEAD}{before}\n.entry k({params})\n{{\n{declared}{body}\n  ret;\n}}\n").kernels[0]


def only(text: str, **kwargs):
    return kernel(text, **kwargs).body[0]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_example_is_read(path):
    module = parse(path.read_text(), path.name)
    assert isinstance(module, Module)
    assert (module.version, module.target, module.address_size) == ((9, 0), "sm_100a", 64)
    (entry,) = module.kernels
    assert entry.entry
    assert entry.linkage == "visible"
    assert entry.body[-1].form.name == "ret"
    assert [instr.index for instr in entry.body] == list(range(len(entry.body)))
    assert {register.slot for register in entry.registers} == set(range(len(entry.registers)))


def test_the_examples_use_many_forms():
    names = {instr.form.name for path in CASES for instr in parse(path.read_text()).kernels[0].body}
    assert len(CASES) == 13
    assert names >= {
        "tcgen05.mma",
        "tcgen05.mma.ws",
        "tcgen05.mma.block_scale",
        "tcgen05.cp",
        "tcgen05.shift",
        "tcgen05.commit",
        "tcgen05.ld",
        "tcgen05.st",
        "tcgen05.alloc",
        "cp.async.bulk.tensor.load",
        "cp.async.bulk.tensor.store",
        "mbarrier.try_wait.parity",
        "mbarrier.arrive.expect_tx",
        "elect.sync",
        "setmaxnreg",
        "mapa",
    }


def test_slots_and_args():
    path = next(path for path in CASES if path.stem.startswith("02"))
    mma = [instr for instr in parse(path.read_text()).kernels[0].body if instr.form.name == "tcgen05.mma"]
    assert mma[0].slots == {"cta_group": "cta_group::1", "kind": "kind::f16", "collector": None, "ashift": None}
    assert mma[0].mods == ("mma", "cta_group::1", "kind::f16")
    assert mma[0].args["mask"] is None
    assert mma[0].args["scale"] is None
    assert isinstance(mma[0].args["a"], Reg)
    assert isinstance(mma[1].args["a"], Address)
    assert [item.name for item in mma[1].args["mask"].items] == ["%m0", "%m1", "%m2", "%m3"]
    assert mma[2].args["scale"] == Imm(3, False, 3)
    assert mma[2].operands[-1] == mma[2].args["scale"]
    assert mma[6].slots["collector"] == "collector::a::fill"


def test_operands():
    instr = only("ld.shared.v2.b32 {%r1, %r2}, [%rd3+0x10];")
    assert instr.args["d"] == Vector((Reg(9, "%r1", "b32"), Reg(10, "%r2", "b32")))
    assert instr.args["a"] == Address(Reg(19, "%rd3", "b64"), 16)
    assert only("st.global.b32 [%rd0+-4+2], %r0;").args["a"].offset == -2
    assert only("mov.u32 %r0, %ctaid.y;").args["a"] == Special("ctaid.y")
    assert only("setp.lt.and.u32 %p0|_, %r0, 5, !%p2;").operands == (
        Pair(Reg(0, "%p0", "pred"), Sink()),
        Reg(8, "%r0", "b32"),
        Imm(5, False, 5),
        NotPred(Reg(2, "%p2", "pred")),
    )
    pair = only("setp.lt.u32 %p0|%p1, %r0, 5;")
    assert (pair.args["p"].slot, pair.args["q"].slot) == (0, 1)
    assert only("setp.lt.u32 %p0, %r0, 5;").args["q"] is None
    assert only("mov.f32 %f0, 0f40000000;").args["a"] == Imm(2.0, True, 0x40000000, 32)
    assert only("mov.u32 %r0, WARP_SZ;").args["a"] == Imm(32, False, 32)
    assert only("ld.param.u64 %rd0, [out+4];").args["a"] == Address(Symbol("out", "param"), 4)


def test_tensor_addresses():
    instr = only(
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r0], [%rd1, {%r2, 8}], [%r3];"
    )
    assert instr.args["map"] == TensorAddress(Reg(17, "%rd1", "b64"), Vector((Reg(10, "%r2", "b32"), Imm(8, False, 8))))
    assert instr.slots["dim"] == "2d"
    assert instr.slots["multicast"] is None
    assert instr.args["mask"] is None


def test_modifiers_in_another_order_mean_the_same():
    usual, other = kernel("ld.acquire.gpu.global.b32 %r0, [%rd0]; ld.global.acquire.gpu.b32 %r0, [%rd0];").body[:2]
    assert usual.mods == other.mods == ("acquire", "gpu", "global", "b32")
    assert usual.slots == other.slots


def test_blanks_between_modifiers():
    assert only("add .u32 %r0, %r1, %r2;").mods == ("u32",)


def test_guards():
    plain, negated = kernel("@%p1 bra L; @!%p2 bra L;\nL:").body[:2]
    assert (plain.guard.slot, plain.guard.negate) == (1, False)
    assert (negated.guard.slot, negated.guard.negate) == (2, True)


def test_registers_have_slots_of_their_own():
    found = kernel(
        "mov.u32 %x, 1; { .reg .b64 %x, %y; mov.u64 %x, 2; } { .reg .b32 %y; mov.u32 %y, %x; } .reg .f32 %z;",
        declared="  .reg .b32 %x;\n",
    )
    assert [(register.name, register.type, register.slot) for register in found.registers] == [
        ("%x", "b32", 0),
        ("%x", "b64", 1),
        ("%y", "b64", 2),
        ("%y", "b32", 3),
        ("%z", "f32", 4),
    ]
    assert [instr.args["d"].slot for instr in found.body[:3]] == [0, 1, 3]
    assert found.body[2].args["a"].slot == 0


def test_a_use_means_the_declaration_before_it():
    inner = kernel("{ mov.u32 %x, 1; .reg .b32 %x; mov.u32 %x, 2; }", declared="  .reg .b32 %x;\n").body
    assert [instr.args["d"].slot for instr in inner[:2]] == [0, 1]


def test_the_innermost_declaration_counts():
    body = kernel("{ .reg .b64 %x; { mov.u64 %x, 1; { mov.u64 %x, 2; } } } mov.u32 %x, 3;", declared=".reg .b32 %x;")
    assert [instr.args["d"].slot for instr in body.body[:3]] == [1, 1, 0]


def test_labels():
    body = kernel("A: bra B; { A: bra A; @%p0 bra B; } { A: bra A; }\nB: bra A; bra END;\nEND:").body
    assert [instr.args["tgt"] for instr in body[:6]] == [
        Label("B", 4),
        Label("A", 1),
        Label("B", 4),
        Label("A", 3),
        Label("A", 0),
        Label("END", 6),
    ]
    assert body[6].form.name == "ret"


def test_a_label_of_the_own_scope_wins_even_further_down():
    # ptxas makes the same machine code of this as with the inner label renamed.
    body = kernel("A: { @%p0 bra A; add.u32 %r0, %r0, 1; A: add.u32 %r1, %r1, 1; }").body
    assert body[0].args["tgt"].target == 2


def test_a_label_may_stand_at_the_end():
    module = parse(f"{HEAD}.entry k() {{ bra E; E: }}")
    assert module.kernels[0].body[0].args["tgt"].target == 1


def test_lists_of_branch_targets():
    body = kernel(
        "T: .branchtargets A, B,\n C; { T: .branchtargets B, A; A: brx.idx %r0, T; } brx.idx.uni %r1, T;\n"
        "A: ret;\nB: ret;\nC:"
    ).body
    assert body[0].args == {"a": Reg(8, "%r0", "b32"), "targets": Targets("T", (Label("B", 3), Label("A", 0)))}
    assert body[1].operands[1] == Targets("T", (Label("A", 2), Label("B", 3), Label("C", 4)))
    assert body[1].slots == {"uni": "uni"}


def test_prototypes_of_calls_through_pointers():
    body = kernel(
        "P: .callprototype (.param .b32 _) _ (.param .align 8 .b8 a[16], .param .b32 _) .noreturn;\n"
        "{ P: .callprototype _ (); call %rd0, P; } call.uni (%r0), %rd1, (%r1, 7), P;"
    ).body
    inner, outer = (each.args["prototype"] for each in body[:2])
    assert (inner.returns, inner.params) == ((), ())
    assert [each.size_bytes for each in (*outer.returns, *outer.params)] == [4, 16, 4]
    assert [each.form.name for each in body] == ["call.indirect", "call.indirect", "ret"]
    assert body[1].args["pointer"].name == "%rd1"


def test_a_vector_of_one_in_a_load_is_its_element():
    plain, vector = kernel("ld.global.b32 %r0, [%rd0]; ld.global.b32 {%r0}, [%rd0];").body[:2]
    assert vector.args == plain.args
    assert vector.operands == plain.operands


def test_shared_variables_get_names_of_their_own():
    found = kernel(
        "{ .shared .align 16 .b8 s[64]; mov.u32 %r0, s+16; } { .shared .b32 s; mov.u32 %r1, s; }\n"
        "mov.u32 %r2, once; mov.u32 %r3, dyn;",
        before=".shared .b64 once, never; .extern .shared .align 128 .b8 dyn[]; .extern .shared .align 256 .b8 more[];",
    )
    assert [(each.name, each.align, each.size_bytes) for each in found.shared] == [
        ("once", 8, 8),
        ("s", 16, 64),
        ("s$2", 4, 4),
    ]
    assert found.extern_shared.name == "dyn"
    assert found.extern_shared.align == 256
    assert found.extern_shared.shape == (0,)
    assert [instr.args["a"] for instr in found.body[:4]] == [
        Symbol("s", "shared", 16),
        Symbol("s$2", "shared"),
        Symbol("once", "shared"),
        Symbol("dyn", "shared"),
    ]


def test_every_extern_shared_is_the_same_memory():
    found = kernel("mov.u32 %r0, b;", before=".extern .shared .b8 a[];\n.extern .shared .align 64 .b8 b[];")
    assert found.body[0].args["a"] == Symbol("a", "shared")
    assert found.extern_shared.align == 64


def test_a_variable_that_hides_one_of_the_module():
    found = kernel("{ .shared .b32 g; mov.u32 %r0, g; } mov.u64 %rd0, g;", before=".global .b64 g;")
    assert found.body[0].args["a"] == Symbol("g$2", "shared")
    assert found.body[1].args["a"] == Symbol("g", "global")


def test_variables_of_a_module():
    module = parse(
        f"{HEAD}.visible .global .align 16 .v4 .f32 a[2][3];\n.const .s32 b[] = {{1, -2, 0x3}};\n"
        ".global .u64 c[2] = {a, generic(b)+8};\n.global .f32 d = 0f3F800000;\n.global .b8 e[2][2] = {{1, 2}, {3}};\n"
    )
    a, b, c, d, e = module.variables
    assert (a.space, a.type, a.vector, a.align, a.shape, a.linkage) == ("global", "f32", 4, 16, (2, 3), "visible")
    assert (a.count, a.size_bytes) == (6, 96)
    assert (b.shape, b.init, b.size_bytes) == ((3,), (1, -2, 3), 12)
    assert c.init[0] == Symbol("a", "global")
    assert d.init == 1.0
    assert e.init == ((1, 2), (3,))


def test_managed_variables_of_a_module():
    (managed,) = parse(f"{HEAD}.global .attribute(.managed) .align 8 .b32 a = 5;\n").variables
    assert (managed.managed, managed.align, managed.init) == (True, 8, 5)
    for text in (".global .attribute(.unified(1, 2)) .b32 a;", ".const .attribute(.managed) .b32 a;"):
        with pytest.raises(PtxSyntaxError, match=r"other attribute|cannot be managed"):
            parse(HEAD + text)


def test_parameters_and_directives():
    module = parse(
        f"{HEAD}.visible .entry k(.param .align 64 .b8 map[128], .param .u64 .ptr .global .align 16 p, .param .f32 x)\n"
        ".reqntid 192, 1, 1 .maxnreg 64 .explicitcluster .reqnctapercluster 2\n{ ret; }"
    )
    found = module.kernels[0]
    assert [(each.name, each.type, each.size_bytes, each.align) for each in found.params] == [
        ("map", "b8", 128, 64),
        ("p", "u64", 8, 8),
        ("x", "f32", 4, 4),
    ]
    assert found.params[1].points_to == "global"
    assert found.directives == {
        "reqntid": (192, 1, 1),
        "maxnreg": (64,),
        "explicitcluster": (),
        "reqnctapercluster": (2, 1, 1),
    }
    assert module.kernel("k") is found
    assert module.kernel("other") is None


def test_functions_and_calls():
    module = parse(
        f"{HEAD}.func (.param .b32 r) f(.param .b32 a);\n"
        ".func (.reg .b32 r) g(.reg .b32 a) { mov.b32 r, a; ret; }\n"
        ".func (.param .b32 r) f(.param .b32 a) { .reg .b32 x; ld.param.b32 x, [a]; st.param.b32 [r], x; ret; }\n"
        ".entry k() { .reg .b32 %r<4>; call.uni (%r0), g, (%r1); { .param .b32 p; .param .b32 q;\n"
        "st.param.b32 [p], %r0; call (q), f, (p); ld.param.b32 %r2, [q]; } call nothing; ret; }\n".replace(
            "call nothing;", ""
        )
    )
    f, g = module.functions
    assert (f.name, f.entry, f.declared_only, len(f.body)) == ("f", False, False, 3)
    assert [each.space for each in (*g.returns, *g.params)] == ["reg", "reg"]
    assert [register.name for register in g.registers] == ["r", "a"]
    call = module.kernels[0].body[0]
    assert call.slots == {"uni": "uni"}
    assert call.args == {
        "ret": Arguments((Reg(0, "%r0", "b32"),)),
        "func": Func("g"),
        "args": Arguments(call.operands[2].items),
    }
    assert [each.name for each in module.kernels[0].call_params] == ["p", "q"]


def test_debug_sections_are_read_over():
    module = parse(
        f'{HEAD}.file 1 "a.cu"\n.entry k() {{\n.loc 1 2 3, function_name L, inlined_at 1 10 5\n'
        '.pragma "nounroll";\nret;\n.loc 1 3 4\n}\n'
        ".section .debug_str\n{\nX:\n.b8 1,2\n.b32 X+4\n}\n"
    )
    assert len(module.kernels[0].body) == 1


def test_marks_attach_to_the_instructions_below():
    text = (
        "add.u32 %r0, %r0, 1; //@ step=load.0 role=tma and words\n{ add.u32 %r0, %r0, 2; add.u32 %r0, %r0, 3; }\n"
        "//@ step=mma_1\nadd.u32 %r0,\n//@ step=not-yet\n %r0, 4;\n add.u32 %r0, %r0, 5;\n//@ end\n"
    )
    marked = kernel(text)
    assert [(instr.step, instr.role) for instr in marked.body] == [
        (None, None),
        ("load.0", "tma"),
        ("load.0", "tma"),
        ("mma_1", None),
        ("not-yet", None),
        (None, None),
    ]
    bare = kernel("\n".join(line.split("//@")[0] for line in text.split("\n")))
    assert [(instr.form, instr.operands, instr.guard) for instr in bare.body] == [
        (instr.form, instr.operands, instr.guard) for instr in marked.body
    ]


def test_a_step_before_a_brace_has_that_block_alone():
    text = (
        "//@ step=loop role=r\n{ add.u32 %r0, %r0, 1;\n//@ step=inner role=r\n{ add.u32 %r0, %r0, 2; }\n"
        "add.u32 %r0, %r0, 3; }\nadd.u32 %r0, %r0, 4;\n//@ step=on\nadd.u32 %r0, %r0, 5;\n{ add.u32 %r0, %r0, 6; }\n"
        "//@ end\n{ add.u32 %r0, %r0, 7; }\nadd.u32 %r0, %r0, 8;\n"
    )
    assert [instr.step for instr in kernel(text).body[:8]] == ["loop", "inner", "loop", None, "on", "on", None, None]


def test_a_mark_before_the_kernel_holds_inside_it():
    first, second = parse(f"{HEAD}//@ step=a\n.entry k() {{ ret; }}\n//@ end\n.entry l() {{ ret; }}").kernels
    assert first.body[0].step == "a"
    assert second.body[0].step is None


def test_spans():
    body = kernel("  @%p0 bra\n   L; add.u32 %r0, %r1, 2;\nL:").body
    line = body[0].span.line
    assert (body[0].span.column, body[0].span.length, body[0].span.text) == (3, 8, "  @%p0 bra")
    assert (body[1].span.line, body[1].span.column, body[1].span.length) == (line + 1, 7, 20)
    assert body[1].span.file == "kernel.ptx"


def test_a_number_is_no_register_although_its_type_is_the_same():
    assert len(kernel("add.f32 %f0, %f1, %f2; add.f32 %f0, %f1, 0f3F800000; add.f32 %f0, 1.0, %f1;").body) == 4
    with pytest.raises(PtxSyntaxError, match=r"operand 1 \(d\) of 'add.f32' must be a .f32 or .b32 register"):
        kernel("add.f32 %f0, %f1, %f2; add.f32 0f3F800000, %f1, %f2;")


def test_braces_of_a_value_have_a_limit():
    """A level more than arrays have dimensions is refused at its brace."""
    deepest = f"{HEAD}.global .b32 g[1] = {'{' * 16}1{'}' * 16};\n"
    assert parse(deepest).variables[0].name == "g"
    with pytest.raises(PtxSyntaxError, match="too many braces inside one another"):
        parse(deepest.replace("{1}", "{{1}}"))
