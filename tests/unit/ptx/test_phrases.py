"""Lines that were met before say what they would say if they had not been."""

from __future__ import annotations

from pathlib import Path

import pytest

from convc.errors import PtxSyntaxError
from convc.ptx import (
    Address,
    Imm,
    Kernel,
    NotPred,
    Pair,
    Reg,
    Sink,
    Special,
    TensorAddress,
    Vector,
    lexer,
    parse,
    phrases,
)

EXAMPLES = sorted((Path(__file__).parents[2] / "ptx_cases" / "syntax").glob("*.ptx"))

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"


def read(body: str, *, afresh: bool = False) -> Kernel:
    """The kernel with this body; ``afresh``: without a memory of lines and patterns."""
    if afresh:
        lexer._remembered.clear()
        lexer._joined.clear()
        phrases._patterns.clear()
    return parse(f"{HEAD}{body}\n}}\n", "k.ptx").kernels[0]


def told(body: str, *, afresh: bool) -> PtxSyntaxError:
    with pytest.raises(PtxSyntaxError) as caught:
        read(body, afresh=afresh)
    return caught.value


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_second_reading_is_like_the_first(path):
    lexer._remembered.clear()
    text = path.read_text()
    first = parse(text, "k.ptx")
    second = parse(text, "k.ptx")
    assert second == first
    for one, other in zip(first.kernels[0].body, second.kernels[0].body, strict=True):
        assert one.args == other.args
        assert one.span == other.span
        assert (one.step, one.role) == (other.step, other.role)


EVERY_KIND = """.reg .b32 %a<6>; .reg .b64 %d; .reg .pred %p, %q; .reg .f32 %f; .shared .b64 s[2];
mov.u32 %a0, %tid.x;
@%p add.u32 %a1, %a0, -5;
@!%p add.u32 %a1, %a0, 5;
setp.lt.and.u32 %p|%q, %a0, 0x10, !%q;
elect.sync _|%q, 0xffffffff;
ld.shared.v2.b32 {%a2, %a3}, [s+4+-4];
ld.shared.b32 %a2, [%a1+16];
mov.b64 %d, {%a2, 7};
fma.rn.f32 %f, %f, 0f3f800000, 1.5;
cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%a0], [%d, {%a1, 3}], [%a4];
@%p bra DONE;
mov.u32 %a0, WARP_SZ;
DONE:
ret;"""


def test_operands_of_every_kind_are_put_together_again():
    first = read(EVERY_KIND, afresh=True)
    shifted = read(f".reg .b64 %more<3>;\n{EVERY_KIND}")
    assert [len(one.operands) for one in first.body] == [len(other.operands) for other in shifted.body]
    for one, other in zip(first.body, shifted.body, strict=True):
        assert [_moved(operand, 3) for operand in one.operands] == list(other.operands)
        assert one.form is other.form
        assert one.args.keys() == other.args.keys()
        assert (one.guard is None) == (other.guard is None)
        assert one.guard is None or (one.guard.slot + 3, one.guard.negate) == (other.guard.slot, other.guard.negate)


def _moved(operand, by):
    """An operand with its registers in other slots."""
    match operand:
        case Reg(slot, name, kind):
            return Reg(slot + by, name, kind)
        case Address(base, offset):
            return Address(_moved(base, by), offset)
        case Vector(items):
            return Vector(tuple(_moved(item, by) for item in items))
        case Pair(first, second):
            return Pair(_moved(first, by), _moved(second, by))
        case NotPred(reg):
            return NotPred(_moved(reg, by))
        case TensorAddress(base, coords):
            return TensorAddress(_moved(base, by), _moved(coords, by))
        case _:
            return operand


def test_a_line_may_be_another_form_with_registers_of_other_types():
    line = "ld.shared.b32 %x, [%y];\nmov.b32 %x, %z;"
    with_u32 = read(f".reg .b32 %x, %y, %z;\n{line}", afresh=True)
    with_f32 = read(f".reg .f32 %x; .reg .b64 %y; .reg .f32 %z;\n{line}")
    assert with_f32 == read(f".reg .f32 %x; .reg .b64 %y; .reg .f32 %z;\n{line}", afresh=True)
    assert with_f32 != with_u32
    assert read(f".reg .b32 %x, %y;\nmov.b32 %x, %laneid;\n.reg .b32 %z;\n{line}").body[0].operands[1] == Special(
        "laneid"
    )


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (".reg .b32 %x, %y;", ".reg .b32 %x;"),
        (".reg .b32 %x, %y;", ".reg .b32 %x; .reg .b64 %y;"),
        (".reg .b32 %x, %y;", ".reg .b32 %x; .reg .pred %y;"),
        (".reg .b32 %x, %y; .reg .pred %p;", ".reg .b32 %x, %y, %p;"),
        (".reg .b32 %x, %y;", ".reg .b32 %x, %y; .reg .b32 %x;"),
    ],
)
def test_mistakes_in_lines_that_were_right_before_are_told_as_ever(good, bad):
    lines = "@%p add.u32 %x, %y, 1;" if "%p" in good else "add.u32 %x, %y, 1;"
    read(f"{good}\n{lines}", afresh=True)
    again = told(f"{bad}\n{lines}", afresh=False)
    assert str(again) == str(told(f"{bad}\n{lines}", afresh=True))


def test_a_line_that_a_version_does_not_have_is_told_as_ever():
    text = HEAD + ".reg .b32 %x;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %x, 32;\n}\n"
    parse(text, "k.ptx")
    with pytest.raises(PtxSyntaxError, match=r"needs \.target sm_100a, this text says sm_90"):
        parse(text.replace("sm_100a", "sm_90"), "k.ptx")


def test_labels_and_numbers_keep_their_meaning():
    body = ".reg .b32 %x;\nL:\nmov.b32 %x, 1;\nbra L;\n{\nL:\nmov.b32 %x, _;\n}"
    with pytest.raises(PtxSyntaxError):
        read(body)
    kernel = read(body.replace("_;", "1;"))
    again = read(body.replace("_;", "1;"))
    assert again == kernel
    assert isinstance(again.body[0].operands[1], Imm)
    assert not any(isinstance(operand, Sink) for one in again.body for operand in one.operands)


NAMES = ".reg .b32 %a, %b, %c; .reg .b64 %d; .reg .f32 %f; .reg .pred %p, %q; .shared .b64 s[2];\n"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("add.u32 %a, %b, 5;", "add.u32 %c, %a, 70000;"),
        ("mad.lo.u32 %a, %b, 3, %c;", "mad.lo.u32 %c, %c, 0x10, %a;"),
        ("mov.b32 %a, -5;", "mov.b32 %b, -7;"),
        ("mov.b32 %a, 5;", "mov.b32 %b, -5;"),
        ("mov.b32 %a, 5;", "mov.b32 %a, WARP_SZ;"),
        ("mov.b32 %a, %tid.x;", "mov.b32 %b, %laneid;"),
        ("mul.f32 %f, %f, 0f3f800000;", "mul.f32 %f, %f, 2.5;"),
        ("ld.shared.b32 %a, [%b+4];", "ld.shared.b32 %c, [%a+-8];"),
        ("ld.shared.b32 %a, [%b];", "ld.shared.b32 %a, [s];"),
        ("ld.shared.b32 %a, [s+4];", "ld.shared.b32 %a, [%b+4];"),
        ("ld.shared.b32 %a, [s+4+8];", "ld.shared.b32 %a, [s+8+16];"),
        ("mov.u32 %a, s+4;", "mov.u32 %a, s+8;"),
        ("mov.b64 %d, {%a, 7};", "mov.b64 %d, {%c, -9};"),
        ("@%p bra L;", "@!%q bra L;"),
        ("@%p mov.b32 %a, 1;", "@%q mov.b32 %b, 2;"),
        ("setp.eq.and.u32 %p|%q, %a, 1, %p;", "setp.eq.and.u32 %q|%p, %b, 2, !%q;"),
        ("elect.sync _|%p, 0xffffffff;", "elect.sync %a|%q, 0x0000ffff;"),
        ("bar.sync 1;", "bar.sync %a;"),
        ("add.u32 %a, %b, 5; add.u32 %b, %a, 6;", "add.u32 %c, %b, 5; add.u32 %b, %c, 6;"),
    ],
)
def test_lines_of_one_pattern_say_what_they_would_alone(first, second):
    alone = read(f"{NAMES}L:\n{second}", afresh=True).body
    both = read(f"{NAMES}L:\n{first}\n{second}", afresh=True).body
    for one, other in zip(alone, both[-len(alone) :], strict=True):
        assert (one.form, one.mods, one.operands, one.guard) == (other.form, other.mods, other.operands, other.guard)
        assert [each.value for each in one.operands if isinstance(each, Imm)] == [
            each.value for each in other.operands if isinstance(each, Imm)
        ]
        assert one.span.text == other.span.text
        assert (one.span.column, one.span.length) == (other.span.column, other.span.length)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("bar.sync 1;", "bar.sync 99;"),
        ("mov.b32 %a, 5;", "mov.b32 %a, - -5;"),
        ("mov.b32 %a, 5;", "mov.b32 %a, 5x;"),
        ("mov.b32 %a, 5;", "mov.b32 %a, 1.5;"),
        ("mul.f32 %f, %f, 0f3f800000;", "mul.f32 %f, %f, -0f3f800000;"),
        ("ld.shared.b32 %a, [%b+4];", "ld.shared.b32 %a, [%b-4];"),
        ("ld.shared.b32 %a, [%b+4];", "ld.shared.b32 %a, [%b+4.0];"),
        ("ld.shared.b32 %a, [%b];", "ld.shared.b32 %a, [%e];"),
        ("add.u32 %a, %b, 5;", "add.u32 %a, %e, 5;"),
        ("add.u32 %a, %b, 5;", "add.u32 %a, #, 5;"),
        ("add.u32 %a, %b, %c;", "add.u32 %a, %, %c;"),
        ("@%p mov.b32 %a, 1;", "@%a mov.b32 %a, 1;"),
        ("bra L;", "bra M;"),
    ],
)
def test_a_pattern_hides_no_mistake(good, bad):
    again = told(f"{NAMES}L:\n{good}\n{bad}", afresh=True)
    alone = told(f"{NAMES}L:\n\n{bad}", afresh=True)
    assert str(again) == str(alone)


def test_patterns_are_forgotten_when_they_are_many(monkeypatch):
    monkeypatch.setattr(phrases, "MAX_REMEMBERED", 2)
    body = f"{NAMES}mov.b32 %a, 5;\nadd.u32 %a, %b, 5;\nsub.u32 %a, %b, 5;\nmov.b32 %a, 6;"
    assert read(body, afresh=True) == read(body, afresh=True)
    assert len(phrases._patterns) <= 2


def test_a_statement_of_several_lines_is_remembered_too():
    declared = ".reg .b32 %a<3>; .reg .f32 %f;\n"
    lines = "mad.lo.u32 %a0, // a\n  %a1,\n  %a2, 5;\n"
    first = read(declared + lines, afresh=True)
    [joined] = lexer._joined.values()
    assert joined.phrase is not None
    second = read(f".reg .b32 %more;\n{declared}{lines}")
    assert list(second.body[0].operands) == [_moved(operand, 1) for operand in first.body[0].operands]
    assert second.body[0].span.line == first.body[0].span.line + 1
    error = told(declared.replace("%a<3>", "%a<2>").replace("%f", "%a2") + lines, afresh=False)
    assert error.span.line == 9


def test_what_is_no_statement_of_several_lines_is_read_as_it_stands():
    kernel = read(".reg .b32 %a;\nmov.b32 %a,\n1; mov.b32 %a, 2;\n{ mov.b32 %a,\n3; }\n{\nret; }")
    assert [instr.span.line for instr in kernel.body] == [7, 8, 9, 12]
    assert told(".reg .b32 %a;\nmov.b32 %a,\n", afresh=False).span.line == 7
