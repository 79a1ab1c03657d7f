"""Outputs of Sigmoid and the like are rounded as numbers near 1 are, however small they come out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx import helper

from convc.verification.rms_error import STEP, allowed_of, allowed_rms_error, bounded_outputs, rms_error


def node(kind: str, inputs: str, outputs: str, **attributes: object):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def test_what_moves_results_of_a_bounded_function_keeps_them_bounded():
    nodes = [
        node("Sigmoid", "x", "s"),
        node("Reshape", "s shape", "r"),
        node("Split", "r", "a b"),
        node("Softmax", "y", "t"),
        node("Concat", "a t", "c", axis=0),
        node("Concat", "a x", "mixed", axis=0),
        node("Mul", "s x", "scaled"),
        node("Transpose", "x", "other"),
    ]
    assert bounded_outputs(nodes) == {"s", "r", "a", "b", "t", "c"}


@pytest.mark.parametrize("expected", [np.full(9, 4e-7), np.zeros(9)])
def test_small_results_may_be_off_by_what_float32_is_at_1(expected):
    allowed = allowed_of("s", [], frozenset({"s"}))
    inside = rms_error(expected + 0.99 * STEP, expected, allowed.least)
    outside = rms_error(expected + 1.01 * STEP, expected, allowed.least)
    assert inside <= allowed.rms_error < outside


def test_large_results_are_judged_as_any_others():
    expected = np.linspace(0.1, 1, 9)
    allowed = allowed_of("s", [], frozenset({"s"}))
    got = expected * (1 + 1e-3)
    assert rms_error(got, expected, allowed.least) == pytest.approx(rms_error(got, expected), rel=1e-12)
    assert allowed_of("other", [], frozenset({"s"})).least == 0.0


def test_a_network_without_convolutions_rounds_too():
    assert 2.0**-24 < allowed_rms_error(0, 0.0) < 1e-6
    assert math.isinf(rms_error(np.ones(3), np.zeros(3)))
