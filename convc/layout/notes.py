"""What repacking does and what it costs, one sentence each, for plans and build folders."""

from __future__ import annotations

import math

from convc.ir.problem import ConvProblem
from convc.layout.expand import expansion_notes
from convc.layout.fold import AxisFold, fold_note
from convc.layout.groups import GroupPacking, packs_note
from convc.support.memory import human_bytes


def packing_notes(
    problem: ConvProblem,
    folded: ConvProblem,
    device: ConvProblem,
    folds: tuple[AxisFold | None, ...],
    packs: GroupPacking | None,
    activation_bytes: int,
    c_pitch: int,
    k_pitch: int,
) -> list[str]:
    """The sentences.

    Args:
        problem, folded, device: what was asked (as an ordinary convolution), with its axes folded, and as the kernel
            runs it.
        activation_bytes: of the activation buffer.
        c_pitch, k_pitch: elements of a filter tap and of an output pixel on the device.
    """
    before = math.prod(problem.x_shape) * problem.operand_dtype.storage.itemsize
    notes = [
        "activations go from NCHW to NHWC on the host: "
        f"{human_bytes(before)} become {human_bytes(activation_bytes)} ({activation_bytes / before:.2f}x)"
    ]
    notes += expansion_notes(problem)
    notes += [fold_note(problem, axis, fold) for axis, fold in enumerate(folds) if fold is not None]
    if packs is not None:
        return [*notes, packs_note(folded, device, packs)]
    channels = device.in_channels
    if c_pitch != channels:
        notes.append(
            f"{channels} channels padded to {c_pitch} ({c_pitch * device.operand_dtype.bytes} bytes a pixel, "
            f"as the tensor map needs): {c_pitch / channels:.2f}x activation and filter bytes"
        )
    channels = device.out_channels
    if k_pitch != channels:
        notes.append(
            f"{channels} output channels padded to {k_pitch} ({k_pitch * device.out_dtype.bytes} bytes a "
            f"pixel): {k_pitch / channels:.2f}x output bytes"
        )
    return notes
