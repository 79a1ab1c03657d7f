"""Scales that are folded into weights, and those that a narrow type does not hold."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import convc
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_of
from convc.frontend import fusion
from convc.frontend.fusion import may_multiply, may_scale, scaled_weights
from convc.ir.problem import ConvProblem
from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.executor import Graph
from convc.verification.layer import check_layer

RANDOM = np.random.default_rng(3)


def of(operand="f16", transposed=False, groups=1):
    shape = {"in_extent": (5, 5), "kernel": (3, 3), "pad_lo": (0, 0), "pad_hi": (0, 0), "stride": (1, 1)}
    return ConvProblem(
        name="c", batch=1, in_channels=32, out_channels=8, dilation=(1, 1), operand=operand, out="f32", bias=True,
        transposed=transposed, groups=groups, **shape
    )  # fmt: skip


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize(
    ("operand", "scale", "good"),
    [
        ("f16", 0.5, True),
        ("f16", 1e-2, True),
        ("f16", 1e-5, False),
        ("f16", 1e7, False),
        ("bf16", 1e-5, True),
        ("e4m3", 1.2, True),
        ("e4m3", 0.01, False),
        ("e5m2", 1e-5, False),
        ("tf32", 1e-30, True),
        ("tf32", 1e-37, False),
        ("bf16x3", 1e-30, True),
        ("bf16x3", 1e-36, False),
        ("mxfp4", 1e-5, True),
        ("f16", np.nan, False),
        ("f16", np.inf, False),
    ],
)
def test_a_scale_that_a_type_holds(operand, scale, good, transposed, groups):
    problem = of(operand, transposed, groups)
    weight = RANDOM.standard_normal(problem.w_shape) * 0.05
    scales = np.ones(8)
    assert may_scale(problem, weight, scales, np.zeros(8))
    scales[5] = scale  # of one channel alone
    assert may_scale(problem, weight, scales, np.zeros(8)) == good
    assert not may_scale(problem, weight, np.ones(8), np.full(8, 1e39))
    changed = np.nonzero(scaled_weights(problem, np.ones_like(weight), np.arange(8.0)) == 5)
    place = changed[1] + 8 // groups * (changed[0] // (32 // groups)) if transposed else changed[0]
    assert set(place) == {5}


def plainly(problem: ConvProblem, weight: np.ndarray, scale: np.ndarray) -> bool:
    """May weights be scaled, with the error of every one of them worked out."""
    unit = problem.operand_dtype.unit_roundoff

    def lost(array: np.ndarray) -> np.ndarray:
        beyond = np.abs(fusion._multiplied(problem, array) - array) - unit * np.abs(array)
        return np.maximum(0.0, beyond).reshape(8, -1).sum(axis=1)

    folded = scaled_weights(problem, weight, scale)
    if not np.isfinite(fusion._multiplied(problem, folded)).all():
        return False
    terms = problem.gemm_k
    rounding = (terms * 2.0 ** (fusion.FLOAT32.bits - fusion.FLOAT32.fraction) + terms + 2) * 2.0**-fusion.FLOAT32.bits
    size = np.abs(folded).reshape(8, -1).sum(axis=1)
    return bool((lost(folded) <= fusion.MORE * np.abs(scale) * lost(weight) + rounding * size).all())


@pytest.mark.parametrize("operand", ["f16", "bf16", "tf32", "e4m3", "e5m2", "bf16x3", "bf16x6", "tf32x3"])
def test_only_numbers_beyond_the_normal_ones_are_looked_at(operand):
    """The answer is that of all numbers, of weights and scales of any size."""
    problem = of(operand)
    rng = np.random.default_rng(5)
    answers = set()
    for _ in range(150):
        low = np.log2(problem.operand_dtype.min_subnormal)
        size = 2.0 ** rng.uniform(low - 2, min(20, np.log2(problem.operand_dtype.max_finite)))
        weight = rng.standard_normal(problem.w_shape) * size
        weight[rng.random(weight.shape) < 0.1] = 0
        scale = 2.0 ** rng.uniform(-8, 3, 8)
        with np.errstate(all="ignore"):
            answer = plainly(problem, weight, scale)
        assert may_scale(problem, weight, scale, np.zeros(8)) == answer
        answers.add(answer)
    assert answers == {False, True}


@pytest.mark.parametrize(
    ("factors", "multiplied"), [((0.5, 0.25), False), ((1e-6, 2.0), True), ((0.5, 1e-7), True), ((1e-6, 6e4), False)]
)
def test_what_is_not_folded_is_a_scale_of_the_epilogue(factors, multiplied):
    """The result is that of the unfused network; the activation behind is taken in."""
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float16[1, 16, 6, 6] x) => (float16[1, 8, 4, 4] y) <float16[8, 16, 3, 3] w, float16[8, 1, 1] s, float16[1] t> {
        c = Conv (x, w)
        d = Mul (c, s)
        e = Mul (t, d)
        y = Relu (e)
    }"""
    model = onnx.parser.parse_model(text)
    arrays = {"w": RANDOM.standard_normal((8, 16, 3, 3)) * 0.05, "s": np.full((8, 1, 1), factors[0]), "t": [factors[1]]}
    for name, array in arrays.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array, np.float16), name))
    x = (RANDOM.standard_normal((1, 16, 6, 6)) * 100).astype(np.float16)
    results = []
    for fuse in (True, False):
        graph = Graph(model, convolutions=Convolutions(), fuse=fuse)
        results.append(graph.run({"x": x})["y"].astype(np.float64))
        taken = graph.stats.fused.get("c", ())
    np.testing.assert_allclose(*results, rtol=0.01, atol=1e-3 * np.abs(results[1]).max())
    [conv] = convc.load(model).convs
    assert (conv.fused, conv.problem.multiplier, taken) == (("d", "e", "y"), multiplied, ())
    if multiplied:
        np.testing.assert_allclose(conv.multiplier, np.prod(np.float16(factors).astype(np.float64)), rtol=1e-6)
        assert np.array_equal(conv.weight, arrays["w"].astype(np.float16))


def test_a_scale_that_float32_does_not_hold_stays_a_node():
    problem = of()
    scale = np.full(8, 1e-20)
    for value in (0.0, -1e-30, 1e30):
        scale[3] = value
        assert may_multiply(problem, scale, np.zeros(8))
    assert not may_multiply(problem, scale, np.full(8, 1e39))
    for value in (1e-40, 1e39, np.inf, np.nan):
        scale[3] = value
        assert not may_multiply(problem, scale, np.zeros(8))
    assert not may_multiply(of("mxfp8"), np.ones(8), np.zeros(8))


def test_a_layer_with_a_scale_is_verified_as_a_whole_and_by_a_sample():
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float16[1, 16, 6, 6] x) => (float16[1, 8, 4, 4] y) <float16[8, 16, 3, 3] w, float16[8, 1, 1] s> {
        c = Conv (x, w)
        d = Mul (c, s)
        y = Relu (d)
    }"""
    model = onnx.parser.parse_model(text)
    arrays = {"w": RANDOM.standard_normal((8, 16, 3, 3)) * 0.05, "s": np.linspace(1e-5, -2e-5, 8).reshape(8, 1, 1)}
    for name, array in arrays.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array, np.float16), name))
    [conv] = convc.load(model).convs
    assert conv.problem.multiplier
    kernel = kernel_of(compile_problem(conv.problem))
    assert check_layer(conv, kernel).ok
    assert check_layer(conv, kernel, sample=2).ok


def test_a_variance_of_zero_is_quiet():
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[1, 4, 6, 6] x) => (float[1, 2, 4, 4] y)
    <float[2, 4, 3, 3] w, float[2] g, float[2] b, float[2] m, float[2] v> {
        c = Conv (x, w)
        y = BatchNormalization <epsilon = 0.0> (c, g, b, m, v)
    }"""
    model = onnx.parser.parse_model(text)
    arrays = {"w": np.ones((2, 4, 3, 3)), "g": [1, 1], "b": [0, 1], "m": [0, 0], "v": [0, 1]}
    for name, array in arrays.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array, np.float32), name))
    [conv] = convc.load(model).convs  # warnings are errors in tests
    assert conv.fused == ()
