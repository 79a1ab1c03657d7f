"""Buffers whose elements stand in the launch file: numbers, and addresses of buffers."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from support.kernels import module

from convc.errors import LaunchError
from convc.gpu.plan import plan_launch
from convc.ir.launch import LaunchSpec, dump_launch
from convc.machine import run

TEXT = module(
    ".reg .b64 %a; .reg .b32 %v, %w; ld.global.u64 %a, [%p_list]; ld.u32 %v, [%a]; ld.global.u32 %w, [%p_list+8];"
    " st.global.v2.u32 [%p_out], {%v, %w};",
    pointers=("list", "out"),
)


def launch(values: list, dtype: str = "u64", **more) -> LaunchSpec:
    return msgspec.convert(
        {
            "entry": "k",
            "grid": [1, 1, 1],
            "block": [1, 1, 1],
            "buffers": {
                "list": {"dtype": dtype, "shape": [2], "values": values, **more},
                "numbers": {"dtype": "s32", "shape": [4], "values": [5, -6, 7, 8]},
                "out": {"dtype": "s32", "shape": [2]},
            },
            "params": [{"kind": "pointer", "buffer": "list"}, {"kind": "pointer", "buffer": "out"}],
        },
        LaunchSpec,
    )


def test_a_kernel_follows_an_address():
    spec = launch([{"address_of": "numbers", "offset": 4}, 99])
    assert msgspec.json.decode(dump_launch(spec), type=LaunchSpec) == spec
    result = run(TEXT, spec, {})
    assert result.buffers["out"].tolist() == [-6, 99]
    assert result.buffers["list"].tolist() == [(2 << 40) + 4, 99]


def test_an_array_that_is_given_goes_first():
    other = np.array([(2 << 40) + 8, 1], np.uint64)
    assert run(TEXT, launch([{"address_of": "numbers"}, 99]), {"list": other}).buffers["out"].tolist() == [7, 1]


@pytest.mark.parametrize(
    ("values", "more", "message"),
    [
        ([{"address_of": "number"}, 0], {}, "'number', which is no buffer"),
        ([{"address_of": "numbers", "offset": 17}, 0], {}, r"must be in 0\.\.16, got 17"),
        ([{"address_of": "numbers"}, 0], {"dtype": "u32"}, "takes 64 bits; the type is u32"),
        ([1], {}, r"\(2\), of a type among .*; got 1 for u64"),
        ([1, -1], {}, "value 1 is no u64: -1"),
        ([1, 2], {"dtype": "f32"}, "got 2 for f32"),
        ([1, 2], {"file": "x.npy"}, "values and a file"),
    ],
)
def test_what_cannot_be(values, more, message):
    with pytest.raises(LaunchError, match=message):
        launch(values, **more).check()


def test_a_gpu_is_given_numbers_and_no_addresses():
    assert plan_launch(launch([1, 2]), TEXT).listed["list"].tolist() == [1, 2]
    with pytest.raises(LaunchError, match="addresses in the launch file, which a GPU launch does not support"):
        plan_launch(launch([1, {"address_of": "numbers"}]), TEXT)
