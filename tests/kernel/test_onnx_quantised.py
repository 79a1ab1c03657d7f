"""ConvInteger and QLinearConv through the front door, the compiler and the simulator, against the onnx package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator
from support.examples import PARTS, some
from support.onnx_cases import node_cases

from convc import api
from convc.build.writer import layer_of
from convc.compiler.kernels import Kernels
from convc.compiler.options import ScheduleOptions
from convc.frontend.onnx_reader import read_model, read_node
from convc.runtime.layer import run_layer

CASES = node_cases("convinteger", "qlinearconv")
TYPES = {"u8": np.uint8, "s8": np.int8}
EXAMPLES = 30


def run(conv, x: np.ndarray) -> np.ndarray:
    layer = layer_of(conv.problem, Kernels().compiled(conv.problem), conv.weight, conv.bias, conv.multiplier)
    done = run_layer(layer, x)
    assert done.findings == ()
    return done.y


def test_there_are_three_cases():
    assert sorted(CASES) == ["test_convinteger_with_padding", "test_convinteger_without_padding", "test_qlinearconv"]


@pytest.mark.parametrize("name", CASES)
def test_case(name, tmp_path: Path):
    case = CASES[name]
    path = tmp_path / "model.onnx"
    onnx.save(case.model, path)
    inputs, outputs = case.data_sets[0]
    names = [value.name for value in case.model.graph.input]
    network = read_model(path, constants=dict(list(zip(names, map(np.asarray, inputs), strict=True))[1:]))
    (conv,) = network.convs
    y = run(conv, np.asarray(inputs[0]))
    assert y.dtype == outputs[0].dtype
    np.testing.assert_array_equal(y, outputs[0])
    assert api.verify(network, seed=1).ok


@st.composite
def integer_nodes(draw, rank: int):
    """(node, inputs) of a ConvInteger: every mix of signs, zero points one by one and per channel, groups, pads."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    activations, filters = (TYPES[draw(st.sampled_from(["u8", "s8"]))] for _ in range(2))
    groups = draw(st.sampled_from([1, 1, 2, 5]))
    channels, own = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    kernel, stride, dilation = ([draw(st.integers(1, top)) for _ in range(rank)] for top in (3, 3, 2))
    pads = [draw(st.integers(0, 2)) for _ in range(2 * rank)]
    extent = [(k - 1) * d + draw(st.integers(1, 6)) for k, d in zip(kernel, dilation, strict=True)]

    def numbers(dtype: type, shape: tuple[int, ...] = ()) -> np.ndarray:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)

    inputs = {
        "x": numbers(activations, (draw(st.integers(1, 2)), groups * channels, *extent)),
        "w": numbers(filters, (groups * own, channels, *kernel)),
    }
    if draw(st.booleans()):
        inputs["zx"] = numbers(activations)
    if rank == 2 and draw(st.booleans()):  # the reference takes one per channel of images only
        inputs["zw"] = numbers(filters, (groups * own,))
    elif draw(st.booleans()):
        inputs["zw"] = numbers(filters)
    names = ["x", "w", "zx" if "zx" in inputs else "", "zw"] if "zw" in inputs else list(inputs)
    node = helper.make_node(
        "ConvInteger", names, ["y"], pads=pads, strides=stride, dilations=dilation, group=groups, name="node"
    )
    return node, inputs


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_conv_integer_is_the_reference_bit_for_bit(rank, part):
    @settings(
        max_examples=EXAMPLES // rank // part,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(integer_nodes(rank))
    def every(drawn) -> None:
        node, inputs = drawn
        conv = read_node(node, "node", [inputs.get(name) for name in node.input])
        expected = ReferenceEvaluator(node).run(None, inputs)[0]
        np.testing.assert_array_equal(run(conv, inputs["x"]), expected)

    every()


@settings(max_examples=some(EXAMPLES), derandomize=True, database=None)
@given(integer_nodes(2), st.sampled_from(["u8", "s8"]), st.booleans(), st.booleans(), st.integers(0, 2**32 - 1))
def test_qlinear_conv_is_the_reference_but_for_ties(drawn, out, per_channel, biased, seed):
    """Where the scaled sum is a hair beside a tie, float32 and the reference's float64 may part by one.

    The zero point of the result is even here: the reference adds it before it rounds ties to even, ONNX Runtime and
    this kernel afterwards.
    """
    integer, inputs = drawn
    rng = np.random.default_rng(seed)
    x, w = inputs["x"], inputs["w"]
    sums = ReferenceEvaluator(integer).run(None, inputs)[0].astype(np.int64)
    channels = len(w)
    zx, zw = inputs.get("zx", np.zeros((), x.dtype)), inputs.get("zw", np.zeros((), w.dtype))
    y_scale = np.float32(rng.uniform(0.5, 2) * max(1.0, np.abs(sums).max()) / 200)
    w_scale = rng.uniform(0.5, 2, (channels,) if per_channel and channels > 1 else ()).astype(np.float32)
    if seed % 4 == 0:  # powers of two make exact ties
        y_scale, w_scale = np.exp2(np.rint(np.log2(y_scale))), np.exp2(np.rint(np.log2(w_scale)))
    given = {
        "x": x,
        "x_scale": np.float32(1),
        "zx": zx,
        "w": w,
        "w_scale": w_scale,
        "zw": zw,
        "y_scale": y_scale,
        "zy": np.asarray(2 * rng.integers(-20, 20) + 64 * (out == "u8"), TYPES[out]),
    }
    if biased:
        given["b"] = rng.integers(-1000, 1000, channels).astype(np.int32)
        sums = sums + given["b"].reshape(-1, 1, 1)
    node = helper.make_node("QLinearConv", list(given), ["y"], name="node")
    node.attribute.extend(integer.attribute)
    conv = read_node(node, "node", list(given.values()))
    expected = ReferenceEvaluator(node).run(None, given)[0].astype(int)
    got = run(conv, x)
    assert got.dtype == TYPES[out]
    off = np.abs(got.astype(int) - expected)
    scaled = sums * conv.multiplier.astype(np.float64).reshape(-1, 1, 1)
    beside_a_tie = np.abs(scaled - np.floor(scaled) - 0.5) <= 2.0**-22 * np.abs(scaled)
    assert off.max() <= 1
    assert not off[~beside_a_tie].any()
    assert not off[scaled * 2 == np.rint(scaled * 2)].any(), "exact ties go to even"


WIDTHS = [(16, 1, 1), (16, 8, 1), (16, 16, 1), (16, 17, 1), (16, 33, 1), (8, 8, 8), (40, 40, 40), (12, 12, 4),
          (96, 48, 3), (128, 80, 2)]  # fmt: skip


@pytest.mark.one_of(3)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("channels", WIDTHS, ids=lambda each: "x".join(map(str, each)))
def test_results_of_8_bits_have_any_width_on_both_targets(channels, target):
    """The two threads of a row of Hopper's accumulator store 32 results at once: narrow ones get a wider tile."""
    inputs, outputs, groups = channels
    rng = np.random.default_rng(inputs + outputs)
    w = rng.integers(-20, 20, (outputs, inputs // groups, 3, 3)).astype(np.int8)
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"]
    scales = np.float32(0.02), np.float32(0.01), np.float32(0.05)
    x = rng.integers(0, 255, (1, inputs, 4, 5)).astype(np.uint8)
    arrays = [x, scales[0], np.uint8(128), w, scales[1], np.int8(0), scales[2], np.uint8(100)]
    node = helper.make_node("QLinearConv", names, ["y"], pads=[1] * 4, group=groups)
    conv = read_node(node, "node", [np.asarray(array) for array in arrays])
    kernel = Kernels(ScheduleOptions(target=target)).compiled(conv.problem)
    done = run_layer(layer_of(conv.problem, kernel, conv.weight, conv.bias, conv.multiplier), x)
    assert done.findings == ()
    expected = ReferenceEvaluator(node).run(None, dict(zip(names, arrays, strict=True)))[0]
    assert np.abs(done.y.astype(int) - expected).max() <= 1  # beside a tie
    assert (done.y == expected).mean() > 0.95
