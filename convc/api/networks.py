"""Parts that the verbs for whole networks share: how convolutions run, and options that they have no use for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from convc.api.arguments import array_or_file, file_or
from convc.api.options import ReadOptions, WorkOptions
from convc.compiler.kernels import Kernels
from convc.errors import InputError
from convc.frontend.asked import check_batch, check_types
from convc.frontend.onnx_reader import Source
from convc.ir.network import Network
from convc.machine import RunOptions
from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.io import errors_in, open_model


def check_whole(model: object, work: WorkOptions) -> None:
    """Raise `InputError` for what a whole network is not run from, and for workers, which have no part in it."""
    file_or(model, (*get_args(Source), Network), "model", "a file, or an onnx.ModelProto")
    if isinstance(model, Network):
        raise InputError("a whole network is run from its file or its ModelProto: a Network has convolutions alone")
    if work.jobs is not None or work.executor is not None:
        raise InputError("a whole network is run in this process: jobs and executor have no part in it")


def check_given(feeds: object) -> None:
    """Raise `InputError` for feeds that are neither an array nor a file, nor those by name."""
    for name, each in feeds.items() if isinstance(feeds, Mapping) else [("", feeds)]:
        array_or_file(each, f"feeds[{name!r}]" if name else "feeds")


def check_reading(model: Source, read: ReadOptions) -> None:
    """Raise `InputError` for options of reading that the model has no use for, or that contradict one another."""
    if (read.batch, read.dtype, read.precision) == (None, None, None):
        return
    if read.dtype is not None and read.precision is not None:
        raise InputError(
            "an operand type in place of the model's leaves no float32 whose precision could be chosen",
            hint="give dtype (--dtype) or precision (--precision), not both",
        )
    with errors_in(model):
        loaded, _ = open_model(model)
        check_batch(loaded, read.batch)
        check_types(loaded, read.dtype, read.precision)


def convolutions_of(kernels: Kernels, read: ReadOptions, machine: RunOptions) -> Convolutions:
    """The runner of a network's convolutions; `InputError` for a type or precision that there is not."""
    return Convolutions(kernels=kernels, operand=read.dtype, precision=read.precision or "tf32", machine=machine)
