"""The oracle against its definition, ONNX's reference and ONNX Runtime, on integers: all are exact."""

from __future__ import annotations

import itertools

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from support.examples import some

from convc.ir.problem import ConvProblem
from convc.verification import reference


def case(seed: int, rank: int, groups: int, largest: int = 7) -> dict:
    """Random shapes, steps, pads and integer data with a non-empty output."""
    rng = np.random.default_rng(seed)

    def axis(low: int, high: int) -> list[int]:
        return [int(v) for v in rng.integers(low, high + 1, rank)]

    kernel, stride, dilation = axis(1, 3), axis(1, 3), axis(1, 3)
    pad_lo, pad_hi, extent = axis(0, 2), axis(0, 2), axis(1, largest)
    for a in range(rank):
        extent[a] = max(extent[a], (kernel[a] - 1) * dilation[a] + 1 - pad_lo[a] - pad_hi[a])
    channels, filters = groups * int(rng.integers(1, 4)), groups * int(rng.integers(1, 4))
    return {
        "x": rng.integers(-9, 9, (int(rng.integers(1, 3)), channels, *extent)),
        "w": rng.integers(-9, 9, (filters, channels // groups, *kernel)),
        "bias": rng.integers(-9, 9, filters) if rng.integers(2) else None,
        "stride": stride,
        "dilation": dilation,
        "pads": (pad_lo, pad_hi),
        "groups": groups,
    }


def by_definition(x, w, bias, stride, dilation, pads, groups):
    pad_lo, pad_hi = pads
    extent, kernel = x.shape[2:], w.shape[2:]
    out = [
        (e + lo + hi - (k - 1) * d - 1) // u + 1
        for e, lo, hi, k, d, u in zip(extent, pad_lo, pad_hi, kernel, dilation, stride, strict=True)
    ]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    for n, k, *pixel in itertools.product(*map(range, y.shape)):
        total = 0 if bias is None else int(bias[k])
        first = k // (w.shape[0] // groups) * w.shape[1]
        for c, *tap in itertools.product(*map(range, w.shape[1:])):
            at = [p * u + t * d - lo for p, u, t, d, lo in zip(pixel, stride, tap, dilation, pad_lo, strict=True)]
            if all(0 <= i < e for i, e in zip(at, extent, strict=True)):
                total += float(x[(n, first + c, *at)]) * float(w[(k, c, *tap)])
        y[(n, k, *pixel)] = total
    return y


def onnx_model(case: dict, element_type: int):
    dtype = helper.tensor_dtype_to_np_dtype(element_type)
    inputs = {"x": case["x"].astype(dtype), "w": case["w"].astype(dtype)}
    if case["bias"] is not None:
        inputs["b"] = case["bias"].astype(dtype)
    node = helper.make_node(
        "Conv",
        list(inputs),
        ["y"],
        strides=case["stride"],
        dilations=case["dilation"],
        pads=[*case["pads"][0], *case["pads"][1]],
        group=case["groups"],
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, element_type, array.shape) for name, array in inputs.items()],
        [helper.make_tensor_value_info("y", element_type, None)],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), inputs


cases = st.builds(case, st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 2))


@given(cases.filter(lambda c: c["x"].size * c["w"].size < 20_000))
@settings(max_examples=some(40), deadline=None)
def test_against_the_definition(case):
    assert np.array_equal(reference.conv(**case), by_definition(**case))


@given(cases)
@settings(max_examples=some(40), deadline=None)
def test_against_onnx_runtime(case):
    model, inputs = onnx_model(case, TensorProto.FLOAT)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert np.array_equal(reference.conv(**case), session.run(None, inputs)[0])


@given(cases.filter(lambda c: c["w"].ndim == 4))
@settings(max_examples=some(25), deadline=None)
def test_against_the_onnx_reference(case):
    model, inputs = onnx_model(case, TensorProto.DOUBLE)
    assert np.array_equal(reference.conv(**case), ReferenceEvaluator(model).run(None, inputs)[0])


@given(cases, st.integers(8, 4000))
@settings(max_examples=some(40), deadline=None)
def test_gathering_in_pieces_changes_nothing(case, gather_bytes):
    whole = reference.conv(**case)
    saved = reference._GATHER_BYTES
    reference._GATHER_BYTES = gather_bytes
    try:
        assert np.array_equal(reference.conv(**case), whole)
    finally:
        reference._GATHER_BYTES = saved


@given(st.lists(st.integers(1, 7), min_size=1, max_size=3), st.integers(1, 60))
def test_tiles_cover_the_output_once(out, limit):
    seen = np.zeros(out, int)
    for tile in reference._tiles(tuple(out), limit):
        assert seen[tile].size <= max(limit, 1)
        seen[tile] += 1
    assert (seen == 1).all()


def test_sums_beyond_float32_are_exact():
    x = np.full((1, 4096, 1, 1), 2047.0, np.float32)
    w = np.full((1, 4096, 1, 1), 2047.0, np.float32)
    w[0, 0] = 2046
    assert reference.conv(x, w)[0, 0, 0, 0] == 4096 * 2047**2 - 2047


def test_problem_form_and_defaults():
    case_ = case(3, 2, 1)
    problem = ConvProblem(
        batch=case_["x"].shape[0],
        in_channels=case_["x"].shape[1],
        out_channels=case_["w"].shape[0],
        in_extent=case_["x"].shape[2:],
        kernel=case_["w"].shape[2:],
        stride=case_["stride"],
        dilation=case_["dilation"],
        pad_lo=case_["pads"][0],
        pad_hi=case_["pads"][1],
    )
    got = reference.conv_problem(problem, case_["x"], case_["w"], case_["bias"])
    assert np.array_equal(got, reference.conv(**case_))
    assert got.shape == problem.y_shape
    assert np.array_equal(reference.conv(np.ones((1, 1, 4)), np.ones((1, 1, 2))), np.full((1, 1, 3), 2.0))


def test_special_values_flow_through():
    x = np.array([[[[np.inf, 1.0, np.nan]]]])
    assert np.array_equal(reference.conv(x, np.ones((1, 1, 1, 1))), x, equal_nan=True)


@pytest.mark.parametrize("seed", range(12))
def test_an_infinite_weight_multiplies_no_padding(seed):
    case_ = case(seed, rank=seed % 3 + 1, groups=1 + seed % 2, largest=4)
    case_["pads"][seed % 2][0] += 1
    w = case_["w"] = case_["w"].astype(np.float64)
    w[seed % len(w)].flat[0], w[-1].flat[-1] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        assert np.array_equal(reference.conv(**case_), by_definition(**case_), equal_nan=True)


def test_a_stride_of_64_bits_where_there_is_one_pixel():
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    w = np.ones((1, 1, 3, 1), np.float32)
    y = reference.conv(x, w, stride=(2**63 - 1, 2), dilation=(1, 2**63 - 1))
    assert y.tolist() == [[[[12, 18]]]]


@pytest.mark.parametrize("pad", [1 << 45, (1 << 63) - 1])
def test_padding_that_no_memory_has_addresses_for_is_refused_as_any_that_is_too_large(pad):
    x = np.ones((1, 1, 2, 3))
    with pytest.raises(MemoryError, match=r"(?i)unable to allocate .* for an array with shape"):
        reference.conv(x, np.ones((1, 1, 1, 2)), dilation=(1, pad), pads=((0, 0), (0, pad)))
    problem = ConvProblem(
        in_channels=1, out_channels=1, in_extent=(2, 3), kernel=(1, 1), pad_hi=(0, pad), stride=(1, pad),
        output_padding=(0, pad - 1), transposed=True,
    )  # fmt: skip
    with pytest.raises(MemoryError, match=r"(?i)unable to allocate .* for an array with shape"):
        reference.conv_problem(problem, x, np.ones((1, 1, 1, 1)))


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="do not fit together with 1 group"):
        reference.conv(np.zeros((1, 3, 5, 5)), np.zeros((2, 4, 1, 1)))
    with pytest.raises(ValueError, match="empty output"):
        reference.conv(np.zeros((1, 3, 2, 5)), np.zeros((2, 3, 3, 3)))
    problem = ConvProblem(in_channels=1, out_channels=1, in_extent=(2, 2), kernel=(1, 1))
    with pytest.raises(ValueError, match="expected x"):
        reference.conv_problem(problem, np.zeros((1, 1, 2, 3)), np.zeros((1, 1, 1, 1)))
