"""The verb `gradients`: dx, dw and db of one convolution, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convc
from convc import ConvcError, ReadOptions
from convc.ir.gradients import dgrad_node
from convc.ir.problem import ConvProblem
from convc.verification.reference import conv_sums

MODEL = Path(__file__).parents[3] / "models" / "tiny_two_convs.onnx"
FORWARD = ConvProblem(
    name="alone", batch=2, in_channels=4, out_channels=6, in_extent=(7, 6), kernel=(3, 2), stride=(2, 1), pad_lo=(1, 0),
    out="f32",
)  # fmt: skip


def drawn(problem, seed=0):
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-2, 3, shape).astype(np.float32) for shape in (problem.x_shape, problem.y_shape, problem.w_shape)
    ]


def check(problem, made, x, dy, w):
    """y is linear in x and in w: <y, dy> is <x, dx> and <w, dw>, exact on whole numbers."""
    sums = (conv_sums(problem, x, w) * dy).sum()
    assert sums == (made.dx.astype(np.float64) * x).sum() == (made.dw.astype(np.float64) * w).sum()
    assert np.array_equal(made.db, dy.sum(axis=(0, 2, 3)))
    assert (made.dx.shape, made.dw.shape) == (x.shape, w.shape)


@pytest.mark.parametrize("transposed", [False, True])
def test_numbers_of_a_convolution_are_enough(transposed, tmp_path):
    problem = ConvProblem(
        name="alone", batch=2, in_channels=4, out_channels=6, in_extent=(7, 6), kernel=(3, 2), stride=(2, 1),
        pad_lo=(1, 0), out="f32", transposed=transposed,
    )  # fmt: skip
    x, dy, w = drawn(problem)
    np.save(tmp_path / "x.npy", x)
    check(problem, convc.gradients(problem, tmp_path / "x.npy", dy, w=w), x, dy, w)


def test_a_layer_of_a_model_is_differentiated_without_what_is_fused_into_it():
    forward = next(conv for conv in convc.load(MODEL, fuse=False).convs if conv.name == "stem")
    x, dy, w = drawn(forward.problem)
    made = convc.gradients(MODEL, x, dy, "stem", w=w)
    assert {made.dx.dtype, made.dw.dtype, made.db.dtype} == {np.dtype(forward.problem.out_dtype.storage)}
    own = convc.gradients(MODEL, x, dy, "stem")
    assert np.array_equal(own.dw, made.dw)
    assert not np.array_equal(own.dx, made.dx)


X, DY, W = drawn(FORWARD)


@pytest.mark.parametrize("name", ["dx", "dw", "db"])
def test_what_is_given_is_added_to(name, tmp_path):
    plain = convc.gradients(FORWARD, X, DY, w=W)
    old = np.random.default_rng(1).integers(-9, 10, getattr(plain, name).shape).astype(np.float32)
    np.save(tmp_path / "old.npy", old)
    made = convc.gradients(FORWARD, X, DY, w=W, **{name: tmp_path / "old.npy"})
    for each in ("dx", "dw", "db"):
        expected = getattr(plain, each) + (old if each == name else 0)
        assert np.array_equal(getattr(made, each), expected), each


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        ((FORWARD, X, DY), {}, r"the filters are missing: give w of shape \[6, 4, 3, 2\]"),
        ((FORWARD, X, DY[1:]), {"w": W}, r"expected dy of shape \[2, 6, 3, 5\], got \[1, 6, 3, 5\]"),
        ((FORWARD, X.astype(int), DY), {"w": W}, "expected x of float16"),
        ((FORWARD, X, DY), {"w": W, "dw": W[:1]}, r"expected dw of shape \[6, 4, 3, 2\], got \[1, 4, 3, 2\]"),
        ((FORWARD, X, DY), {"w": W, "db": [0.0]}, "db must be an array or the name"),
        ((FORWARD, X, DY, "stem"), {"w": W}, "layer and read are of a model"),
        ((MODEL, X, DY), {}, "name it with layer, one of stem, head"),
        ((MODEL, X, DY, "head"), {"read": ReadOptions(gradient="both")}, "takes a model forward"),
        ((convc.load(MODEL), X, DY, "stem"), {}, "relu is fused into it"),
        ((MODEL, [1.0], DY), {}, "x must be an array or the name"),
    ],
)
def test_what_is_wrong_with_a_call_is_said(arguments, options, says):
    with pytest.raises(ConvcError, match=says):
        convc.gradients(*arguments, **options)


def test_a_network_of_gradients_is_refused():
    network = convc.load(MODEL, gradient="input")
    assert network.convs[0].name == dgrad_node(convc.load(MODEL, fuse=False).convs[0]).name
    with pytest.raises(ConvcError, match="it is a gradient already"):
        convc.gradients(network, X, DY, network.convs[0].name)
