"""Inputs that are drawn for a network, and how outputs are held against what the user expects."""

from __future__ import annotations

import math

import numpy as np
import onnx.parser
import pytest

import convc
from convc.errors import InputError, ModelError
from convc.runtime.network import ort_session
from convc.verification.network import expected_by_oracle, random_inputs

HEAD = '<ir_version: 8, opset_import: ["": 21]>'


def inputs_of(said: str):
    return tuple(onnx.parser.parse_model(f"{HEAD} g ({said}) => (float y) {{ y = Identity (x) }}").graph.input)


def test_inputs_are_normal_numbers_or_truth_values_of_their_type():
    feeds = random_inputs(inputs_of("float[40, 50] x, float16[3] h, bool[9] b, int64[4, 5] i, uint8[7] u"), 3)
    assert {name: (array.dtype.name, array.shape) for name, array in feeds.items()} == {
        "x": ("float32", (40, 50)), "h": ("float16", (3,)), "b": ("bool", (9,)), "i": ("int64", (4, 5)),
        "u": ("uint8", (7,)),
    }  # fmt: skip
    assert abs(feeds["x"].mean()) < 0.1 < 0.9 < feeds["x"].std() < 1.1
    assert set(feeds["i"].reshape(-1).tolist()) == {0, 1}
    again, other = (random_inputs(inputs_of("float[40, 50] x, float[40, 50] z"), seed) for seed in (3, 4))
    assert np.array_equal(again["x"], feeds["x"])
    assert not np.array_equal(again["x"], again["z"])
    assert not np.array_equal(again["x"], other["x"])


@pytest.mark.parametrize(
    ("given", "said"),
    [("string[2] x", "is not a tensor of numbers"), ("float[2] x, string[2] s", "'s' is not a tensor of numbers")],
)
def test_what_no_numbers_can_be_drawn_for_is_refused(given, said):
    with pytest.raises(ModelError, match=said):
        random_inputs(inputs_of(given), 0)
    sequence = onnx.helper.make_tensor_sequence_value_info("q", onnx.TensorProto.FLOAT, [2])
    with pytest.raises(ModelError, match="the input 'q' is not a tensor of known rank"):
        random_inputs((sequence,), 0)
    with pytest.raises(ModelError, match="the input 'x' is not a tensor of known rank"):
        random_inputs((onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None),), 0)


INTEGER = f"""{HEAD} g (uint8[1, 3, 6, 5] x) => (int32[1, N, 4, 3] y)
<int8[4, 3, 3, 3] w, uint8 at = {{7}}> {{ y = ConvInteger (x, w, at) }}"""
"""Its host's answer is the reference, as sums of integers are the same everywhere."""


def test_whole_numbers_are_held_against_the_reference_of_onnx_and_each_element_has_to_agree():
    model = onnx.parser.parse_model(INTEGER)
    rng = np.random.default_rng(0)
    w = rng.integers(-9, 9, (4, 3, 3, 3), np.int8)
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    x = rng.integers(0, 99, (1, 3, 6, 5), np.uint8)
    found = convc.verify(model, feeds=x)
    (layer,) = found.layers
    (output,) = found.network.outputs
    assert (found.ok, layer.ok, output.decided_by, output.count_wrong) == (True, True, "equality", 0)
    right = np.asarray(convc.verify(model, feeds=x).network.outputs[0].shape)
    assert right.tolist() == [1, 4, 4, 3]
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int32) - 7, (3, 3), (2, 3))
    y = np.einsum("ncpqrs,kcrs->nkpq", windows, w.astype(np.int32)).astype(np.int32)
    assert convc.verify(model, feeds=x, expected=convc.Expected(outputs={"y": y})).ok
    y[0, 2, 1, 0] -= 3
    wrong = convc.verify(model, feeds=x, expected=convc.Expected(outputs={"y": y})).network.outputs[0]
    assert (wrong.count_wrong, wrong.first, wrong.worst_error, wrong.limit) == (1, (0, 2, 1, 0), 3, 0)
    assert wrong.got == wrong.expected + 3


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("got", "expected", "atol", "rtol", "wrong", "first", "limit", "measured"),
    [
        ([1, 2, 3], [1, 2, 3], 0, 0, 0, None, 0, 0),
        ([1, 2.5, 3], [1, 2, 3], 0.5, 0, 0, None, 0.5, 0.5),
        ([1, 2.5, 3], [1, 2, 4], 0.25, 0.125, 1, (2,), 0.75, 1),
        ([1, -2.5, 3], [1, -2, 3], 0, 0.25, 0, None, 0.5, 0.5),
        ([1, NAN, 3], [1, NAN, 3], 0, 0, 0, None, 0, 0),
        ([1, NAN, 3], [1, 2, 3], 9, 9, 1, (1,), 27, INF),
        ([INF, 1, 3], [INF, 1, 3], 0, 0, 0, None, 0, 0),
        ([INF, 1, 3], [-INF, 1, 3], 9, 9, 1, (0,), 9, INF),
    ],
)
def test_a_tolerance_decides_element_by_element(got, expected, atol, rtol, wrong, first, limit, measured):
    """What is shown is the first element that is wrong, or of right ones the one nearest to its limit."""
    model = onnx.parser.parse_model(f"{HEAD} g (float[3] x) => (float[3] y) {{ y = Identity (x) }}")
    wanted = convc.Expected(outputs={"y": np.float32(expected)}, atol=atol, rtol=rtol)
    (output,) = convc.verify(model, feeds=np.float32(got), expected=wanted).network.outputs
    assert (output.count_wrong, output.first) == (wrong, first)
    assert (output.limit, output.measured) == (limit, measured)
    assert output.count_nan == (np.isnan(got) & np.isnan(expected)).sum()


def test_of_an_rms_error_the_largest_error_is_shown_however_small():
    model = onnx.parser.parse_model(f"{HEAD} g (float[3] x) => (float[3] y) {{ y = Identity (x) }}")
    expected = np.float32([1, 2 - 2**-22, 4])
    (output,) = convc.verify(
        model, feeds=np.float32([1, 2, 4]), expected=convc.Expected(outputs={"y": expected})
    ).network.outputs
    assert (output.decided_by, output.count_wrong, output.worst_error) == ("relative RMS error", 0, 2**-22)


def test_what_is_expected_has_the_shape_of_the_output():
    model = onnx.parser.parse_model(f"{HEAD} g (float[3] x) => (float[3] y) {{ y = Identity (x) }}")
    with pytest.raises(InputError, match=r"expected an array of the output's shape \[3\], got \[2\]") as refused:
        convc.verify(
            model, feeds=np.ones(3, np.float32), expected=convc.Expected(outputs={"y": np.ones(2, np.float32)})
        )
    assert refused.value.where == "output 'y'"


def test_the_reference_of_onnx_answers_where_onnxruntime_does_not(monkeypatch, tmp_path):
    monkeypatch.setattr(ort_session, "available", lambda: "9.9")
    monkeypatch.setattr(ort_session, "run_model", lambda *_: "no kernel for it")
    model = onnx.parser.parse_model(f"{HEAD} g (float[3] x) => (float[3] y) {{ y = Neg (x) }}")
    wanted = expected_by_oracle(model, tmp_path, {"x": np.float32([1, -2, 3])})
    assert (wanted.oracle, wanted.silent) == ("onnx.reference", "no kernel for it")
    assert {name: value.tolist() for name, value in wanted.outputs.items()} == {"y": [-1, 2, -3]}
    monkeypatch.setattr(ort_session, "run_model", lambda *_: {"y": np.zeros(3, np.float32)})
    wanted = expected_by_oracle(model, tmp_path, {"x": np.float32([1, -2, 3])})
    assert (wanted.oracle, wanted.silent, list(wanted.outputs)) == ("onnxruntime 9.9", "", ["y"])


@pytest.mark.parametrize(("scale", "measured"), [(2, 0.5), (0.5, 1), (-1, 2)])
def test_an_rms_error_is_a_share_of_what_is_expected(scale, measured):
    model = onnx.parser.parse_model(f"{HEAD} g (float[3] x) => (float[3] y) {{ y = Identity (x) }}")
    x = np.float32([1, -2, 3])
    wanted = convc.Expected(outputs={"y": scale * x})
    (output,) = convc.verify(model, feeds=x, expected=wanted).network.outputs
    assert (output.decided_by, output.count_wrong) == ("relative RMS error", 1)
    assert output.measured == pytest.approx(measured)


def test_of_an_output_that_is_no_tensor_nothing_is_expected():
    model = onnx.parser.parse_model(
        f"{HEAD} g (float[3] x) => (float[3] y) {{ y = Neg (x) s = SequenceConstruct (x, y) }}"
    )
    model.graph.output.append(onnx.helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT, None))
    plain, sequence = convc.verify(model, feeds=np.ones(3, np.float32)).network.outputs
    assert (plain.dtype, plain.shape, plain.ok) == ("float32", (3,), True)
    assert (sequence.dtype, sequence.shape, sequence.decided_by, sequence.ok) == ("list", (), "", True)
