"""The auditor's arithmetic beside the simulator's, which it shares no code with: every form, type and edge."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from convc import machine, ptx
from convc.auditor.arithmetic import _MAKERS, function_of
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam

EDGES = (0, 1, 2, 3, 7, 31, 32, 33, 64, 255, 0x7FFF, 0x8000, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1)
LANES = 1024

SIGNED, UNSIGNED, BITS = ("s16", "s32", "s64"), ("u16", "u32", "u64"), ("b16", "b32", "b64")
NUMBERS = (*SIGNED, *UNSIGNED)
ORDERS = ("eq", "ne", "lt", "le", "gt", "ge")


def forms() -> list[tuple[str, str, str, tuple[str, ...]]]:
    """(name of the form, instruction, type of the result, types of the operands)."""
    made: list[tuple[str, str, str, tuple[str, ...]]] = []
    for t in NUMBERS:
        wide = f"{t[0]}{2 * int(t[1:])}"
        for op in ("add", "sub", "div", "rem", "min", "max", "mul.lo", "mul.hi"):
            made.append((f"int.{op}", f"{op}.{t}", t, (t, t)))
        made.append(("int.mad.lo", f"mad.lo.{t}", t, (t, t, t)))
        if t[1:] != "64":
            made.append(("int.mul.wide", f"mul.wide.{t}", wide, (t, t)))
            made.append(("int.mad.wide", f"mad.wide.{t}", wide, (t, t, wide)))
        if t[1:] != "16":
            made.append(("int.bfe", f"bfe.{t}", t, (t, "u32", "u32")))
        made.append(("logic.shr", f"shr.{t}", t, (t, "u32")))
        made.append(("selp", f"selp.{t}", t, (t, t, "pred")))
        made.append(("mov", f"mov.{t}", t, (t,)))
        made += [("setp", f"setp.{order}.{t}", "pred", (t, t)) for order in ORDERS]
        made += [("setp", f"setp.lt.{join}.{t}", "pred", (t, t, "pred")) for join in ("and", "or", "xor")]
        made += [("cvt", f"cvt.{to}.{t}", to, (t,)) for to in NUMBERS]
    for t in UNSIGNED:
        made += [("setp", f"setp.{order}.{t}", "pred", (t, t)) for order in ("lo", "ls", "hi", "hs")]
    for t in SIGNED:
        made += [(f"int.{op}", f"{op}.{t}", t, (t,)) for op in ("neg", "abs")]
    made += [(f"logic.{op}", f"{op}.pred", "pred", ("pred", "pred")) for op in ("and", "or", "xor")]
    made.append(("logic.not", "not.pred", "pred", ("pred",)))
    for t in BITS:
        made += [(f"logic.{op}", f"{op}.{t}", t, (t, t)) for op in ("and", "or", "xor")]
        made += [("logic.not", f"not.{t}", t, (t,)), ("logic.shl", f"shl.{t}", t, (t, "u32"))]
        if t != "b16":
            made += [(f"int.{op}", f"{op}.{t}", "u32", (t,)) for op in ("popc", "clz")]
    return made


def values() -> np.ndarray:
    """Operands (3, lanes): edges against edges, then numbers at random, small ones among them."""
    rng = np.random.default_rng(0)
    pairs = np.array(list(itertools.product(EDGES, EDGES)), np.uint64).T
    whole = rng.integers(0, 1 << 64, (3, LANES), np.uint64)
    whole >>= rng.integers(0, 64, (3, LANES), np.uint64)
    whole[:2, : pairs.shape[1]] = pairs
    return whole


def register(kind: str, letter: str) -> str:
    return f"%p{letter}" if kind == "pred" else f"%{letter}{kind[1:]}"


def kernel(made: list[tuple[str, str, str, tuple[str, ...]]]) -> str:
    """Each lane loads its operands, and stores what each instruction makes of them."""
    lines = [f"cvt.u16.u64 %{x}16, %{x}64; cvt.u32.u64 %{x}32, %{x}64; setp.ne.u32 %p{x}, %{x}32, 0;" for x in "abc"]
    for number, (_, op, to, of) in enumerate(made):
        given = ", ".join(register(kind, letter) for kind, letter in zip(of, "abc", strict=False))
        lines.append(f"{op} {register(to, 'd')}, {given};")
        if to == "pred":
            lines.append("selp.u64 %d64, 1, 0, %pd;")
            to = "u64"
        size = int(to[1:]) // 8
        lines.append(f"st.global.b{to[1:]} [%out+{8 * LANES * number}], %d{8 * size};")
    body = "\n".join(lines)
    declared = "".join(f".reg .b16 %{x}16; .reg .b32 %{x}32; .reg .b64 %{x}64; .reg .pred %p{x};\n" for x in "abcd")
    loads = "\n".join(f"ld.global.b64 %{x}64, [%in+{8 * LANES * i}];" for i, x in enumerate("abc"))
    return f""".version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
{declared}.reg .b64 %in, %out, %at; .reg .b32 %t;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, 8; add.u64 %in, %in, %at; add.u64 %out, %out, %at;
{loads}
{body}
ret;
}}
"""


@pytest.fixture(scope="module")
def ran() -> tuple[list, list, np.ndarray]:
    """The forms, their instructions, and what the simulator stored: uint64 (form, lane)."""
    made = forms()
    text = kernel(made).replace("; ", ";\n")
    given = values()
    launch = LaunchSpec(
        entry="k",
        grid=(1, 1, 1),
        block=(LANES, 1, 1),
        buffers={
            "in": BufferSpec(dtype="u64", shape=(3, LANES)),
            "out": BufferSpec(dtype="u64", shape=(len(made), LANES)),
        },
        params=(PointerParam(buffer="in"), PointerParam(buffer="out")),
    )
    zero = np.zeros((len(made), LANES), np.uint64)
    stored = machine.run(text, launch, {"in": given, "out": zero}).buffers["out"]
    body = ptx.parse(text).kernels[0].body
    names = [instr.form.name for instr in body]
    first = names.index("setp") + 1
    while names[first] != made[0][0]:
        first += 1
    rest = [instr for instr in body[first:] if not instr.form.name.startswith("st")]
    instrs: list[ptx.Instr] = []
    for _, _, to, _ in made:
        instrs.append(rest.pop(0))
        if to == "pred":
            rest.pop(0)
    return made, instrs, stored.reshape(len(made), LANES)


def pattern(value: int, kind: str) -> int:
    return int(value & 0xFFFFFFFF != 0) if kind == "pred" else value & (1 << int(kind[1:])) - 1


def test_every_function_gives_what_the_simulator_stores(ran):
    made, instrs, stored = ran
    given = values().tolist()
    for (name, op, to, of), instr, results in zip(made, instrs, stored.tolist(), strict=True):
        assert instr.form.name == name, op
        function = function_of(instr)
        assert function is not None, op
        for lane, result in enumerate(results):
            operands = [pattern(given[i][lane], kind) for i, kind in enumerate(of)]
            if name in ("int.div", "int.rem") and operands[1] == 0:
                continue  # it may be anything
            bits = (1 << (1 if to == "pred" else int(to[1:]))) - 1
            found = function(*operands)
            assert found & bits == result, (op, operands, hex(found), hex(result))
            assert found & bits == found or (name, to[0]) == ("cvt", "s"), (op, operands, "more bits than its type")


def test_every_function_is_tried_but_those_of_addresses():
    assert {name for name, *_ in forms()} == set(_MAKERS) - {"cvta", "cvta.to"}


@pytest.mark.parametrize(
    "op",
    [
        "add.sat.s32 %d32, %a32, %b32", "add.f32 %d32, %a32, %b32", "cvt.rn.f32.u32 %d32, %a32",
        "min.relu.s32 %d32, %a32, %b32", "cvt.sat.u8.s32 %d32, %a32",
    ],
)  # fmt: skip
def test_what_saturates_or_is_no_whole_number_is_not_known(op):
    text = kernel([("int.add", "add.u32", "u32", ("u32", "u32"))]).replace("add.u32 %d32, %a32, %b32", op)
    text = text.replace("; ", ";\n")
    line = next(number for number, words in enumerate(text.splitlines(), 1) if op in words)
    (asked,) = (instr for instr in ptx.parse(text).kernels[0].body if instr.span.line == line)
    assert function_of(asked) is None
