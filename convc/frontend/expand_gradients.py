"""``ConvGrad`` of training graphs, written out: a node for each of the gradients that it makes.

onnxruntime's node takes dY, X and W of a `Conv` and makes dX, dW and dB, each of which may be left out. dX and dW are
convolutions (`convc.ir.gradients`) and become nodes of the same operator with one output, whose domain says which; dB
is the sum of dY over images and pixels, which the host adds up. Attributes are those of the `Conv`.

    dX    inputs dY, W, X      X for its extents
    dW    inputs X, dY, W      W for its extents
    dB    input  dY

So what is right for any convolution is for these: their first input has the pixels, their last the result's extents.
Source: onnxruntime, ``orttraining/orttraining/core/graph/training_op_defs.cc``: ConvGrad, ReluGrad.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import NodeProto

from convc.errors import NodeError
from convc.ir.gradients import INPUT, SUFFIX, WEIGHTS, Of

NAME = "ConvGrad"
TRAINING = "com.microsoft"
DOMAINS: dict[Of, str] = {INPUT: "convc.gradient.input", WEIGHTS: "convc.gradient.weights"}
"""Of nodes that make one gradient."""
BIAS_NAME = "ConvBiasGrad"
BIAS_DOMAIN = "convc.gradient.bias"

RELU_GRAD = ("ReluGrad", TRAINING)
"""The operator that masks a gradient, which a kernel takes in (`convc.frontend.fusion`), and its domain."""

_READS: dict[Of, tuple[int, int, int]] = {INPUT: (0, 2, 1), WEIGHTS: (1, 0, 2)}
"""Which inputs of a ConvGrad the node of one gradient has, in its order."""


def gradient_of(node: NodeProto) -> Of | None:
    """Say what a node of this module makes the gradient by; None for any other node."""
    if node.op_type != NAME:
        return None
    return next((of for of, domain in DOMAINS.items() if domain == node.domain), None)


def expand_gradients(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with each `ConvGrad` of its graph written out; the same object where there is none.

    Raises:
        NodeError: one has other inputs than dY, X and W, or more than three outputs.
    """
    if not any(map(_is_training, model.graph.node)):
        return model
    nodes = [made for node in model.graph.node for made in (_single(node) if _is_training(node) else (node,))]
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.node[:]
    whole.graph.node.extend(nodes)
    known = {entry.domain for entry in whole.opset_import}
    wanted = {*DOMAINS.values(), BIAS_DOMAIN} - known
    whole.opset_import.extend(onnx.helper.make_opsetid(domain, 1) for domain in sorted(wanted))
    return whole


def _is_training(node: NodeProto) -> bool:
    return node.op_type == NAME and node.domain == TRAINING


def _single(node: NodeProto) -> Iterator[NodeProto]:
    """A node for each output that has a name."""
    name = node.name or next(filter(None, node.output), NAME)
    given = list(node.input)
    if len(given) != 3 or not all(given) or len(node.output) > 3:
        raise NodeError(
            f"a {NAME} has the inputs dY, X and W, and up to three outputs, dX, dW and dB; got {len(given)} inputs "
            f"({', '.join(each or '-' for each in given)}) and {len(node.output)} outputs",
            where=f"node {name!r} ({NAME})",
        )
    outputs = (*node.output, "", "", "")
    for of, made in zip(SUFFIX, outputs, strict=False):
        if made:
            inputs = [given[place] for place in _READS[of]]
            one = onnx.helper.make_node(NAME, inputs, [made], f"{name}_{SUFFIX[of]}", domain=DOMAINS[of])
            one.attribute.extend(node.attribute)
            yield one
    if outputs[2]:
        yield onnx.helper.make_node(BIAS_NAME, given[:1], outputs[2:3], f"{name}_bgrad", domain=BIAS_DOMAIN)
