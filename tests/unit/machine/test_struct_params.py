"""Kernel parameters that are structures by value: bytes, and fields of every other kind."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from support import kernels

from convc.errors import LaunchError
from convc.ir.launch import BufferSpec, LaunchSpec, dump_launch
from convc.support.ptxas import assemble

TEXT = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out, .param .align 8 .b8 s[24])
{
.reg .b64 %o, %p; .reg .b32 %t, %v, %w; .reg .f32 %f; .reg .b16 %h;
ld.param.u64 %o, [out]; ld.param.u64 %p, [s]; ld.param.f32 %f, [s+8]; ld.param.u16 %h, [s+12]; ld.param.u32 %w, [s+16];
ld.global.u32 %v, [%p]; st.global.u32 [%o], %v; st.global.f32 [%o+4], %f; cvt.u32.u16 %v, %h;
st.global.u32 [%o+8], %v; st.global.u32 [%o+12], %w;
ret;
}
"""


def launch(**param) -> LaunchSpec:
    data = {
        "entry": "k", "grid": [1, 1, 1], "block": [1, 1, 1],
        "buffers": {name: {"dtype": "u32", "shape": [4]} for name in ("out", "x")},
        "params": [{"kind": "pointer", "buffer": "out"}, {"kind": "struct", **param}],
    }  # fmt: skip
    return msgspec.convert(data, LaunchSpec)


FIELDS = [
    {"at": 0, "param": {"kind": "pointer", "buffer": "x", "offset": 8}},
    {"at": 12, "param": {"kind": "scalar", "dtype": "u16", "value": 77}},
]


def run(spec: LaunchSpec) -> list[int]:
    buffers = {"out": np.zeros(4, np.uint32), "x": np.arange(40, 44, dtype=np.uint32)}
    return kernels.run(TEXT, spec, buffers).buffers["out"].tolist()


def test_the_kernel_is_ptx():
    assemble(TEXT)


def test_fields_and_zeros():
    assert run(launch(fields=FIELDS)) == [42, 0, 77, 0]


def test_fields_on_top_of_bytes():
    words = np.array([1, 2, 3, 0x00050004, 6, 7], np.uint32)
    assert run(launch(fields=FIELDS, bytes=words.tobytes().hex())) == [42, 3, 77, 6]


def test_the_file_says_the_same():
    spec = launch(fields=FIELDS, bytes="00" * 24)
    assert msgspec.json.decode(dump_launch(spec), type=LaunchSpec) == spec
    assert isinstance(spec.buffers["x"], BufferSpec)


@pytest.mark.parametrize(
    ("param", "message"),
    [
        ({"bytes": "00"}, "has 24 bytes, the launch file gives 1"),
        ({"bytes": "0g"}, "must be hexadecimal digits"),
        ({"fields": [FIELDS[0], {**FIELDS[1], "at": 7}]}, "the field at byte 7 overlaps what is before it"),
        ({"fields": [{**FIELDS[1], "at": -2}]}, "the field at byte -2 overlaps"),
        ({"fields": [{**FIELDS[0], "at": 20}]}, "its field at byte 20 takes 8"),
        ({"fields": [{"at": 0, "param": {"kind": "pointer", "buffer": "z"}}]}, "names buffer 'z'"),
        ({"fields": [{"at": 0, "param": {"kind": "scalar", "dtype": "q8", "value": 1}}]}, "unknown scalar type 'q8'"),
    ],
)
def test_structures_that_do_not_fit(param, message):
    with pytest.raises(LaunchError, match=message) as refused:
        run(launch(**param))
    assert bool(refused.value.where) == ("24 bytes" not in message and "takes 8" not in message)
