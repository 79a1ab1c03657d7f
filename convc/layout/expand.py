"""From the arrays of a model to those that the tensor core has types for: explicit padding, and parts as channels.

A problem may say more than a kernel can: a padding that is not zero, weights of more than 8 bits, float32 out of
parts of fewer bits. `expanded` is the problem that is left when the host has seen to these, and the other functions
see to them. Parts lie side by side in each group: all channels of the first part, then of the second. Of block-scaled
types the kernel's channels are bytes, of one or two elements.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from convc.ir import dtypes
from convc.ir.problem import ConvProblem
from convc.layout.block_scaled import FORMATS, filled_channels
from convc.layout.split_precision import PARTS, PASSES, activation_parts, filter_parts


def expanded(problem: ConvProblem) -> ConvProblem:
    """The same convolution with zero padding and parts of the types that the tensor core multiplies."""
    passes = PASSES.get(problem.operand)
    changes = {}
    if passes is not None:
        changes |= {"operand": PARTS[problem.operand].name}
    if problem.pad_value:
        padded = zip(problem.in_extent, problem.pad_lo, problem.pad_hi, strict=True)
        none = (0,) * problem.rank
        extent = tuple(extent + lo + hi for extent, lo, hi in padded)
        changes |= {"in_extent": extent, "pad_lo": none, "pad_hi": none, "pad_value": 0}
    fmt, copies = FORMATS.get(problem.operand), copies_of(problem)
    if fmt is not None:
        changes |= {"in_channels": filled_channels(problem.in_channels, problem.groups) // fmt.packed}
    if copies > 1:
        changes |= {"in_channels": copies * problem.in_channels, "filter_parts": 1}
    return dataclasses.replace(problem, **changes) if changes else problem


def copies_of(problem: ConvProblem) -> int:
    """How many channels of the kernel each channel of the model becomes."""
    return len(PASSES.get(problem.operand, (None,) * problem.filter_parts))


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
    rest, parts = np.rint(np.asarray(w, np.float64)).astype(np.int64), []
    for _ in range(count):
        parts.append(dtypes.encode(dtypes.S8, rest))
        rest = rest - parts[-1]
    if rest.any():
        raise ValueError(f"{count} parts of s8 cannot hold weights from {int(w.min())} to {int(w.max())}")
    return parts


def _side_by_side(parts: list[np.ndarray], groups: int) -> np.ndarray:
    """Parts (N, C, ...) as (N, parts * C, ...), the parts of a group together."""
    split = [part.reshape(len(part), groups, -1, *part.shape[2:]) for part in parts]
    joined = np.concatenate(split, axis=2)
    return joined.reshape(len(joined), -1, *joined.shape[3:])
