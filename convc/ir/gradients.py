"""Gradients of a convolution as convolutions, so that all that compiles and checks these does so with gradients too.

With y = conv(x, w) and dy the gradient of a loss by y, the definition (`convc.ir.problem`) has in each product one
element of x, one of w and adds it to one of y. Its gradient by x adds dy * w to that element of x, its gradient by w
adds dy * x to that element of w: the same products over the same index map, read in another direction.

dgrad       dx[n, c, h] = sum over k and the (p, r) with p*u + r*d - pad = h of dy[n, k, p] * w[k, c, r]: the transposed
            convolution of dy with the filters as they are.
wgrad       dw[k, c, r] = sum over n, p of dy[n, k, p] * x[n, c, p*u + r*d - pad]. The map is symmetric in (p, u) and
            (r, d): this is the convolution of x, its images taken for channels and its channels for images, with
            filters dy, whose taps are output pixels. Stride and dilation change places.

`convc derive dgrad` and `convc derive wgrad` print why. The operands of wgrad are both known at the launch only: the
kernel's filters are an input (`ConvNode.filter`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from convc.errors import InputError, ProblemError
from convc.ir import dtypes
from convc.ir.epilogue import AddResidual
from convc.ir.network import ConvNode, Gradient, Network, SkippedNode, TensorRef
from convc.ir.problem import AXIS_NAMES, ConvProblem

Of = Literal["input", "weights"]
INPUT: Of = "input"
WEIGHTS: Of = "weights"
BOTH = "both"

SUFFIX: dict[Of, str] = {INPUT: "dgrad", WEIGHTS: "wgrad"}
"""What the name of a layer gets behind it."""


def input_gradient(forward: ConvProblem) -> ConvProblem:
    """The convolution that takes dy (N, K, P, Q) and the forward filters (K, C/G, R, S) to dx (N, C, H, W).

    Of a transposed convolution it is an ordinary one, of an ordinary one a transposed one; the gradient of pixels that
    no window reaches is 0.

    Raises:
        ProblemError: there is none: of whole numbers, or it is no convolution.
    """
    _check_floating(forward)
    back = not forward.transposed
    axes = zip(forward.out_extent, forward.stride, forward.span, forward.pad_lo, forward.pad_hi, strict=True)
    reached = [(p - 1) * u + span - lo - hi for p, u, span, lo, hi in axes]
    made = replace(
        forward,
        in_channels=forward.out_channels,
        out_channels=forward.in_channels,
        in_extent=forward.out_extent,
        transposed=back,
        output_padding=tuple(e - at for e, at in zip(forward.in_extent, reached, strict=True)) if back else (),
        bias=False,
        multiplier=False,
        epilogue=(),
    )
    if made.out_extent != forward.in_extent:
        why = f"its output_padding, {forward.output_padding}, is not below the stride, {forward.stride}"
        raise ProblemError(f"there is no gradient of the input by one convolution: {why}", where=forward.name)
    return made


def weight_gradient(forward: ConvProblem) -> ConvProblem:
    """The convolution that makes dw, with arrays as `wgrad_operands` turns them round.

    Raises:
        ProblemError: there is none: of whole numbers, or all that its windows read is padding.
    """
    _check_floating(forward)
    if forward.operand in dtypes.SCALED_OPERANDS:
        why = "filters share scale factors, which are made before the launch"
        raise ProblemError(f"there is no gradient of weights in {forward.operand}: {why}", where=forward.name)
    if forward.transposed:
        return weight_gradient(input_gradient(forward))
    axes = zip(forward.out_extent, forward.stride, forward.span, forward.pad_lo, strict=True)
    reach = [(p - 1) * u + span - lo for p, u, span, lo in axes]
    if min(reach) < 1:
        axis = AXIS_NAMES[forward.rank][reach.index(min(reach))]
        why = f"along {axis} windows read padding alone"
        raise ProblemError(f"there is no gradient of the weights: {why}", where=forward.name)
    read = tuple(min(extent, ends) for extent, ends in zip(forward.in_extent, reach, strict=True))
    return replace(
        forward,
        batch=forward.group_channels,
        in_channels=forward.groups * forward.batch,
        in_extent=read,
        kernel=forward.out_extent,
        stride=forward.dilation,
        dilation=forward.stride,
        pad_hi=tuple(ends - extent for ends, extent in zip(reach, read, strict=True)),
        bias=False,
        multiplier=False,
        epilogue=(),
        late_filter=True,
    )


def _check_floating(forward: ConvProblem) -> None:
    if forward.operand_dtype.integer:
        why = "its numbers are whole"
        raise ProblemError(f"a convolution of {forward.operand} has no gradient: {why}", where=forward.name)


def wgrad_operands(gradient: Gradient, x: np.ndarray, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Activations and filters of the convolution that makes dw.

    Args:
        x: the forward input, (N, C, H, W).
        dy: the gradient of its output, (N, K, P, Q).

    Raises:
        InputError: they have other shapes.
    """
    forward = gradient.forward
    for name, array, shape in (("x", x, forward.x_shape), ("dy", dy, forward.y_shape)):
        if array.shape != shape:
            raise InputError(
                f"expected {name} of shape {list(shape)}, got {list(array.shape)}", where=f"layer {forward.name!r}"
            )
    if forward.transposed:  # its output's gradient is what is convolved, its input the filter
        x, dy, forward = dy, x, input_gradient(forward)
    extent = weight_gradient(forward).in_extent
    grouped = x.reshape(forward.batch, forward.groups, forward.group_channels, *forward.in_extent)
    images = np.moveaxis(grouped, 2, 0).swapaxes(1, 2)  # (C/G, G, N, ...): the images of a group are its channels
    images = images.reshape(forward.group_channels, -1, *forward.in_extent)
    return images[(..., *map(slice, extent))], dy.swapaxes(0, 1)


def wgrad_result(y: np.ndarray) -> np.ndarray:
    """The gradient of the weights, (K, C/G, R, S), from what the convolution makes, (C/G, K, R, S)."""
    return np.ascontiguousarray(y.swapaxes(0, 1))


def dgrad_node(conv: ConvNode) -> ConvNode:
    """The layer that makes the gradient of a convolution's input, with its filters."""
    forward = conv.problem
    dy = _gradient_of(conv.output, forward.y_shape)
    dx = _gradient_of(conv.input, forward.x_shape)
    return _node(conv, INPUT, input_gradient(forward), input=dy, output=dx)


def wgrad_node(conv: ConvNode) -> ConvNode:
    """The layer that makes the gradient of a convolution's filters, which has none of its own."""
    forward = conv.problem
    dy = _gradient_of(conv.output, forward.y_shape)
    dw = TensorRef(name=_name(conv, WEIGHTS), dtype=forward.out, shape=forward.w_shape)
    return _node(conv, WEIGHTS, weight_gradient(forward), weight=None, filter=dy, output=dw)


def _node(conv: ConvNode, of: Of, problem: ConvProblem, **tensors: Any) -> ConvNode:
    name = _name(conv, of)
    gradient = Gradient(of=of, forward=conv.problem)
    return replace(conv, name=name, problem=replace(problem, name=name), bias=None, gradient=gradient, **tensors)


def _name(conv: ConvNode, of: Of) -> str:
    return f"{conv.name}_{SUFFIX[of]}"


def _gradient_of(tensor: TensorRef, shape: tuple[int, ...]) -> TensorRef:
    return replace(tensor, name=f"{tensor.name}_grad", shape=shape)


def accumulated(conv: ConvNode) -> ConvNode:
    """A gradient that is added to the one that there is, in the kernel's epilogue, before it is rounded (beta = 1)."""
    problem = replace(conv.problem, epilogue=(AddResidual(in_place=True),))
    return replace(conv, problem=problem, residual=replace(conv.output, name=f"{conv.output.name}_old"))


def _check_forward(conv: ConvNode) -> None:
    if conv.gradient is not None:
        raise ProblemError(
            "it is a gradient: its own are not made", where=conv.name, hint="leave gradient (--gradient) out"
        )


_MAKES: dict[Of, Callable[[ConvNode], ConvNode]] = {INPUT: dgrad_node, WEIGHTS: wgrad_node}


def gradient_network(network: Network, by: str | None, *, accumulate: bool = False) -> Network:
    """The network whose convolutions are the gradients of another's.

    Args:
        network: convolutions without epilogue.
        by: ``input``, ``weights`` or ``both``, in which case one follows the other; None: the network itself.
        accumulate: whether each is added to a gradient that there is (`accumulated`).

    Raises:
        ProblemError: none of its convolutions has such a gradient; some that have none are left out, with the reason.
    """
    if by is None:
        return network
    convs: list[ConvNode] = []
    refused: list[ProblemError] = []
    skipped = list(network.skipped)
    for conv in network.convs:
        for of in SUFFIX:
            if by not in (of, BOTH):
                continue
            try:
                _check_forward(conv)
                made = _MAKES[of](conv)
                convs.append(accumulated(made) if accumulate else made)
            except ProblemError as error:
                refused.append(error)
                operator = "ConvTranspose" if conv.problem.transposed else "Conv"
                skipped.append(SkippedNode(name=_name(conv, of), op_type=operator, reason=error.message))
    if refused and not convs:
        raise refused[0]
    return replace(network, convs=tuple(convs), skipped=tuple(skipped))
