"""Kernel folders: a kernel.ptx that another compiler made, with its launch.json."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from convc.ir.findings import Verdict
from convc.ir.launch import LaunchSpec, load_launch
from convc.sanitizer.run import check_kernel

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Foreign:
    """A kernel folder."""

    text: str
    launch: LaunchSpec
    name: str

    def run(self, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Final buffers of a run on these inputs: the simulator has nothing to report, and the checkers no error.

        The compiler leaves out fences that the manual asks for; that is a matter for review.
        """
        checked = check_kernel(self.text, self.launch, inputs, file=f"{self.name}/kernel.ptx")
        assert checked.verdict <= Verdict.review, [str(f) for f in checked.findings if f.verdict > Verdict.review]
        assert checked.result is not None
        assert checked.result.verdict == Verdict.clean, [f.message for f in checked.result.findings]
        return checked.result.buffers

    def shape(self, buffer: str) -> tuple[int, ...]:
        return self.launch.buffers[buffer].shape


def foreign(name: str) -> Foreign:
    folder = HERE / name
    return Foreign((folder / "kernel.ptx").read_text(), load_launch(folder / "launch.json"), name)


def fractions(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Multiples of 1/2 in -4..4: every type here has them, and a sum of 2^18 products is exact in float32."""
    return (rng.integers(-8, 9, shape) / 2).astype(dtype)
