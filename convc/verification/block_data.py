"""Exact operands of block-scaled types: whole numbers that survive their quantisation, with factors that differ.

Every block has one of a few powers of two, times whole numbers that e2m1 has, of which the first is the largest there
is. Then the factor of nvfp4, largest / 6, is a power of two as well, and all elements are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from convc.ir.problem import ConvProblem
from convc.layout.block_scaled import FORMATS, as_filters

CHOICES = (((0, 1, 2, 3, 4, 6), 2), ((0, 1, 2, 3, 4, 6), 1), ((0, 1, 2, 3, 4, 6), 0), ((1, 2, 3), 0))
"""Magnitudes and the largest exponent of a block's power of two, from the widest range to the narrowest."""


def numbers_in_blocks(
    problem: ConvProblem, rng: np.random.Generator, room: Callable[[int], int]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Activations and filters of the widest range whose sums have room, and the largest magnitude without its power.

    Where even the narrowest is too much, whole blocks of weights are zero.

    Args:
        room: what sums of products may come to, where the largest magnitude is the one given.

    Returns:
        float32 x and w, in the shapes of the problem.
    """
    block = FORMATS[problem.operand].block
    terms = problem.gemm_k

    def fits(numbers: tuple[int, ...], spread: int) -> bool:
        return terms * numbers[-1] ** 2 * 4**spread <= room(numbers[-1])

    numbers, spread = next((choice for choice in CHOICES if fits(*choice)), CHOICES[-1])
    largest = numbers[-1]
    taps_shape = (problem.out_channels, problem.group_channels, *problem.kernel)
    x = _draw(rng, problem.x_shape, problem.groups, block, numbers, spread)
    taps = _draw(rng, taps_shape, 1, block, numbers, spread)
    most = room(largest) // largest**2
    if terms > most:
        blocks = -(-problem.group_channels // block)
        for row in taps:
            keep = np.zeros(blocks * math.prod(problem.kernel), bool)
            keep[rng.permutation(keep.size)[: most // block]] = True
            kept = np.repeat(keep.reshape(blocks, *problem.kernel), block, axis=0)
            row[~kept[: problem.group_channels]] = 0
    return x, as_filters(problem, taps), largest


def _draw(
    rng: np.random.Generator, shape: tuple[int, ...], groups: int, block: int, numbers: tuple[int, ...], spread: int
) -> np.ndarray:
    """float32 (N, C, *extent), in blocks along axis 1."""
    count, channels, *extent = shape
    own = channels // groups
    drawn = rng.choice(numbers, (count, groups, own, *extent))
    drawn[:, :, ::block] = numbers[-1]
    drawn = np.where(rng.random(drawn.shape) < 0.5, -drawn, drawn)
    power = np.exp2(rng.integers(0, spread, (count, groups, -(-own // block), *extent), endpoint=True))
    drawn = drawn * np.repeat(power, block, axis=2)[:, :, :own]
    return drawn.reshape(shape).astype(np.float32)
