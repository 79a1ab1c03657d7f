"""The timer that decides where candidates are timed: the timing engine, which the compiler itself does not know."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from convc.api.options import ChipOptions, ScheduleOptions
from convc.ir.arch import ARCHS
from convc.ir.launch import KernelArtifact
from convc.ir.tile_order import OrderTraffic
from convc.timing.kernel import target_of, time_kernel
from convc.timing.parameters import Chip, chip_for, read_chip


@dataclass(frozen=True, slots=True)
class EngineTimer:
    """Times kernels with the timing engine, on a chip as options make it."""

    chip: ChipOptions

    @property
    def key(self) -> str:
        """SHA-256 of the parameters of the chip, or of each target's chip, and of the options."""
        chips = [chip_of(self.chip, target) for target in ARCHS]
        said = msgspec.json.encode(([dict(chip.parameters) for chip in chips], self.chip.cold, self.chip.sass))
        return hashlib.sha256(said).hexdigest()

    def __call__(self, artifact: KernelArtifact, order: OrderTraffic | None = None, /) -> float:
        """Cycles, at the chip's full clock, of a kernel that makes its tiles in an order of which this is known.

        The errors are those of `convc.timing.kernel.time_kernel`.
        """
        chip = chip_of(self.chip, target_of(artifact.ptx))
        options = self.chip
        timed = time_kernel(artifact.ptx, artifact.launch, {}, chip, cold=options.cold, sass=options.sass, order=order)
        return 1e3 * timed.microseconds * chip["chip.clock"]


TARGET = ScheduleOptions().target
"""The target of kernels where nothing else is asked for."""


def chip_of(options: ChipOptions, target: str = TARGET) -> Chip:
    """The parameters that options name, or those of a target; InputError where there is no such chip or parameter."""
    return read_chip(chip_for(target) if options.chip is None else options.chip, settings_of(options))


def settings_of(options: ChipOptions) -> list[str]:
    """Parameters that are set otherwise."""
    return [*options.settings, *([] if options.clock is None else [f"chip.clock={options.clock}"])]
