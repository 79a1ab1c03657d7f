"""Values of registers while a trace is taken: which instructions repeat one, and that deep ones cost no more."""

from __future__ import annotations

import pytest

from convc.ptx.parser import parse
from convc.timing.loops import unrolled_loops
from convc.timing.values import Values

HEAD = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k() {
    .reg .b32 %a<40>;
    .reg .pred %p;
    .shared .align 16 .b8 space[64];
"""


def repeats(lines: str) -> list[bool]:
    """Which of the instructions, executed once each in order, computes a value that is there already."""
    body = parse(HEAD + lines + "\n}").kernels[0].body
    values = Values(unrolled_loops(body).counters)
    return [values.note(instr, item).repeats for item, instr in enumerate(body)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("add.u32 %a1, %a0, 4; add.u32 %a2, %a0, 4;", [False, True]),
        ("add.u32 %a1, %a0, 4; add.u32 %a2, %a0, 5;", [False, False]),
        ("add.u32 %a1, %a0, 4; add.u32 %a0, %a0, 1; add.u32 %a2, %a0, 4;", [False, False, False]),
        ("mul.lo.u32 %a1, %a0, 4; add.u32 %a2, %a0, 4;", [False, False]),
        ("add.rn.f32 %a1, %a0, %a0; add.rn.f32 %a2, %a0, %a0;", [False, True]),
        ("add.cc.u32 %a1, %a0, 4; addc.u32 %a2, %a0, 4; addc.u32 %a3, %a0, 4;", [False, False, False]),
        ("movmatrix.sync.aligned.m8n8.trans.b16 %a1, %a0; " * 2, [False, False]),
        ("ld.shared.b32 %a1, [space]; ld.shared.b32 %a2, [space];", [False, False]),
        ("setp.eq.u32 %p, %a0, 1; @%p add.u32 %a1, %a0, 1; @%p add.u32 %a1, %a0, 1;", [False] * 3),
    ],
)
def test_the_same_of_the_same_is_there_already(lines, expected):
    assert repeats(lines) == expected


def test_the_parts_of_a_vector_are_different_values():
    lines = "ld.shared.v2.b32 {%a1, %a2}, [space]; add.u32 %a3, %a1, 1; add.u32 %a4, %a2, 1;"
    assert repeats(lines) == [False, False, False]


def test_a_counter_of_few_turns_is_a_constant_and_one_of_many_is_not():
    loop = "mov.b32 %a0, 0; again: mul.lo.u32 %a1, %a0, 3; add.u32 %a0, %a0, 1; setp.lt.u32 %p, %a0, N; @%p bra again;"
    assert repeats(loop.replace("N", "3")) == [True, True, True, True, True]
    assert repeats(loop.replace("N", "9"))[1:] == [False, False, False, False]


@pytest.mark.parametrize(
    ("before", "end", "constant"),
    [
        ("mov.b32 %a0, 0; mov.b32 %a4, 7;", "add.u32 %a0, %a0, 1; setp.lt.u32 %p, %a0, 3;", True),
        ("mov.b32 %a0, 0; mov.b32 %a4, 7; mov.b32 %a5, 8;", "add.u32 %a0, %a0, 1; setp.lt.u32 %p, %a0, 3;", True),
        ("add.u32 %a0, %a4, 1;", "add.u32 %a0, %a0, 1; setp.lt.u32 %p, %a0, 3;", False),
        ("mov.b32 %a0, %a4;", "add.u32 %a0, %a0, 1; setp.lt.u32 %p, %a0, 3;", False),
        ("mov.b32 %a0, 4;", "sub.u32 %a0, %a0, 1; setp.gt.u32 %p, %a0, 1;", False),
        ("mov.b32 %a0, 0;", "add.u32 %a0, %a4, 1; setp.lt.u32 %p, %a0, 3;", False),
        ("mov.b32 %a0, 0;", "add.u32 %a0, %a0, 1; mov.b32 %a4, 7; setp.lt.u32 %p, %a0, 3;", False),
        ("mov.b32 %a0, 0;", "add.u32 %a0, %a0, 1; setp.lt.u32 %p, %a0, 3; mov.b32 %a4, 7;", False),
    ],
)
def test_a_loop_that_ends_otherwise_has_no_constant(before, end, constant):
    found = repeats(f"{before} again: mul.lo.u32 %a1, %a0, 3; {end} @%p bra again;")
    assert found[before.count(";")] == constant


def test_a_deep_value_takes_no_longer():
    assert not any(repeats("\n".join("add.u32 %a0, %a0, %a0;" for _ in range(500))))
