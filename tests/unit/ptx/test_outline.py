"""Texts of many entries: only the wanted one is read, and every place is where it was."""

from __future__ import annotations

import re
import time

import pytest

from convc import ptx
from convc.errors import PtxSyntaxError
from convc.ptx.lexer import Tokens
from convc.ptx.parser import without_other_bodies

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"
BODY = """.visible .entry NAME(.param .u64 y)
{
    // a brace in a comment }
    .reg .b32 %r<COUNT>;
    mov.u32 %r0, %tid.x; // {
    {
        .reg .b32 %r0;
        mov.b64 {%r0, %r1}, 5;
    }
    .pragma "nounroll };";
    ret;
}
"""


def texts(count: int = 8) -> str:
    return HEAD + "".join(BODY.replace("NAME", f"k{n}").replace("COUNT", str(count)) for n in range(3))


@pytest.mark.parametrize("wanted", ["k0", "k1", "k2"])
def test_the_wanted_entry_is_as_in_the_whole_text(wanted):
    whole = {kernel.name: kernel for kernel in ptx.parse(texts()).kernels}
    alone = {kernel.name: kernel for kernel in ptx.parse(texts(), entry=wanted).kernels}
    assert list(alone) == list(whole)
    assert [instr.span for instr in alone[wanted].body] == [instr.span for instr in whole[wanted].body]
    assert alone[wanted].registers == whole[wanted].registers
    assert all(not kernel.body for name, kernel in alone.items() if name != wanted)


@pytest.mark.parametrize("comment", ["/* a block comment } */", ""])
def test_what_is_wrong_in_another_body_is_not_read(comment):
    text = texts().replace("mov.u32 %r0, %tid.x; // {", f"{comment} nothing.u32 %r0;", 1)
    assert ptx.parse(text, entry="k1").kernels[1].body
    with pytest.raises(PtxSyntaxError, match="nothing"):
        ptx.parse(text)


def test_lines_keep_their_numbers():
    lines = without_other_bodies(texts(), "k1").split("\n")
    assert lines[14:27] == texts().split("\n")[14:27]
    assert len(lines) == len(texts().split("\n"))
    assert not any(lines[5:13])


def test_registers_are_limited_by_entry(monkeypatch):
    monkeypatch.setattr("convc.ptx.parser.MAX_REGISTERS", 100)
    assert len(ptx.parse(texts(99)).kernels) == 3
    assert ptx.parse(texts(99).replace("%r<99>", "%r<999>", 1), entry="k2").kernels[2].body
    with pytest.raises(PtxSyntaxError, match="an entry may declare"):
        ptx.parse(texts(100), entry="k2")


@pytest.mark.parametrize("text", [HEAD + '.pragma "nounroll', HEAD + '.file 1 "a.cu', HEAD + '.pragma "a;\n"b";'])
def test_an_open_string_is_an_error(text):
    with pytest.raises(PtxSyntaxError, match="this string is never closed"):
        ptx.parse(text)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("tex.1d.v4.f32.s32 {%r1, %r2, %r3, %r4}, [%r1, {%r2}];", "textures and surfaces are not read"),
        ("tld4.r.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%r1, {%r2, %r3}];", "textures and surfaces are not read"),
        ("suld.b.1d.b32.trap %r1, [%r1, {%r2}];", "textures and surfaces are not read"),
    ],
)
def test_what_is_left_out_is_refused_with_its_reason(statement, why):
    text = texts().replace("mov.u32 %r0, %tid.x;", statement, 1)
    with pytest.raises(PtxSyntaxError, match="unknown instruction") as caught:
        ptx.parse(text)
    assert re.search(why, caught.value.hint)


@pytest.mark.parametrize("brace", ["// }", "// {", '.pragma "}";', ""])
def test_of_other_entries_the_names_are_left(brace):
    text = texts().replace("mov.u32 %r0, %tid.x; // {", f"mov.u32 %r0, %tid.x; {brace}")
    words = [word for word in Tokens(without_other_bodies(text, "k1"), "k.ptx").texts if word]
    alone = [word for word in Tokens(HEAD + BODY.replace("NAME", "k1").replace("COUNT", "8"), "k.ptx").texts if word]
    assert len(words) == len(alone) + 10 + (3 if "pragma" in brace else 0)
    assert words[-5:] == [".visible", ".entry", "k2", "{", "}"]


def test_a_text_as_long_as_those_of_cutlass_is_read_within_a_second(monkeypatch):
    """3,000 lines that were never met before, no two of which are alike."""
    monkeypatch.setattr("convc.ptx.lexer._remembered", {})
    lines = [f"    mad.lo.s32 %r{n}, %r{n * 7 % 3000}, {n + 1}, %r{n * 11 % 3000};" for n in range(1500)]
    lines += [
        f"    ld.shared::cta.v4.u32 {{%r{n}, %r{n + 1}, %r{n + 2}, %r{n + 3}}}, [%r{n}+{16 * n}];" for n in range(1500)
    ]
    text = HEAD + BODY.replace("NAME", "k0").replace("COUNT", "3100").replace(
        "    ret;", "\n".join([*lines, "    ret;"])
    )
    started = time.process_time()
    (kernel,) = ptx.parse(text).kernels
    assert time.process_time() - started < 1  # a tenth of that where nothing else runs
    assert len(kernel.body) > 3000
