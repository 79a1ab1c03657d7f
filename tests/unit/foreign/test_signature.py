"""Parameters of Triton's kernels: those that tests/foreign's launch files have, made of arguments."""

from __future__ import annotations

import numpy as np
import pytest

from convc.errors import LaunchError
from convc.foreign.signature import entry_of, parameters
from convc.ir.launch import ScalarParam, load_launch
from convc.triton.buffers import Buffers
from convc.triton.tensors import Tensor
from tests.support.triton_recorded import FOREIGN, described, tile

IM2COL = {"element_strides": [1, 2, 2, 1], "pixel_box_lower_corner": [-1, -1], "pixel_box_upper_corner": [-1, -2]}


def half(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float16)


def made(folder, signature, values, maps):
    """The parameters that come of arguments, and those of the launch file."""
    bases = {name: getattr(value, "base", value) for name, value in zip(signature, values, strict=True)}
    placed = Buffers({name: base for name, base in bases.items() if isinstance(base, Tensor)})
    text = (FOREIGN / folder / "kernel.ptx").read_text()
    want = load_launch(FOREIGN / folder / "launch.json").params
    return parameters(text, signature, values, maps, placed), want


def test_tensor_maps_of_tiles():
    arrays = {"a": (half(200, 200), [128, 64]), "b": (half(152, 200), [128, 64]), "out": (half(200, 152), [128, 128])}
    values = [described(*each) for each in arrays.values()]
    signature = {
        **{name: f"tensordesc<fp16{block}>" for name, (_, block) in arrays.items()},
        "k": "i32",
        "BM": "constexpr",
    }
    blocks = ([128, 64], [128, 64], [128, 64])  # the compiler halves that of the result: 128 bytes are a swizzle's span
    params, want = made("matmul_tma_f16", signature, [*values, 200, 128], [tile(block) for block in blocks])
    assert params == want


def test_tensor_maps_of_im2col():
    values = [
        described(half(5, 13, 10, 128), [128, 64], **IM2COL),
        described(half(72, 1152), [64, 64]),
        described(half(175, 72), [128, 64]),
    ]
    signature = {"x": "tensordesc_im2col<fp16[128,64],input_rank=4,l>", "w": "tensordesc<fp16[64,64],l>"}
    maps = [tile([128, 64], is_im2col=True), tile([64, 64]), tile([128, 64])]
    params, want = made("gluon_conv", signature | {"y": "tensordesc<fp16[128,64],l>"}, values, maps)
    assert params == want


def test_numbers_and_tuples():
    text = """.entry f(
        .param .u64 a, .param .u32 b, .param .u64 c, .param .f32 d, .param .u64 s, .param .u64 p
    ) .reqntid 64, 2 { ret; }"""
    x = Tensor(np.zeros(4, np.float32))
    signature = {"pair": ("*fp32", "i32", "constexpr"), "n": "i64", "scale": "fp32"}
    params = parameters(text, signature, [(x, 0xFFFFFFFF, None), 7, 1], [], Buffers({"pair.0": x}))
    assert params[1:4] == (
        ScalarParam(dtype="s32", value=-1), ScalarParam(dtype="s64", value=7), ScalarParam(dtype="f32", value=1.0),
    )  # fmt: skip
    assert entry_of(text).threads == (64, 2, 1)


@pytest.mark.parametrize("flags", [1, 2])
def test_a_descriptor_without_a_tensor_map(flags):
    """One flag until Triton 3.5, two since: the text says how many there are."""
    inner = ", ".join(f".param .u64 p{index}" for index in range(1 + 2 + 2 + flags + 2 + 2 + 2))
    x = described(np.zeros((4, 8), np.float32), [4, 8], padding="nan", round_f32_to_tf32=True)
    text = f".entry f({inner}) {{ ret; }}"
    params = parameters(text, {"x": "tensordesc<fp32[4, 8]>"}, [x], [], Buffers({"x": x.base}))
    said = [param.value for param in params if isinstance(param, ScalarParam)]
    assert said == [4, 8, 8, 1, *[1] * flags, 4, 8, 8, 1, 0, 0]


def test_another_number_of_parameters():
    with pytest.raises(LaunchError, match="takes 1 parameters, its arguments make 1, scratch memory 2"):
        parameters(".entry f(.param .u32 n) { ret; }", {"n": "i32"}, [1], [], Buffers({}))


def test_types_that_are_not_known():
    with pytest.raises(LaunchError, match="argument 'n': expected a type among i1"):
        parameters(".entry f(.param .u32 n) { ret; }", {"n": "i7"}, [1], [], Buffers({}))


def test_several_kernels():
    with pytest.raises(LaunchError, match=r"expected one kernel in the text, got f, g"):
        entry_of(".entry f() { ret; } .entry g() { ret; }")
    assert entry_of(".entry f() { ret; } .entry g() { ret; }", "g").name == "g"


def test_nvfp4_counts_single_elements():
    x = described(np.zeros((128, 64), np.uint8), [128, 64])
    maps = [tile([128, 128], elem_type=14, size=1) | {"fp4_padded": True}]
    inner = ", ".join(f".param .u64 p{index}" for index in range(1 + 2 + 2 + 2))
    (param, *_) = parameters(
        f".entry f({inner}) {{ ret; }}", {"x": "tensordesc<i8[128, 64]>"}, [x], maps, Buffers({"x": x.base})
    )
    assert (param.map.dtype, param.map.dims, param.map.strides) == ("b4x16_p64", (128, 128), (64,))
