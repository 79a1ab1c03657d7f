"""The numbers of a problem, by the names of the sizes that they stand for in `convc.derive.symbols`."""

from __future__ import annotations

import math

from convc.ir.problem import ConvProblem


def problem_sizes(problem: ConvProblem) -> dict[str, int]:
    """Extents, taps, strides, dilations and padding of a problem with two spatial axes.

    Along W the stride is g*u and the dilation g*d, where u and d have no factor in common.
    """
    height, width = problem.in_extent
    out_h, out_w = problem.out_extent
    taps_h, taps_w = problem.kernel
    return {
        "N": problem.batch,
        "C": problem.group_channels,
        "K": problem.out_channels,
        "K_g": problem.out_channels // problem.groups,
        "H": height,
        "W": width,
        "P": out_h,
        "Q": out_w,
        "R": taps_h,
        "S": taps_w,
        "u_h": problem.stride[0],
        "d_h": problem.dilation[0],
        **across(problem.stride[1], problem.dilation[1]),
        "pad_h": problem.pad_lo[0],
        "pad_w": problem.pad_lo[1],
    }


def across(stride: int, dilation: int) -> dict[str, int]:
    """The stride and the dilation along W: what they have in common, and the rest of each."""
    common = math.gcd(stride, dilation)
    return {"g": common, "u": stride // common, "d": dilation // common}
