"""All operators over the corners of their attributes, on the host: the same as onnxruntime, or refused.

Each case runs twice: with onnxruntime, where every result must pass what shape inference knows; and as if onnxruntime
were not installed, where `onnx.reference` must give the same, or the node is refused with the extra to install.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import onnx
import pytest
from conformance.host_cases import HostCase, drawn, in_each_opset
from conformance.host_cases_elements import elements_cases
from conformance.host_cases_images import images_cases
from conformance.host_cases_recurrent import recurrent_cases
from conformance.host_cases_tensors import tensors_cases
from conformance.host_cases_windows import windows_cases
from conformance.host_draws import drawn_cases

from convc.errors import NodeError
from convc.frontend.host_limits import onnxruntime_wrong
from convc.runtime.network.host import HostNode, HostNodes
from convc.runtime.network.ort_session import open_session, run_session

NEWEST = onnx.defs.onnx_opset_version()
PARTS = (elements_cases, images_cases, recurrent_cases, tensors_cases, windows_cases)
CASES = list(in_each_opset([each for part in PARTS for each in part()], NEWEST))
OPERATORS = sorted({each.op for each in CASES})
EVERY = 48
"""One in so many cases is run by default."""

OTHER = {
    "Dropout-10-mask": "operator set 10 does not say what the mask is where nothing is dropped",
}
"""Cases of which both answers are right."""

HALF = 2


@contextmanager
def alone() -> Iterator[None]:
    """No onnxruntime."""
    with mock.patch("convc.runtime.network.ort_session.available", return_value=None):
        yield


def host_node(each: HostCase) -> HostNode:
    """A case on the host."""
    types = {value.name: value.type for value in each.model.graph.input}
    return HostNodes(each.model, types).build(each.node, each.name)


def outcome(each: HostCase, said: list[str] | None = None) -> list[np.ndarray] | NodeError:
    """What the host makes of a case; ``said`` collects who it was and why, where that was not who is asked first."""
    node = host_node(each)
    try:
        made = node.run(each.feeds)
        if said is not None and node.said:
            said.append(node.said)
        return made
    except NodeError as error:
        return error


def unlike(got: list[np.ndarray], expected: list[np.ndarray]) -> str:
    """How results differ; "" where they do not."""
    for one, other in zip(got, expected, strict=True):
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return f"{one.dtype} {one.shape} for {other.dtype} {other.shape}"
        tolerance = 2e-2 if one.dtype.itemsize == HALF else 1e-3
        same = one == other
        if one.dtype.kind in "fc":
            same = np.isclose(one, other, rtol=tolerance, atol=tolerance / 10, equal_nan=True)
        if not np.all(same):
            return f"{np.mean(~same):.0%} of the elements differ"
    return ""


def problems(cases: Iterable[HostCase]) -> list[str]:
    """What is wrong with each case."""
    return [f"{each.name} {dict(each.attributes)}: {found}" for each in cases if (found := problem(each))]


def problem(each: HostCase) -> str:
    """What is wrong with a case; "" where nothing is."""
    session = open_session(each.model)
    answer = session if isinstance(session, str) else run_session(session, each.feeds)
    said: list[str] = []
    both = outcome(each, said)
    with alone():
        found = outcome(each)
    if isinstance(found, NodeError) and "convc[onnxruntime]" not in found.hint:
        return f"refused without a way out: {found.message} ({found.hint})"
    if onnxruntime_wrong(each.node, each.opset, each.inputs):  # the reference may have it right
        return "" if isinstance(both, NodeError) == isinstance(found, NodeError) else "only one of both is refused"
    if isinstance(answer, str) or each.name in OTHER:
        return ""
    expected = [answer[name] for name in each.node.output]
    if isinstance(both, NodeError):
        return f"refused: {both.message}"
    if said:
        return f"onnxruntime was not used: {said[0]}"
    return unlike(both, expected) or ("" if isinstance(found, NodeError) else unlike(found, expected))


def test_there_are_cases_of_most_operators():
    assert len(CASES) > 4000
    assert len(OPERATORS) > 150
    assert len({each.name for each in CASES}) == len(CASES)


def test_some_corners():
    assert problems(each for each in CASES if drawn(each.name, EVERY)) == []


def test_some_draws():
    assert problems(drawn_cases(7, 20, NEWEST)) == []


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS)
def test_every_corner(op):
    assert problems(each for each in CASES if each.op == op) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_draws(seed):
    assert problems(drawn_cases(seed, 100, NEWEST)) == []


WRONG = (
    "LRN-13-defaults", "GlobalMaxPool-7-1d", "LSTM-14-forward lengths", "LogSoftmax-13-large", "Upsample-7-nearest",
    "Pad-13-constant crop", "ReduceSumSquare-18-whole", "GlobalMaxPool-7-3d", "MaxPool-12-2d ceil s1p1",
    "AveragePool-11-2d ceil s3", "MaxPool-12-2d same lower", "LpNormalization-7-axis 0 p 1", "LSTM-14-forward clip",
    "MaxPool-12-1d s1p1", "Upsample-9-linear odd", "GRU-14-forward activations",
)  # fmt: skip
"""Cases that onnx.reference gets wrong: of the first one operator each, the others as slow tests."""


@pytest.mark.parametrize("name", [*WRONG[:7], *(pytest.param(name, marks=pytest.mark.slow) for name in WRONG[7:])])
def test_what_the_reference_has_wrong_is_refused_without_onnxruntime(name):
    (each,) = (each for each in CASES if each.name == name)
    with alone():
        found = outcome(each)
    assert isinstance(found, NodeError)
    assert "pip install 'convc[onnxruntime]'" in found.hint
    assert problem(each) == ""
