"""Whole networks from files: what the command line and `convc.api` call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from convc.compiler.cache import KernelCache
from convc.compiler.kernels import Kernels
from convc.compiler.options import ScheduleOptions
from convc.errors import ConvcError, InputError
from convc.frontend.model_file import load_model
from convc.machine import RunOptions
from convc.runtime.layer import from_npy_dtype, to_standard_dtype
from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.executor import Graph
from convc.runtime.network.host import Value, describe_value
from convc.runtime.network.node_info import element_dtype
from convc.support.files import NpyHeader, plain, read_npy, write_npy
from convc.support.memory import require_memory

Progress = Callable[[str, float], None]


def open_graph(
    path: Path, convolutions: Convolutions, *, refused: str = "raise", host: str = "reference", fuse: bool = False
) -> Graph:
    """A model file that is ready to run; see `Graph`."""
    with errors_in(path):
        model = load_model(path)
        return Graph(model, folder=path.parent, convolutions=convolutions, refused=refused, host=host, fuse=fuse)


def convolutions_of(
    operand: str | None,
    precision: str,
    options: ScheduleOptions | None,
    machine: RunOptions,
    cache: KernelCache | None = None,
) -> Convolutions:
    """How to run convolutions; all schedules where ``options`` is None, kernels kept in the open ``cache``."""
    kernels = Kernels(options or ScheduleOptions(), cache)
    return Convolutions(kernels=kernels, operand=operand, precision=precision, machine=machine)


def cast_feeds(graph: Graph, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Feeds whose floating-point arrays are rounded to the types of the inputs; others stay as they are."""
    declared = {value.name: value.type.tensor_type.elem_type for value in (*graph.inputs, *graph.optional)}
    cast = dict(feeds)
    for name, value in feeds.items():
        wanted = element_dtype(declared.get(name, 0))
        if wanted is not None and _floating(wanted) and _floating(getattr(value, "dtype", wanted)):
            with np.errstate(over="ignore"):
                cast[name] = np.asarray(value, wanted)
    return cast


def read_feeds(graph: Graph, sources: Mapping[str, Path]) -> dict[str, np.ndarray]:
    """Inputs from ``.npy`` files, by name; "" stands for the only input that a model has.

    bfloat16, which .npy cannot name, is taken from 2-byte records without a type (as numpy writes them).

    Raises:
        InputError: a file is missing or damaged, or no name was given where there are several inputs.
        LimitError: an array does not fit into memory.
    """

    def check(header: NpyHeader) -> str | None:
        require_memory(2 * header.nbytes, "an input of the network")
        return None

    feeds = {}
    for name, path in by_name(sources, [value.name for value in graph.inputs], "input", "--input").items():
        array = read_npy(path, check=check)
        feeds[name] = array.view(from_npy_dtype(array.dtype))
    return feeds


def by_name(files: Mapping[str, Path], names: Sequence[str], what: str, option: str) -> dict[str, Path]:
    """Files by the names of a model's inputs or outputs, of which "" means the only one.

    Raises:
        InputError: there is not one, or it is given twice.
    """
    if "" in files and len(names) != 1:
        raise InputError(
            f"the model has {len(names)} {what}s: say which with {option} NAME=FILE",
            hint=f"{what}s: {', '.join(map(repr, names)) or 'none'}",
        )
    if "" in files and names[0] in files:
        raise InputError(f"{option} is given twice for {names[0]!r}")
    return {name or names[0]: file for name, file in files.items()}


def write_results(results: Mapping[str, Value], files: Mapping[str, Path]) -> None:
    """Write outputs to ``.npy`` files, by name; bfloat16 as float32. `InputError` before any is written that cannot."""
    for name in files:
        value = results[name]
        if not isinstance(value, np.ndarray) or value.dtype.kind in "OUS":
            raise InputError(f"the output {name!r} is {describe_value(value)}, which cannot be written as .npy")
    for name, target in files.items():
        write_npy(target, plain(to_standard_dtype(results[name])))


@contextmanager
def errors_in(path: Path):
    """Errors inside say the file they are about."""
    try:
        yield
    except ConvcError as error:
        if not error.where.startswith(str(path)):
            error.where = f"{path}: {error.where}" if error.where else str(path)
        raise


def _floating(dtype: np.dtype) -> bool:
    return dtype.name in ("float16", "bfloat16", "float32", "float64")
