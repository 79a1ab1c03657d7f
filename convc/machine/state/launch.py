"""What all cohorts of a launch share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from convc.machine.base.findings import Found
from convc.machine.base.switches import Switches
from convc.machine.lazy.widen import Workspace
from convc.machine.memory.global_memory import GlobalMemory
from convc.machine.memory.shared_memory import ArrayPool
from convc.machine.state.counters import Counters
from convc.machine.state.grants import Grants
from convc.machine.state.program import Program
from convc.machine.tma.load import TensorLoader


@dataclass(slots=True)
class Launch:
    """A kernel, its grid, its arguments, and what the run leaves behind.

    Attributes:
        params: uint8, the contents of parameter space.
        tensor_maps: name of the buffer and loader of each tensor map: by its offset in parameter space, or, for maps
            that the kernel made in memory, by their 128 bytes.
        file: name of the text in findings.
        workspace: global address of the workspace of a cooperative launch; else 0.
        policy, seed: when asynchronous work takes effect (see `convc.machine.base.completion`).
        evaluation: ``lazy``, or ``eager`` (see `RunOptions`).
        grants: the clusters that have not begun, where a kernel may ask for them.
        repeats: whether it may replay an earlier launch (see `convc.machine.state.replay`).
        max_instructions: most instructions that a warp may execute.
        pool: arrays of cohorts that have ended. workspaces: to evaluate in what has waited.
        before_change: is told of the buffers that are about to change.
    """

    program: Program
    memory: GlobalMemory
    params: np.ndarray
    tensor_maps: dict[int | bytes, tuple[str, TensorLoader]]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    dynamic_shared: int
    file: str
    workspace: int = 0
    switches: Switches = Switches()  # noqa: RUF009 - frozen record
    policy: str = "eager"
    seed: int = 0
    evaluation: str = "eager"
    grants: Grants = field(default_factory=Grants)
    repeats: bool = True
    max_instructions: int = sys.maxsize
    counters: Counters = field(default_factory=Counters)
    findings: Found = field(default_factory=dict)
    pool: ArrayPool = field(default_factory=ArrayPool)
    workspaces: tuple[Workspace, Workspace] = field(default_factory=lambda: (Workspace(), Workspace()))
    before_change: Callable[[str], None] | None = None

    def about_to_change(self, buffer: str) -> None:
        """A buffer is written now: what was to be read from it later is read first."""
        if self.before_change is not None:
            self.before_change(buffer)

    def contents_changed(self, buffer: str) -> None:
        """Tell the loaders of a buffer that its contents changed."""
        for name, loader in self.tensor_maps.values():
            if name == buffer:
                loader.invalidate()
