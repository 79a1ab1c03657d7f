"""What a model is given to run on: element types, text included, and inputs of a convolution that are left out."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from convc.errors import InputError, NodeError
from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.feeds import check_feeds
from convc.runtime.network.io import read_named

WORDS = ["one", "two"]


def fed(element: int, value: object) -> np.ndarray:
    return check_feeds([helper.make_tensor_value_info("x", element, [2])], (), {"x": value})["x"]


@pytest.mark.parametrize("kind", [object, "U", "S"])
def test_text_may_be_held_in_any_way(kind):
    assert fed(TensorProto.STRING, np.array(WORDS, kind)).astype("U").tolist() == WORDS


@pytest.mark.parametrize(
    ("element", "value", "message"),
    [
        (TensorProto.STRING, np.zeros(2, np.float32), "got float32"),
        (TensorProto.FLOAT, np.array(WORDS), "expected an array of float32, got str"),
        (TensorProto.FLOAT, np.array(WORDS, object), "expected an array of float32, got object"),
        (TensorProto.FLOAT, np.zeros(2, np.int32), "expected an array of float32, got int32"),
    ],
)
def test_text_takes_no_place_of_numbers_nor_they_of_it(element, value, message):
    with pytest.raises(InputError, match=message):
        fed(element, value)


def test_a_shape_is_told_with_its_open_extents():
    """Fixed, named, and without a name."""
    declared = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, "rows", None])
    with pytest.raises(InputError, match=r"expected an array of shape \[2, rows, \?\], got \[3, 4, 5\]"):
        check_feeds([declared], (), {"x": np.zeros((3, 4, 5), np.float32)})


def convolution(*names: str, **attributes: object):
    return helper.make_node("Conv", list(names), ["y"], name="c", **attributes)


X = np.ones((1, 4, 5, 5), np.float32)
W = np.ones((8, 4, 3, 3), np.float32)


def test_a_bias_that_is_left_out_is_none():
    conv, layer = Convolutions().prepare(convolution("x", "w", ""), "c", (X, W, None))
    assert conv.bias is None
    assert not layer.bias.any()


@pytest.mark.parametrize("arrays", [([X], W), (X, W, [np.zeros(8, np.float32)])])
def test_a_sequence_is_no_input_of_a_convolution(arrays):
    with pytest.raises(NodeError, match="the inputs of a convolution must be tensors"):
        Convolutions().prepare(convolution("x", "w", "b"), "c", arrays)


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"": {"input_x": 1}}, "there is no input named 'input_x'", "did you mean 'input'? inputs: 'x', 'input'"),
        ({"x": {"x": 1}}, "a file of named arrays is given for the input 'x'", "leave x= out"),
        ({"": {"x": 1}, "x": None}, "the input 'x' is given twice", ""),
    ],
)
def test_files_of_named_arrays(tmp_path, given, message, hint):
    def source(at: int, arrays: dict[str, int] | None) -> np.ndarray | str:
        if arrays is None:
            return np.zeros(1)
        np.savez(tmp_path / f"{at}.npz", **{each: np.full(2, value) for each, value in arrays.items()})
        return str(tmp_path / f"{at}.npz")

    with pytest.raises(InputError) as refused:
        read_named({key: source(at, each) for at, (key, each) in enumerate(given.items())}, ["x", "input"], "input")
    assert (refused.value.message, refused.value.hint) == (message, hint)
