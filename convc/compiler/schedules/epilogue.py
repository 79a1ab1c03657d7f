"""From the epilogue of a problem to steps of the role that stores."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.tile.steps.base import GlobalStore, Step
from convc.compiler.tile.steps.epilogue import (
    AddLaneResidual,
    AddRowResidual,
    ApplyClip,
    ApplyLeakyRelu,
    ApplyRelu,
    ApplySigmoid,
    ApplySilu,
)
from convc.compiler.tile.steps.sharing import PixelStore
from convc.ir.epilogue import AddResidual, Clip, EpilogueStep, LeakyRelu, Relu, Sigmoid, SiLU

RESIDUAL = "residual"
"""Name of the buffer, and of the parameter that points at it."""


def epilogue_steps(epilogue: tuple[EpilogueStep, ...], store: GlobalStore | PixelStore) -> Iterator[Step]:
    """One step each, in order; `store` says which of the lane's values are stored, and where."""
    for number, step in enumerate(epilogue):
        names = {"id": f"store.epilogue_{number}", "note": str(step), "columns": store.columns}
        match step:
            case Relu():
                yield ApplyRelu(**names)
            case LeakyRelu(alpha=alpha):
                yield ApplyLeakyRelu(**names, alpha=alpha)
            case Clip(low=low, high=high):
                yield ApplyClip(**names, low=low, high=high)
            case Sigmoid():
                yield ApplySigmoid(**names)
            case SiLU():
                yield ApplySilu(**names)
            case AddResidual():
                yield _residual(names | {"buffer": RESIDUAL}, store)


def _residual(names: dict[str, str | int], store: GlobalStore | PixelStore) -> Step:
    same = {"out": store.out, "channel": store.channel, "row_limit": store.row_limit}
    same["channel_limit"] = store.channel_limit
    if isinstance(store, PixelStore):
        return AddLaneResidual(**names, **same, rows=store.rows, row_bytes=store.row_bytes)
    return AddRowResidual(**names, **same, at=store.at, row=store.row)
