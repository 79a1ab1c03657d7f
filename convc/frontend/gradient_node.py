"""One gradient of a convolution, a node of `convc.frontend.expand_gradients`, to a `ConvNode`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from onnx import NodeProto

from convc.frontend.conv_node import Refuse, conv_attributes, conv_problem
from convc.ir.gradients import INPUT, Of, dgrad_node, wgrad_node
from convc.ir.network import ConvNode, TensorRef
from convc.ir.problem import shape_text


def gradient_conv(
    node: NodeProto,
    name: str,
    of: Of,
    shapes: Mapping[str, tuple[int, ...]],
    types: tuple[str, str],
    weight: np.ndarray | None,
    refuse: Refuse,
) -> ConvNode:
    """The convolution that makes a gradient.

    Args:
        node: dY, W, X of a gradient by the input, X, dY, W of one by the weights.
        name: of the layer.
        of: which of the two.
        shapes: of dY, X and W, by these names.
        types: that are multiplied, and that the result has.
        weight: float32, rounded already, where the gradient is by the input.
        refuse: makes the error.

    Raises:
        NodeError: shapes and attributes contradict one another.
        ProblemError: there is no such gradient.
    """
    x_shape, w_shape, dy_shape = (shapes[each] for each in ("X", "W", "dY"))
    forward = conv_problem(
        conv_attributes(node, refuse),
        name=name,
        x_shape=x_shape,
        w_shape=w_shape,
        operand=types[0],
        out=types[1],
        bias=False,
        refuse=refuse,
    )
    if forward.y_shape != dy_shape:
        raise refuse(
            f"dY has shape {shape_text(dy_shape)}, and the convolution of X, {shape_text(x_shape)}, with W, "
            f"{shape_text(w_shape)}, makes {shape_text(forward.y_shape)}",
            hint="its strides, pads and dilations must be those of the Conv that it is the gradient of",
        )
    places = {"dY": 0, "X": 2} if of == INPUT else {"dY": 1, "X": 0}
    dy, x = (TensorRef(name=node.input[at], dtype=forward.out, shape=shapes[each]) for each, at in places.items())
    conv = ConvNode(name=name, problem=forward, input=x, weight=weight, bias=None, output=dy)
    made = dgrad_node(conv) if of == INPUT else wgrad_node(conv)
    return replace(
        made,
        name=name,
        problem=replace(made.problem, name=name),
        input=dy if of == INPUT else x,
        filter=None if of == INPUT else dy,
        output=replace(made.output, name=node.output[0]),
    )
