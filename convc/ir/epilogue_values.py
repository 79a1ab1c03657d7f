"""The steps of an epilogue in float64, by their definitions (`convc.ir.epilogue`)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from convc.ir.epilogue import AddResidual, Clip, EpilogueStep, LeakyRelu, Relu, ReluGrad, Sigmoid, SiLU


def epilogue_step(step: EpilogueStep, y: np.ndarray, residual: np.ndarray | None) -> np.ndarray:
    """One step in float64; NaN stays NaN. `residual` is used by `AddResidual` and `ReluGrad`."""
    with np.errstate(all="ignore"):
        match step:
            case Relu():
                return np.maximum(y, 0.0)
            case LeakyRelu(alpha=alpha):
                return np.where(y < 0, alpha * y, y)
            case Clip(low=low, high=high):
                y = y if low is None else np.maximum(y, low)
                return y if high is None else np.minimum(y, high)
            case Sigmoid():
                return 1.0 / (1.0 + np.exp(-y))
            case SiLU():
                return y * (1.0 / (1.0 + np.exp(-y)))
            case AddResidual():
                return y + np.asarray(residual, np.float64)
            case ReluGrad():
                return np.where(np.asarray(residual, np.float64) > 0, y, 0.0)
    raise TypeError(f"unknown step {step!r}")


def after_epilogue(steps: Iterable[EpilogueStep], y: np.ndarray, residual: np.ndarray | None) -> np.ndarray:
    """All steps, one after the other."""
    for step in steps:
        y = epilogue_step(step, y, residual)
    return y


def keeps_zero(steps: tuple[EpilogueStep, ...]) -> bool:
    """Whether a sum of nothing is stored as zero, whatever a residual is."""
    added = any(isinstance(step, AddResidual) for step in steps)
    return not added and not after_epilogue(steps, np.zeros(1), np.ones(1)).any()
