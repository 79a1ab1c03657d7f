"""The contents of a page: layers, the kernels that they share, and how long each takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from convc.compiler.compile import Compiled
from convc.draw.roofline import RoofPoint
from convc.draw.schedules import TimedSchedule
from convc.ir.problem import ConvProblem
from convc.timing.kernel import KernelTime
from convc.timing.parameters import Chip


@dataclass(frozen=True, slots=True, kw_only=True)
class PageKernel:
    """A kernel, which some layers share.

    Attributes:
        compiled: every stage of its compilation.
        text: its PTX; of a build folder, as that has it.
        edited: that was changed since the build was written.
        time: on the chip of the page.
        schedules: kernels of other schedules of the layer by their titles, where they were timed.
    """

    compiled: Compiled
    text: str
    edited: bool = False
    time: KernelTime
    schedules: Mapping[str, TimedSchedule] = field(default_factory=dict[str, TimedSchedule])


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLayer:
    """A layer of the page.

    Attributes:
        name: as in the model.
        problem: what it computes.
        fused: nodes of the model that the kernel does as well.
        kernel: place of its kernel in `PageContents.kernels`; None where it has none.
        point: the layer under the roofs of the chip; None where it has no kernel.
        reason: why there is no kernel.
    """

    name: str
    problem: ConvProblem
    fused: tuple[str, ...] = ()
    kernel: int | None = None
    point: RoofPoint | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContents:
    """Everything that a page shows.

    Attributes:
        source: name of the model or of the folder.
        chip: whose parameters the times are from.
        layers: in the order of the model.
        kernels: each once.
        verdicts: of a verification, by the names of layers; empty where there was none.
    """

    source: str
    chip: Chip
    layers: tuple[PageLayer, ...]
    kernels: tuple[PageKernel, ...]
    verdicts: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def microseconds(self) -> float:
        """All layers, one after the other."""
        return sum(self.kernels[layer.kernel].time.microseconds for layer in self.layers if layer.kernel is not None)
