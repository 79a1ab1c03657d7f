"""One ONNX `ConvTranspose` node to a `ConvProblem`.

Source: ONNX operators, ``ConvTranspose``. With ``output_shape``, or an ``auto_pad`` that gives in * stride pixels, the
pads follow from the output; where there are too few pixels even without pads, the rest is added at the end: the
operator promises that extent, also where ONNX Runtime gives less.
"""

from __future__ import annotations

from convc.frontend.conv_node import ConvAttributes, Refuse, numbers_of, read_axes
from convc.ir.problem import ConvProblem


def transpose_problem(
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
        x_shape, w_shape: (N, C, H, W) and (C, K/G, R, S), all known.
        operand, out, bias: as `ConvProblem` has them.
        refuse: makes the error.

    Raises:
        NodeError: shapes or attributes contradict one another.
        ProblemError: the numbers do not fit together.
    """
    axes = read_axes(attributes, w_shape, "C, K/G", refuse)
    rank = axes.rank
    groups = axes.groups
    if len(x_shape) != len(w_shape) or x_shape[1] != w_shape[0]:
        raise refuse(
            f"the input has shape (N, C, H, W) = {x_shape}, the weights (C, K/G, R, S) = {w_shape}: they must have the "
            "same C"
        )
    if w_shape[0] % groups:
        raise refuse(f"{groups} groups do not divide the {w_shape[0]} input channels")

    stride = numbers_of("strides", attributes.strides, (1,) * rank, refuse)
    dilation = numbers_of("dilations", attributes.dilations, (1,) * rank, refuse)
    more = numbers_of("output_padding", attributes.output_padding, (0,) * rank, refuse)
    pads = numbers_of("pads", attributes.pads, (0,) * (2 * rank), refuse)
    if min(stride) < 1:
        raise refuse(f"strides must be at least 1, got {stride}")
    low = pads[:rank]
    high = pads[rank:]
    wanted = _wanted_extent(attributes, rank, x_shape[2:], stride, refuse)
    if wanted is not None:
        steps = zip(x_shape[2:], stride, axes.kernel, dilation, strict=True)
        full = [(e - 1) * u + (k - 1) * d + 1 for e, u, k, d in steps]
        total = [max(0, f + m - out_extent) for f, m, out_extent in zip(full, more, wanted, strict=True)]
        small = tuple(t // 2 for t in total)
        large = tuple(t - t // 2 for t in total)
        low, high = (small, large) if attributes.auto_pad == b"SAME_UPPER" else (large, small)
        more = tuple(out_extent - f + t for f, t, out_extent in zip(full, total, wanted, strict=True))
    return ConvProblem(
        name=name,
        batch=x_shape[0],
        in_channels=w_shape[0],
        out_channels=groups * w_shape[1],
        in_extent=x_shape[2:],
        kernel=axes.kernel,
        stride=stride,
        dilation=dilation,
        pad_lo=low,
        pad_hi=high,
        groups=groups,
        transposed=True,
        output_padding=more,
        operand=operand,
        out=out,
        bias=bias,
    )


def _wanted_extent(
    attributes: ConvAttributes, rank: int, extent: tuple[int, ...], stride: tuple[int, ...], refuse: Refuse
) -> tuple[int, ...] | None:
    """The output's extents where the node says them and leaves the pads open; None where it says the pads."""
    mode = attributes.auto_pad
    if mode not in (b"NOTSET", b"SAME_UPPER", b"SAME_LOWER", b"VALID"):
        got = mode.decode(errors="replace")
        raise refuse(f"auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, got {got}")
    shape = attributes.output_shape
    if shape:
        if len(shape) not in (rank, rank + 2):
            raise refuse(f"output_shape must have {rank} entries, got {shape}")
        return shape[-rank:]
    if mode != b"NOTSET" and any(attributes.pads or ()):
        raise refuse(f"auto_pad {mode.decode()} says the pads, and the node also says pads {attributes.pads}")
    if mode in (b"SAME_UPPER", b"SAME_LOWER"):
        return tuple(e * u for e, u in zip(extent, stride, strict=True))
    return None
