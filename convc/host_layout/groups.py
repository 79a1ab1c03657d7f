"""Groups of few channels, joined to packs that fill the tensor core.

The tensor core multiplies whole tiles: an instruction takes 32 bytes of channels and a multiple of 16 output channels,
whether a group has as many or not. A *pack* of some groups is one dense convolution whose filter has zeros where an
output channel does not see an input channel ("block-diagonal"). The number of groups in a pack is the one with the
least work: more groups fill the instructions, but their zeros grow with the square. What is left are fewer, larger
groups, each with its own run of channels, padded to whole instructions; a single pack is a convolution with one group.

Depthwise convolutions are the worst: of 16-bit numbers one product in 16 is of the model. On full tiles that still is
twice as many as an SM multiplies without its tensor core (`convc.ir.arch.Rates.fmas`), and as many of tf32;
images of a few pixels fill no tile, and less is left. The plan prints both numbers.

An infinity or NaN of a channel would spread to the other groups of its pack, as through any block-diagonal filter:
`convc.runtime.special_values` keeps it from them.
"""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np

from convc.ir.arch import SM_100A
from convc.ir.problem import ConvProblem

LIMITS = SM_100A.limits


class GroupPacking(msgspec.Struct, frozen=True, kw_only=True):
    """How groups are joined.

    Attributes:
        groups: groups of the model in each pack; the last pack may have fewer.
        count: packs.
        c_per_pack, k_per_pack: input and output channels of a pack on the device, padding included. With one pack, as
            many as there are.
    """

    groups: int
    count: int
    c_per_pack: int
    k_per_pack: int


def choose_packing(problem: ConvProblem) -> GroupPacking | None:
    """The packs with the least work for the tensor core, of those the fewest; None where there is one group."""
    if problem.groups == 1:
        return None
    choices = [_packing(problem, groups) for groups in range(1, problem.groups + 1)]
    return min(choices, key=lambda packing: (tensor_core_work(problem, packing), packing.count))


def tensor_core_work(problem: ConvProblem, packing: GroupPacking) -> int:
    """Products of the tensor core for each pixel and tap: atoms of 32 bytes of K times steps of 16 output channels."""
    atoms = -(-packing.c_per_pack * problem.operand_dtype.bytes // LIMITS.mma_atom_bytes)
    tiles = -(-packing.k_per_pack // LIMITS.mma_n_step)
    return packing.count * atoms * tiles


def _packing(problem: ConvProblem, groups: int) -> GroupPacking:
    """Packs of so many groups. Several packs are padded to whole instructions, and wide ones to whole rows or tiles."""
    count = -(-problem.groups // groups)
    channels = groups * problem.group_channels
    filters = groups * problem.out_channels // problem.groups
    if count == 1:
        return GroupPacking(groups=groups, count=1, c_per_pack=channels, k_per_pack=filters)
    element = problem.operand_dtype.bytes
    row = LIMITS.swizzle_spans[-1]  # the longest row of an operand tile; longer runs are made of whole rows
    unit = LIMITS.mma_atom_bytes if channels * element <= row else row
    step = _stored_step(problem) if filters <= LIMITS.mma_n_max else LIMITS.mma_n_max // 2
    return GroupPacking(
        groups=groups,
        count=count,
        c_per_pack=-(-channels * element // unit) * unit // element,
        k_per_pack=-(-filters // step) * step,
    )


def _stored_step(problem: ConvProblem) -> int:
    """Output channels of a pack come in multiples of this.

    It is what an MMA takes, and with 8-bit results what the two threads of a row store at once on Hopper, 16 each.
    """
    return 2 * LIMITS.mma_n_step if problem.out_dtype.bytes == 1 else LIMITS.mma_n_step


def packed_problem(problem: ConvProblem, packing: GroupPacking) -> ConvProblem:
    """The convolution whose groups are the packs."""
    return dataclasses.replace(
        problem,
        in_channels=packing.count * packing.c_per_pack,
        out_channels=packing.count * packing.k_per_pack,
        groups=packing.count,
    )


def pack_channels(pixels: np.ndarray, model: ConvProblem, packing: GroupPacking) -> np.ndarray:
    """Pixels (..., places * C) as (..., packs * c_per_pack): a group's channels at all places together."""
    lines = pixels.shape[:-1]
    slots = packing.count * packing.groups  # places for groups; those of the last pack may stay empty
    groups = pixels.reshape(*lines, -1, model.groups, model.group_channels).swapaxes(-3, -2)
    groups = groups.reshape(*lines, model.groups, -1)
    channels = packing.groups * groups.shape[-1]
    whole = np.zeros((*lines, slots, groups.shape[-1]), pixels.dtype)
    whole[..., : model.groups, :] = groups
    packed = np.zeros((*lines, packing.count, packing.c_per_pack), pixels.dtype)
    packed[..., :channels] = whole.reshape(*lines, packing.count, channels)
    return packed.reshape(*lines, -1)


def pack_taps(taps: np.ndarray, groups: int, packing: GroupPacking) -> np.ndarray:
    """Filters (K, R*S, C/G) as (packs * k_per_pack, R*S, c_per_pack), with zeros outside the blocks of the groups."""
    own = len(taps) // groups
    channels = taps.shape[-1]
    packed = np.zeros((packing.count, packing.k_per_pack, taps.shape[1], packing.c_per_pack), taps.dtype)
    for group in range(groups):
        pack, slot = divmod(group, packing.groups)
        rows = slice(slot * own, (slot + 1) * own)
        columns = slice(slot * channels, (slot + 1) * channels)
        packed[pack, rows, :, columns] = taps[group * own : (group + 1) * own]
    return packed.reshape(-1, *packed.shape[2:])


def device_channels(problem: ConvProblem, packing: GroupPacking) -> np.ndarray:
    """Output channel on the device of every output channel of the model, int64 (K,)."""
    own = packing.groups * problem.out_channels // problem.groups
    pack, inside = np.divmod(np.arange(problem.out_channels), own)
    return pack * packing.k_per_pack + inside
