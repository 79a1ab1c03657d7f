"""Texts of strangers: whatever they say, the answer is a module or a `PtxSyntaxError`, soon."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.errors import PtxSyntaxError
from convc.ptx import format_module, parse

EXAMPLES = [path.read_text() for path in sorted((Path(__file__).parents[2] / "ptx_cases" / "syntax").glob("*.ptx"))]
PIECES = [re.findall(r"[\w$%.:]+|\s+|[^\w\s]", text) for text in EXAMPLES]

SNIPPETS = st.sampled_from(
    [
        *'{}[]();,|!@<>+-=:."\\_%$\0é\u2028/#',
        "::",
        "//@ step=a\n",
        "//@ end\n",
        "/*",
        "*/",
        "0x",
        "1e5",
        "0f3f800000",
        "9" * 50,
        ".reg .b32 %q<9>;",
        ".reg .pred %q<99999999>;",
        ".shared .b8 z[4];",
        ".param .b32 pp;",
        "call (%r1), f, (%r2);",
        "L:",
        "bra L;",
        ".func f();",
        ".global .b32 g[2] = {1,{2}};",
        ".section x {",
        ".loc 1 2 3\n",
        '.pragma "x";',
        "ret;",
        ".entry q(){",
        "mov.b64 {%a,%b}, %c;",
        "mov.u32 %r1, %tid.x;",
        ".align 3",
        ".extern .shared .b8 s[];",
        ".b32.b32",
        "tcgen05.mma",
        "\r\n",
    ]
)


def answer(text: str) -> None:
    """Read, and print and read again what could be read; only PtxSyntaxError may come out."""
    try:
        module = parse(text)
    except PtxSyntaxError as error:
        str(error)
        return
    again = parse(format_module(module))
    assert [kernel.body for kernel in again.kernels] == [kernel.body for kernel in module.kernels]


@st.composite
def mutated(draw) -> str:
    pieces = list(draw(st.sampled_from(PIECES)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(pieces)))
        match draw(st.integers(0, 3)):
            case 0:
                del pieces[at : at + draw(st.integers(1, 6))]
            case 1:
                pieces.insert(at, draw(SNIPPETS))
            case 2:
                pieces.insert(at, pieces[draw(st.integers(0, len(pieces) - 1))] if pieces else "")
            case 3:
                pieces[at : at + 1] = [draw(st.text(max_size=8))]
    return "".join(pieces)


@given(mutated())
@settings(max_examples=some(250))
def test_mutated_examples(text):
    answer(text)


@given(st.text(max_size=300))
@settings(max_examples=some(100))
def test_any_text_in_a_kernel(text):
    answer(f".version 9.0\n.target sm_100a\n.entry k() {{\n.reg .b32 %r<4>;\n{text}")


@given(st.lists(SNIPPETS, max_size=30))
@settings(max_examples=some(100))
def test_snippets_at_the_top(snippets):
    answer(".version 9.0\n.target sm_100a\n" + " ".join(snippets))


def test_every_prefix_of_an_example():
    text = EXAMPLES[0]
    for length in range(0, len(text), 7):
        answer(text[:length])


TOP = ".version 9.0\n.target sm_100a\n"
BODY = TOP + ".entry k() {\n.reg .b32 %r<4>; .reg .pred %p;\n"
MANY = 20_000


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    "text",
    [
        BODY + "{" * MANY,
        BODY + "{.shared .b32 x; }" * 2000 + "}",
        BODY + "{ bra L; }" * 2000 + "L: ret; }",
        BODY + "/*" * MANY,
        BODY + "/* *" * MANY,
        BODY + " " * 10 * MANY,
        BODY + '"' * MANY,
        BODY + "add" + ".a" * MANY,
        BODY + "add" + " .a" * MANY + ";",
        BODY + "add" + ".rn" * 1000 + " %r1;",
        BODY + "a" * 10 * MANY,
        BODY + "9" * MANY,
        BODY + "mov.b64 %r1, {" + "%r1," * MANY,
        BODY + "ld.shared.b32 %r1, [%r1" + "+1" * MANY + "];",
        BODY + "elect.sync %r1" + "|%p" * MANY + ";",
        BODY + "@" * MANY,
        BODY + "call (" + "%r1," * MANY,
        BODY + ".loc 1 2 3 " * MANY,
        BODY + "".join(f".reg .b32 %q{i};" for i in range(MANY // 10)) + "mov.u32 %r1, %z;",
        TOP + ".global .b32 g[] = " + "{" * MANY,
        TOP + ".global .b32 g" + "[2]" * MANY + ";",
        TOP + ".global .b32 g[] = {" + "1," * MANY + "1};",
        TOP + ".entry k(" + ".param .u32 a," * MANY,
        TOP + "//@ step=a\n" * 8000 + "".join(f".entry k{i}() {{ ret; }}\n" for i in range(400)),
        TOP + "\\" * MANY,
        TOP + ".section x {" + "a " * MANY,
        BODY + "T: .branchtargets L" + ", L" * MANY + "; L: brx.idx %r0, T; }",
        BODY + "{ T: .branchtargets L; brx.idx %r0, T; }" * 1200 + "L: }",
    ],
    ids=range(28),
)
def test_long_texts_are_answered_in_time(text):
    started = time.process_time()
    answer(text)
    assert time.process_time() - started < 6  # a tenth here; what grows with the square takes minutes
