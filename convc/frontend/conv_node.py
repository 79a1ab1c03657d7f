"""One ONNX `Conv` node to a `ConvProblem`; the attributes of all convolutions.

Source: ONNX operators, ``Conv``; its versions 1, 11 and 22 differ in wording and element types only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx import AttributeProto, NodeProto

from convc.errors import NodeError
from convc.ir.problem import AXIS_NAMES, ConvProblem

_ATTRIBUTES = {
    "auto_pad": AttributeProto.STRING,
    "dilations": AttributeProto.INTS,
    "group": AttributeProto.INT,
    "kernel_shape": AttributeProto.INTS,
    "pads": AttributeProto.INTS,
    "strides": AttributeProto.INTS,
}
_MORE = {"ConvTranspose": {"output_padding": AttributeProto.INTS, "output_shape": AttributeProto.INTS}}
"""Attributes of one operator alone."""

Refuse = Callable[..., NodeError]
"""Makes the error for one node: refuse(message, hint=...)."""

Attributes = dict[str, int | bytes | list[int]]
"""Attributes by name; one that the node does not have is left out."""


def conv_attributes(node: NodeProto, refuse: Refuse) -> Attributes:
    """The attributes that a node has; `NodeError` for one of another kind."""
    found: Attributes = {}
    known = _ATTRIBUTES | _MORE.get(node.op_type, {})
    for attribute in node.attribute:
        if known.get(attribute.name) != attribute.type:
            raise refuse(f"attribute {attribute.name!r} is not one of {node.op_type}, or has the wrong type")
        match attribute.type:
            case AttributeProto.INT:
                found[attribute.name] = attribute.i
            case AttributeProto.STRING:
                found[attribute.name] = attribute.s
            case _:
                found[attribute.name] = list(attribute.ints)
    return found


def conv_problem(
    attributes: Attributes,
    *,
    name: str,
    x_shape: tuple[int, ...],
    w_shape: tuple[int, ...],
    operand: str,
    out: str,
    bias: bool,
    refuse: Refuse,
) -> ConvProblem:
    """The numbers of a node.

    Args:
        x_shape, w_shape: (N, C, H, W) and (K, C, R, S), all known.

    Raises:
        NodeError: shapes or attributes contradict one another, or ask for something that is not compiled.
        ProblemError: the numbers do not fit together.
    """
    axes = read_axes(attributes, w_shape, "K, C", refuse)
    rank, groups, kernel, per_axis = axes.rank, axes.groups, axes.kernel, axes.numbers
    if len(x_shape) != len(w_shape) or x_shape[1] != groups * w_shape[1]:
        per_group = "C" if groups == 1 else f"C/{groups}"
        raise refuse(
            f"the input has shape (N, C, H, W) = {x_shape}, the weights (K, {per_group}, R, S) = {w_shape}: they "
            "must have the same C"
        )
    if w_shape[0] % groups:
        raise refuse(f"{groups} groups do not divide the {w_shape[0]} output channels")

    stride, dilation = per_axis("strides", 1), per_axis("dilations", 1)
    pads = per_axis("pads", 0, 2 * rank)
    mode = attributes.get("auto_pad", b"NOTSET")
    if mode != b"NOTSET":
        automatic = _automatic_pads(mode, x_shape[2:], kernel, stride, dilation, refuse)
        if any(pads) and pads != automatic:
            raise refuse(f"auto_pad {mode.decode()} gives pads {automatic}, and the node also says pads {pads}")
        pads = automatic
    return ConvProblem(
        name=name,
        batch=x_shape[0],
        in_channels=x_shape[1],
        out_channels=w_shape[0],
        in_extent=x_shape[2:],
        kernel=kernel,
        stride=stride,
        dilation=dilation,
        pad_lo=pads[:rank],
        pad_hi=pads[rank:],
        groups=groups,
        operand=operand,
        out=out,
        bias=bias,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAxes:
    """What the nodes of all convolutions say in the same way; `refuse` makes the error.

    Attributes:
        attributes: of the node.
        rank: spatial axes.
        groups: groups of channels, at least 1.
        kernel: extent of the filter.
    """

    attributes: Attributes
    rank: int
    groups: int
    kernel: tuple[int, ...]
    refuse: Refuse

    def numbers(self, key: str, default: int, count: int | None = None) -> tuple[int, ...]:
        """An attribute with one entry for each axis, or `count` of them."""
        count = count or self.rank
        values = tuple(self.attributes.get(key, (default,) * count))
        if len(values) != count:
            raise self.refuse(f"{key} must have {count} entries, got {values}")
        return values


def read_axes(attributes: Attributes, w_shape: tuple[int, ...], channels: str, refuse: Refuse) -> NodeAxes:
    """Check what does not depend on the operator; `channels` names the first two extents of the weights."""
    rank = len(w_shape) - 2
    if rank not in AXIS_NAMES:
        raise refuse(f"weights must have shape ({channels}, [[T,] R,] S), for 1 to 3 spatial axes, got {w_shape}")
    groups = int(attributes.get("group", 1))
    if groups < 1:
        raise refuse(f"group must be at least 1, got {groups}")
    kernel = tuple(w_shape[2:])
    if tuple(attributes.get("kernel_shape", kernel)) != kernel:
        raise refuse(f"kernel_shape is {tuple(attributes['kernel_shape'])}, the weights have {kernel}")
    return NodeAxes(attributes=attributes, rank=rank, groups=groups, kernel=kernel, refuse=refuse)


def _automatic_pads(
    mode: bytes,
    extent: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    refuse: Refuse,
) -> tuple[int, ...]:
    """(top, left, bottom, right) for ``auto_pad``.

    SAME_UPPER and SAME_LOWER give ceil(extent / stride) pixels; an odd pad has its larger half at the end or at
    the start. A filter narrower than the stride needs no padding, and gets none: so do ONNX's shape inference
    and reference; ONNX Runtime crops the input there.
    """
    if mode == b"VALID":
        return (0,) * (2 * len(extent))
    if mode not in (b"SAME_UPPER", b"SAME_LOWER"):
        raise refuse(f"auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, got {mode!r}")
    if min(stride) < 1:
        raise refuse(f"strides must be at least 1, got {stride}")
    small, large = [], []
    for e, k, u, d in zip(extent, kernel, stride, dilation, strict=True):
        total = max(0, (-(-e // u) - 1) * u + (k - 1) * d + 1 - e)
        small.append(total // 2)
        large.append(total - total // 2)
    return tuple(small + large if mode == b"SAME_UPPER" else large + small)
