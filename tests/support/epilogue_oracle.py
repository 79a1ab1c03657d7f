"""The steps between the bias and the rounding on whole tiles, for `support.tile_oracle`: float32, lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.steps.epilogue import (
    AddLaneResidual,
    AddRowResidual,
    ApplyClip,
    ApplyLeakyRelu,
    ApplyRelu,
    ApplySigmoid,
    ApplySilu,
)


def finished(
    step: Step, values: np.ndarray, numbers: Mapping[str, np.ndarray], buffer_of: Callable[[str], np.ndarray]
) -> np.ndarray:
    """What a step makes of the values (lanes, columns), float32.

    Args:
        numbers: of the role, one each or one per lane.
        buffer_of: the buffer behind a pointer parameter.

    Raises:
        AssertionError: the step is no step of an epilogue, or a residual is read off its 16 bytes.
    """
    match step:
        case ApplyRelu():
            return np.maximum(values, np.float32(0))
        case ApplyLeakyRelu(alpha=alpha):
            return np.where(values < 0, np.float32(alpha) * values, values)
        case ApplyClip(low=low, high=high):
            values = values if low is None else np.maximum(values, np.float32(low))
            return values if high is None else np.minimum(values, np.float32(high))
        case ApplySigmoid():
            return (1 / (1 + np.exp(-values.astype(np.float64)))).astype(np.float32)
        case ApplySilu():
            return (values / (1 + np.exp(-values.astype(np.float64)))).astype(np.float32)
        case AddRowResidual(buffer=buffer, at=at, row=row, channel=channel):
            given = buffer_of(buffer)
            assert not (np.asarray(numbers[at]) % 16).any(), "a residual is not aligned to 16 bytes"
            first = np.broadcast_to(np.asarray(numbers[at]) // given.itemsize, len(values))[:, None]
            column = np.arange(step.columns)
            inside = _below(values, np.asarray(numbers[row]).reshape(-1, 1), step.row_limit)
            inside &= _below(values, np.asarray(numbers[channel]).reshape(-1, 1) + column, step.channel_limit)
            return values + _gathered(given, first + column, inside)
        case AddLaneResidual(buffer=buffer, rows=rows, channel=channel):
            given = buffer_of(buffer)
            pixel = np.array([int(numbers[name]) for name in rows])
            lane = np.asarray(numbers[channel]).reshape(-1, 1)
            inside = _below(values, pixel, step.row_limit) & _below(values, lane, step.channel_limit)
            return values + _gathered(given, pixel * (step.row_bytes // given.itemsize) + lane, inside)
    raise AssertionError(f"the oracle does not know {type(step).__name__}")


def _below(values: np.ndarray, number: np.ndarray, limit: int | None) -> np.ndarray:
    """Where a number of each value is below a limit; everywhere without one."""
    return np.broadcast_to(True if limit is None else number < limit, values.shape).copy()


def _gathered(buffer: np.ndarray, places: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Elements of a buffer, counted from its first, as float32, 0 where not inside."""
    found = np.zeros(places.shape, np.float32)
    found[inside] = buffer.reshape(-1)[places[inside]].astype(np.float32)
    return found
