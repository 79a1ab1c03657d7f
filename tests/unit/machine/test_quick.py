"""Short ways of scalar instructions: the operation behind one is made when it is needed, and needs no new slots."""

from __future__ import annotations

import pytest
from support.kernels import module

from convc.errors import ConvcError
from convc.machine.execute.decode import DecodedKernel
from convc.machine.execute.quick import INTEGERS, SHORT, made, way_of
from convc.machine.isa.registry import OPS
from convc.ptx import parse
from convc.ptx.grammar import forms
from convc.ptx.syntax import TYPE_BITS

OPCODES = sorted({form.opcode for form in forms() if form.name in SHORT})
MORE = {"cvt": ".u64", "mul": ".lo", "mad": ".lo", "setp": ".eq", "mov": ""}


def lines(opcode: str) -> list[str]:
    """An instruction of every integer type, with numbers for all sources and with registers."""
    found = []
    for kind in sorted(INTEGERS):
        bits = TYPE_BITS[kind]
        target = {"setp": "%p", "cvt": "%r64"}.get(opcode, f"%r{bits}")
        sources = {"mov": 1, "cvt": 1, "mad": 3}.get(opcode, 2)
        second = ["3", "%r32"] if opcode in ("shl", "shr") else ["5", f"%r{bits}"]
        for a in ("7", f"%r{bits}"):
            for b in second:
                operands = ", ".join((target, *[a, b, "9"][:sources]))
                found.append(f"{opcode}{MORE.get(opcode, '')}.{kind} {operands};")
    return found


def decoded(line: str) -> DecodedKernel | None:
    head = ".reg .b16 %r16; .reg .b32 %r32; .reg .b64 %r64; .reg .pred %p;\n"
    try:
        kernel = parse(module(head + line), "k.ptx")
    except ConvcError:  # not every type goes with every opcode
        return None
    return DecodedKernel(kernel, kernel.kernels[0])


@pytest.mark.parametrize("opcode", OPCODES)
def test_the_operation_behind_a_short_way_adds_no_slot(opcode):
    checked = 0
    for line in lines(opcode):
        kernel = decoded(line)
        if kernel is None:
            continue
        instr = kernel.kernel.body[-2]
        before = len(kernel.widths)
        OPS[instr.form.name](instr, kernel.slots)
        assert len(kernel.widths) == before, line
        made(way_of(instr, OPS[instr.form.name]), instr, kernel.slots)
        assert len(kernel.widths) == before, line
        checked += 1
    assert checked
