"""Parts that the verbs for whole networks share: how convolutions run, and options that they have no use for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast, get_args

import numpy as np

from convc.api.arguments import array_or_file, file_or
from convc.api.inputs import InputData
from convc.api.options import ReadOptions, WorkOptions
from convc.compiler.kernels import Kernels
from convc.errors import InputError
from convc.frontend.asked import check_batch, check_types
from convc.frontend.onnx_reader import Source
from convc.ir.network import Network
from convc.machine import RunOptions
from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.executor import Graph
from convc.runtime.network.host import default_host
from convc.runtime.network.io import errors_in, open_model, read_feeds
from convc.support.guessing import hint_of
from convc.verification.network import random_inputs


def check_whole(model: object, work: WorkOptions) -> None:
    """Raise `InputError` for what a whole network is not run from, and for workers, which have no part in it."""
    file_or(model, (*get_args(Source), Network), "model", "a file, or an onnx.ModelProto")
    if isinstance(model, Network):
        raise InputError(
            "a whole network is run from its file or its ModelProto: a Network holds its convolutions only"
        )
    if work.jobs is not None or work.executor is not None:
        raise InputError("a whole network is run in this process: leave jobs and executor out")


def host_title() -> str:
    """Name who runs nodes that are no convolutions by default here, with the version."""
    return default_host()


def check_given(feeds: object) -> None:
    """Raise `InputError` for feeds that are neither an array nor a file, nor those by name."""
    named = cast("Mapping[str, object]", feeds) if isinstance(feeds, Mapping) else {"": feeds}
    for name, each in named.items():
        array_or_file(each, f"feeds[{name!r}]" if name else "feeds")


def drawn_feeds(graph: Graph, data: InputData, read: ReadOptions) -> dict[str, np.ndarray]:
    """The inputs that are given, of the shapes that were asked for, and the others drawn where there is a seed."""
    arrays = read_feeds(graph, {} if data.arrays is None else data.arrays)
    known = [value.name for value in (*graph.inputs, *graph.optional)]
    for name, shape in read.shapes.items():
        if name not in known:
            raise InputError(f"the model has no input named {name!r}", hint=hint_of(name, known, "inputs"))
        if name in arrays and arrays[name].shape != shape:
            got = list(arrays[name].shape)
            raise InputError(f"expected the shape {list(shape)} that was asked for, got {got}", where=f"input {name!r}")
    if data.seed is None:
        return arrays
    missing = tuple(value for value in graph.inputs if value.name not in arrays)
    shapes = {value.name: read.shapes[value.name] for value in missing if value.name in read.shapes}
    return arrays | random_inputs(missing, data.seed, shapes or read.batch, read.say)


def check_reading(model: Source, read: ReadOptions) -> None:
    """Raise `InputError` for options of reading that the model has no use for, or that contradict one another."""
    if (read.batch, read.dtype, read.precision) == (None, None, None):
        return
    if read.dtype is not None and read.precision is not None:
        raise InputError(
            "dtype replaces float32, whose precision is then not used: give one of the two",
            hint="give dtype (--dtype) or precision (--precision), not both",
        )
    with errors_in(model):
        loaded, _ = open_model(model)
        check_batch(loaded, read.batch)
        check_types(loaded, read.dtype, read.precision)


def convolutions_of(kernels: Kernels, read: ReadOptions, machine: RunOptions) -> Convolutions:
    """The runner of a network's convolutions; `InputError` for a type or precision that there is not, or a gradient."""
    if read.gradient is not None or read.accumulate:
        raise InputError(
            "a gradient is taken of a single convolution; a whole network runs forward only",
            hint="leave gradient (--gradient) and accumulate out, or verify layer by layer on random data",
        )
    return Convolutions(kernels=kernels, operand=read.dtype, precision=read.precision or "tf32", machine=machine)
