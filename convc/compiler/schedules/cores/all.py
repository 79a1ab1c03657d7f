"""The tensor cores, by the name that a target gives its own (`convc.ir.arch.Arch.tensor_core`)."""

from __future__ import annotations

from convc.compiler.schedules.cores.base import TensorCore
from convc.compiler.schedules.cores.tcgen05 import Tcgen05
from convc.compiler.schedules.cores.wgmma import Wgmma
from convc.ir.arch import Arch, TensorCoreName

TENSOR_CORES: dict[TensorCoreName, TensorCore] = {"tcgen05": Tcgen05(), "wgmma": Wgmma()}


def core_of(arch: Arch) -> TensorCore:
    """The tensor core of a target."""
    return TENSOR_CORES[arch.tensor_core]
