"""Which options of reading a model has a use for, beside nodes that are no convolutions."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from convc.errors import InputError
from convc.frontend.asked import check_types


def model(kind: str, element: int, weight: type) -> onnx.ModelProto:
    """A convolution of x by the value of a `Constant` node, which has no input, beside a node of floats."""
    w = numpy_helper.from_array(np.ones((8, 4, 3, 3), weight), "value")
    nodes = [
        helper.make_node("Constant", [], ["w"], value=w),
        helper.make_node(kind, ["x", "w"], ["y"]),
        helper.make_node("Relu", ["other"], ["z"]),
    ]
    given = [
        helper.make_tensor_value_info("x", element, [1, 4, 5, 5]),
        helper.make_tensor_value_info("other", TensorProto.FLOAT, [3]),
    ]
    made = [helper.make_empty_tensor_value_info(name) for name in "yz"]
    return helper.make_model(
        helper.make_graph(nodes, "g", given, made), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )


@pytest.mark.parametrize(("dtype", "precision"), [("f16", None), ("bf16", None), (None, "3xtf32")])
def test_a_type_is_asked_of_the_convolutions_alone(dtype, precision):
    check_types(model("Conv", TensorProto.FLOAT, np.float32), dtype, precision)
    with pytest.raises(InputError, match="the convolutions are u8"):
        check_types(model("ConvInteger", TensorProto.UINT8, np.uint8), dtype, precision)
