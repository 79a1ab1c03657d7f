"""The MMAs that a kernel issues, as the simulator sees them: with the descriptors and addresses in its registers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.launch import LaunchSpec
from convc.machine import RunOptions, run
from convc.machine.state.observed import ObservedStrand
from convc.machine.state.observer import Observer, Operation
from convc.machine.tensor_core.mma import Mma
from convc.ptx import Instr


class _Collector(Observer):
    """Keeps each MMA of the first CTA, in the order in which they are issued."""

    wants = frozenset()

    def __init__(self) -> None:
        self.found: list[Mma] = []

    def tensor_op(self, strand: ObservedStrand, instr: Instr, operation: Operation) -> None:
        if operation.mma is not None and 0 in operation.rows:
            self.found.append(operation.mma)


def issued_mmas(
    text: str, launch: LaunchSpec, buffers: Mapping[str, np.ndarray] | None = None, file: str = "kernel.ptx"
) -> list[Mma]:
    """Run the first cluster of a launch on the simulator, and list the MMAs of its first CTA.

    Args:
        text: PTX.
        launch: how it is launched.
        buffers: contents of its buffers; zeros for those that are left out.
        file: what the text is called in messages.

    Raises:
        ConvcError: the simulator does not take the kernel, or it fails.
    """
    contents = {name: np.zeros(spec.shape, ARRAY_TYPES[spec.dtype]) for name, spec in launch.buffers.items()}
    collector = _Collector()
    options = RunOptions(ctas=(0, math.prod(launch.cluster)))
    run(text, launch, contents | dict(buffers or {}), file=file, options=options, observer=collector)
    return collector.found
