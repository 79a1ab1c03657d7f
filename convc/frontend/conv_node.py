"""One ONNX `Conv` node to a `ConvProblem`; the attributes of all convolutions.

Source: ONNX operators, ``Conv``; its versions 1, 11 and 22 differ in wording and element types only.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
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


class Refuse(Protocol):
    """Makes the error for one node."""

    def __call__(self, message: str, hint: str = "") -> NodeError: ...


class ConvAttributes(msgspec.Struct, frozen=True, kw_only=True):
    """The attributes of a convolution, as ONNX names them; None where the node leaves one out that has no one default.

    Attributes:
        auto_pad: NOTSET, SAME_UPPER, SAME_LOWER or VALID, not checked yet.
        group: groups of channels, not checked yet.
        kernel_shape, strides, dilations: a number for each axis, if they are right.
        pads: those at the start of each axis, then those at the end.
        output_padding, output_shape: of ``ConvTranspose`` alone.
    """

    auto_pad: bytes
    group: int
    kernel_shape: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    dilations: tuple[int, ...] | None
    pads: tuple[int, ...] | None
    output_padding: tuple[int, ...] | None
    output_shape: tuple[int, ...] | None


def conv_attributes(node: NodeProto, refuse: Refuse) -> ConvAttributes:
    """The attributes that a node has; `NodeError` for one of another kind."""
    text = {"auto_pad": b"NOTSET"}
    number = {"group": 1}
    lists: dict[str, tuple[int, ...]] = {}
    known = _ATTRIBUTES | _MORE.get(node.op_type, {})
    for attribute in node.attribute:
        if known.get(attribute.name) != attribute.type:
            raise refuse(f"attribute {attribute.name!r} is not one of {node.op_type}, or has the wrong type")
        match attribute.type:
            case AttributeProto.INT:
                number[attribute.name] = attribute.i
            case AttributeProto.STRING:
                text[attribute.name] = attribute.s
            case _:
                lists[attribute.name] = tuple(attribute.ints)
    return ConvAttributes(
        auto_pad=text["auto_pad"],
        group=number["group"],
        kernel_shape=lists.get("kernel_shape"),
        strides=lists.get("strides"),
        dilations=lists.get("dilations"),
        pads=lists.get("pads"),
        output_padding=lists.get("output_padding"),
        output_shape=lists.get("output_shape"),
    )


def conv_problem(
    attributes: ConvAttributes,
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
        attributes: of the node.
        name: of the problem.
        x_shape, w_shape: (N, C, H, W) and (K, C, R, S), all known.
        operand, out, bias: as `ConvProblem` has them.
        refuse: makes the error.

    Raises:
        NodeError: shapes or attributes contradict one another, or ask for something that is not compiled.
        ProblemError: the numbers do not fit together.
    """
    axes = read_axes(attributes, w_shape, "K, C", refuse)
    groups = axes.groups
    if len(x_shape) != len(w_shape) or x_shape[1] != groups * w_shape[1]:
        per_group = "C" if groups == 1 else f"C/{groups}"
        raise refuse(
            f"the input has shape (N, C, H, W) = {x_shape}, the weights (K, {per_group}, R, S) = {w_shape}: they "
            "must have the same C"
        )
    if w_shape[0] % groups:
        raise refuse(f"{groups} groups do not divide the {w_shape[0]} output channels")
    stride = numbers_of("strides", attributes.strides, (1,) * axes.rank, refuse)
    dilation = numbers_of("dilations", attributes.dilations, (1,) * axes.rank, refuse)
    pads = numbers_of("pads", attributes.pads, (0,) * (2 * axes.rank), refuse)
    if attributes.auto_pad != b"NOTSET":
        automatic = _automatic_pads(attributes.auto_pad, x_shape[2:], axes.kernel, stride, dilation, refuse)
        if any(pads) and pads != automatic:
            mode = attributes.auto_pad.decode()
            raise refuse(f"auto_pad {mode} gives pads {automatic}, and the node also says pads {pads}")
        pads = automatic
    return ConvProblem(
        name=name,
        batch=x_shape[0],
        in_channels=x_shape[1],
        out_channels=w_shape[0],
        in_extent=x_shape[2:],
        kernel=axes.kernel,
        stride=stride,
        dilation=dilation,
        pad_lo=pads[: axes.rank],
        pad_hi=pads[axes.rank :],
        groups=groups,
        operand=operand,
        out=out,
        bias=bias,
    )


class NodeAxes(msgspec.Struct, frozen=True, kw_only=True):
    """What the nodes of all convolutions say of their filter.

    Attributes:
        groups: groups of channels, at least 1.
        kernel: extent of the filter.
    """

    groups: int
    kernel: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.kernel)


def read_axes(attributes: ConvAttributes, w_shape: tuple[int, ...], channels: str, refuse: Refuse) -> NodeAxes:
    """Check what does not depend on the operator; `channels` names the first two extents of the weights."""
    if len(w_shape) - 2 not in AXIS_NAMES:
        raise refuse(f"weights must have shape ({channels}, [[T,] R,] S), for 1 to 3 spatial axes, got {w_shape}")
    if attributes.group < 1:
        raise refuse(f"group must be at least 1, got {attributes.group}")
    kernel = w_shape[2:]
    if attributes.kernel_shape not in (None, kernel):
        raise refuse(f"kernel_shape is {attributes.kernel_shape}, the weights have {kernel}")
    return NodeAxes(groups=attributes.group, kernel=kernel)


def numbers_of(what: str, given: tuple[int, ...] | None, default: tuple[int, ...], refuse: Refuse) -> tuple[int, ...]:
    """An attribute with as many entries as its default, which it is where it is not given, and none below that."""
    values = default if given is None else given
    if len(values) != len(default):
        raise refuse(f"{what} must have {len(default)} entries, got {values}")
    if min(values, default=0) < min(default, default=0):
        way = ": crop the input before the convolution instead" if what == "pads" else ""
        raise refuse(f"{what} must be at least {min(default)}, got {values}{way}")
    return values


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
        got = mode.decode(errors="replace")
        raise refuse(f"auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, got {got}")
    if min(stride) < 1:
        raise refuse(f"strides must be at least 1, got {stride}")
    small: list[int] = []
    large: list[int] = []
    for e, k, u, d in zip(extent, kernel, stride, dilation, strict=True):
        total = max(0, (-(-e // u) - 1) * u + (k - 1) * d + 1 - e)
        small.append(total // 2)
        large.append(total - total // 2)
    return tuple(small + large if mode == b"SAME_UPPER" else large + small)
