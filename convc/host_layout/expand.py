"""From the arrays of a model to those that the tensor core has types for: explicit padding, and parts as channels.

A problem may say more than a kernel can: a padding that is not zero, weights of more than 8 bits, float32 out of
parts of fewer bits. `expanded` is the problem that is left when the host has seen to these, and the other functions
see to them. Parts lie side by side in each group: all channels of the first part, then of the second. Of block-scaled
types the kernel's channels are bytes, of one or two elements.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from convc.host_layout.block_scaled import FORMATS, filled_channels
from convc.host_layout.split_precision import PARTS, PASSES, activation_parts, filter_parts
from convc.ir import dtypes
from convc.ir.problem import ConvProblem


def expanded(problem: ConvProblem) -> ConvProblem:
    """The same convolution with zero padding and parts of the types that the tensor core multiplies."""
    made = problem
    if problem.pad_value:
        padded = zip(problem.in_extent, problem.pad_lo, problem.pad_hi, strict=True)
        none = (0,) * problem.rank
        extent = tuple(extent + lo + hi for extent, lo, hi in padded)
        made = dataclasses.replace(made, in_extent=extent, pad_lo=none, pad_hi=none, pad_value=0)
    fmt = FORMATS.get(problem.operand)
    if fmt is not None:
        channels = filled_channels(problem.in_channels, problem.groups) // fmt.packed
        made = dataclasses.replace(made, in_channels=channels)
    copies = copies_of(problem)
    if copies > 1:
        made = dataclasses.replace(made, in_channels=copies * problem.in_channels, filter_parts=1)
    if problem.operand in PARTS:
        made = dataclasses.replace(made, operand=PARTS[problem.operand].name)
    return made


def copies_of(problem: ConvProblem) -> int:
    """How many channels of the kernel each channel of the model becomes."""
    passes = PASSES.get(problem.operand)
    return problem.filter_parts if passes is None else len(passes)


def expand_activation(problem: ConvProblem, x: np.ndarray) -> np.ndarray:
    """Activations (N, C, *extent) as those of `expanded`."""
    if problem.pad_value:
        pads = [(0, 0), (0, 0), *zip(problem.pad_lo, problem.pad_hi, strict=True)]
        x = np.pad(x, pads, constant_values=problem.pad_value)
    if problem.operand in PASSES:
        return _side_by_side(activation_parts(problem.operand, x), problem.groups)
    return x if problem.filter_parts == 1 else _side_by_side([x] * problem.filter_parts, problem.groups)


def expand_filter(problem: ConvProblem, w: np.ndarray) -> np.ndarray:
    """Filters (K, C/G, *kernel) as those of `expanded`."""
    if problem.operand in PASSES:
        return np.concatenate(filter_parts(problem.operand, w), axis=1)
    return w if problem.filter_parts == 1 else np.concatenate(split_filter(w, problem.filter_parts), axis=1)


def split_filter(w: np.ndarray, count: int) -> list[np.ndarray]:
    """Whole numbers as `count` arrays of s8 that add up to them; ValueError where they do not fit."""
    rest = np.rint(np.asarray(w, np.float64)).astype(np.int64)
    parts: list[np.ndarray] = []
    for _ in range(count):
        part = dtypes.encode(dtypes.S8, rest)  # as much of the rest as fits
        parts.append(part)
        rest = rest - part
    if rest.any():
        raise ValueError(f"{count} parts of s8 cannot hold weights from {int(w.min())} to {int(w.max())}")
    return parts


def _side_by_side(parts: list[np.ndarray], groups: int) -> np.ndarray:
    """Parts (N, C, ...) as (N, parts * C, ...), the parts of a group together."""
    split = [part.reshape(len(part), groups, -1, *part.shape[2:]) for part in parts]
    joined = np.concatenate(split, axis=2)
    return joined.reshape(len(joined), -1, *joined.shape[3:])
