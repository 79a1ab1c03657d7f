"""Parts that the verbs for whole networks share: how convolutions run, and options that they have no use for."""

from __future__ import annotations

from convc.api.options import ReadOptions, WorkOptions
from convc.compiler.kernels import Kernels
from convc.errors import InputError
from convc.ir.network import Network
from convc.machine import RunOptions
from convc.runtime.network.convolutions import Convolutions


def check_whole(model: object, work: WorkOptions) -> None:
    """Raise `InputError` for what a whole network is not run from, and for workers, which have no part in it."""
    if isinstance(model, Network):
        raise InputError("a whole network is run from its file or its ModelProto: a Network has convolutions alone")
    if work.jobs is not None or work.executor is not None:
        raise InputError("a whole network is run in this process: jobs and executor have no part in it")


def convolutions_of(kernels: Kernels, read: ReadOptions, machine: RunOptions) -> Convolutions:
    """The runner of a network's convolutions; `InputError` for a type or precision that there is not."""
    return Convolutions(kernels=kernels, operand=read.dtype, precision=read.precision or "tf32", machine=machine)
