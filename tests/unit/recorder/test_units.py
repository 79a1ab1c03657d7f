"""Translation units as one module: whose definition a name gets, names of a unit's own, and what is left out."""

from __future__ import annotations

import pytest

import convc
from convc import ptx
from convc.errors import InputError
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.recorder.units import linked, module_text
from tests.unit.recorder.test_fatbin import entry, fatbin

HEAD = ".version 8.{}\n.target {}\n.address_size 64\n"
MAIN = (
    HEAD.format(6, "sm_90")
    + """.file 1 "main.cu"
.extern .func (.param .b32 result) scaled
(
    .param .b32 value
)
;
.extern .func (.param .b32 result) vprintf (.param .b64 text, .param .b64 values);
.extern .global .align 4 .u32 base;
.global .align 4 .u32 own[2] = {100, 200};
.weak .func (.param .b32 result) twice(.param .b32 value)
{
    .reg .b32 %x;
    .loc 1 7 3
    ld.param.b32 %x, [value];
    shl.b32 %x, %x, 1; // not } the end
    st.param.b32 [result], %x;
    ret;
}
.visible .entry kernel(.param .u64 out)
{
    .reg .b32 %x, %y;
    .reg .b64 %out;
    ld.global.u32 %x, [own+4];
    { .param .b32 given; .param .b32 back;
      st.param.b32 [given], %x; call.uni (back), scaled, (given); ld.param.b32 %x, [back]; }
    ld.global.u32 %y, [base];
    add.u32 %x, %x, %y;
    ld.param.u64 %out, [out];
    st.global.u32 [%out], %x;
    ret;
}
.section .debug_str { .b8 125, 59; }
"""
)
LIBRARY = (
    HEAD.format(8, "sm_100a")
    + """.global .align 4 .u32 own = 3;
.visible .global .align 4 .u32 base = 50000;
.global .align 8 .u64 where[1] = {own};
.visible .func (.param .b32 result) scaled(.param .b32 value);
.weak .func (.param .b32 result) twice(.param .b32 value) { .reg .b32 %x; trap; st.param.b32 [result], %x; ret; }
.visible .func (.param .b32 result) scaled(.param .b32 value)
{
    .reg .b32 %x, %y;
    .reg .b64 %own;
    ld.global.u64 %own, [where];
    ld.global.u32 %y, [%own];
    ld.param.b32 %x, [value];
    mul.lo.u32 %x, %x, %y;
    { .param .b32 given; .param .b32 back;
      st.param.b32 [given], %x; call.uni (back), twice, (given); ld.param.b32 %x, [back]; }
    st.param.b32 [result], %x;
    ret;
}
"""
)


def test_names_get_the_definitions_of_other_units(tmp_path):
    text = linked([MAIN, LIBRARY])
    assert text.startswith(".version 8.8\n.target sm_100a\n")
    assert text.count("trap") == 0, "of two weak definitions the first is kept"
    assert not {".loc", ".file", ".section"} & set(text.split())
    (tmp_path / "kernel.ptx").write_text(text)
    launch = LaunchSpec(
        entry="kernel",
        grid=(1, 1, 1),
        block=(1, 1, 1),
        buffers={"out": BufferSpec(dtype="u32", shape=(1,))},
        params=(PointerParam(buffer="out"),),
    )
    done = convc.simulate(tmp_path / "kernel.ptx", launch)
    assert done.buffers["out"].tolist() == [200 * 3 * 2 + 50000]


def test_a_strong_definition_goes_before_a_weak_one():
    weak = HEAD.format(6, "sm_90") + ".weak .global .align 4 .u32 a = 1;\n.extern .shared .align 16 .b8 dynamic[];\n"
    strong = (
        HEAD.format(6, "sm_90") + ".extern .shared .align 16 .b8 dynamic[];\n.visible .global .align 4 .u32 a = 2;\n"
    )
    for texts in ([weak, strong], [strong, weak]):
        (found,) = (each for each in ptx.parse(linked(texts)).variables if each.name == "a")
        assert found.init == 2


def test_each_unit_needs_ptx_for_the_target():
    machine, main, other = (
        fatbin(entry(data, kind)) for data, kind in ((b"\x7fELF", 2), (MAIN.encode(), 1), (b"\x7fELF", 2))
    )
    assert "kernel" in module_text(machine + main, "sm_90a", "program")
    with pytest.raises(InputError, match="machine code and no PTX") as refused:
        module_text(machine + main + other, "sm_90a", "program")
    assert refused.value.hint == "nvcc -gencode arch=compute_90a,code=[compute_90a,sm_90a]"
