"""Whole networks from files to files: the model, what it is fed, and what it gives."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
import onnx

from convc.errors import ConvcError, InputError
from convc.frontend.model_file import check_header, load_model
from convc.frontend.onnx_reader import Source
from convc.runtime.layer import from_npy_dtype
from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.executor import Graph, with_integers
from convc.runtime.network.feeds import why_refused
from convc.runtime.network.node_info import element_dtype
from convc.runtime.network.steps import Value
from convc.support.arrays import Accept, arrays_of, read_arrays, storable, write_npz
from convc.support.files import NpyHeader, check_target, write_npy
from convc.support.guessing import hint_of

Given = TypeVar("Given")

ArraySource = np.ndarray | str | Path | bytes
"""An array, or the ``.npy`` or ``.npz`` file that holds it, or the bytes of such a file."""

Feeds = Mapping[str, ArraySource] | ArraySource
"""An array for each input of a model by name; or that of the only input, or a ``.npz`` file that has the names."""


def open_model(source: Source) -> tuple[onnx.ModelProto, Path]:
    """A model whose header was checked, and the folder of its external data."""
    if isinstance(source, onnx.ModelProto):
        check_header(source)
        return source, Path()
    return load_model(Path(source)), Path(source).parent


def open_graph(
    source: Source, convolutions: Convolutions, *, refused: str = "raise", host: str = "auto", fuse: bool = False
) -> Graph:
    """A model that is ready to run; see `Graph`. Where ``fuse`` is on, its quantised convolutions are integer ones."""
    with errors_in(source):
        model, folder = open_model(source)
        given = with_integers(model, folder) if fuse else model
        return Graph(given, folder=folder, convolutions=convolutions, refused=refused, host=host, fuse=fuse)


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


def read_feeds(graph: Graph, feeds: Feeds) -> dict[str, np.ndarray]:
    """Arrays for the inputs of a graph by name, read from files where there are files.

    bfloat16, which .npy cannot name, is taken from 2-byte records without a type (as numpy writes them).

    Raises:
        InputError: a file is missing or damaged, or holds another shape or type than the model says (which is found
            before its data are read); there is no such input, or no name was given where there are several.
        LimitError: an array does not fit into memory.
    """
    declared = {value.name: value for value in (*graph.inputs, *graph.optional)}
    required = [value.name for value in graph.inputs]

    def accept(name: str, header: NpyHeader) -> str | None:
        only = required[0] if not name and len(required) == 1 else name
        return why_refused(declared[only], header.shape, from_npy_dtype(header.dtype)) if only in declared else None

    return by_name(read_named(feeds, list(declared), "input", accept), required, "input", "--input")


def read_named(
    given: Feeds, known: Sequence[str], what: str, accept: Accept = lambda name, header: None
) -> dict[str, np.ndarray]:
    """Arrays by name, from files where there are files; "" is the name of one that has none.

    Args:
        known: names that there are.
        what: what they are names of, for messages.
        accept: says what is wrong with an array before it is read.

    Raises:
        InputError: a file is missing or damaged, or has a name that there is not; or a name comes twice.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, value in (given if isinstance(given, Mapping) else {"": given}).items():
        for inner, array in _arrays(value, name, known, what, accept).items():
            if inner in arrays:
                raise InputError(f"the {what} {inner!r} is given twice")
            arrays[inner] = array
    return arrays


def _arrays(value: ArraySource, name: str, known: Sequence[str], what: str, accept: Accept) -> dict[str, np.ndarray]:
    """What is given under a name, which a file of several arrays has not."""
    if isinstance(value, np.ndarray):
        return {name: value}
    where = "stdin" if isinstance(value, bytes) else str(value)

    def check(inner: str, header: NpyHeader) -> str | None:
        if inner and name:
            raise InputError(
                f"a file of named arrays is given for the {what} {name!r}", where=where, hint=f"leave {name}= out"
            )
        if inner and inner not in known:
            raise InputError(f"there is no {what} named {inner!r}", where=where, hint=hint_of(inner, known, f"{what}s"))
        return accept(inner or name, header)

    found = arrays_of(value, where, check) if isinstance(value, bytes) else read_arrays(Path(value), check)
    return {inner or name: array.view(from_npy_dtype(array.dtype)) for inner, array in found.items()}


def check_targets(files: Mapping[str, Path]) -> None:
    """Raise `InputError` where an output cannot be written to its file."""
    for file in files.values():
        check_target(file)


def targets_of(graph: Graph, files: Mapping[str, Given], option: str = "-o") -> dict[str, Given]:
    """Files or arrays by output of a graph; "" means the only one. `InputError` for names that there are not."""
    named = by_name(files, graph.outputs, "output", option)
    unknown = sorted(set(named) - set(graph.outputs))
    if unknown:
        hint = hint_of(unknown[0], graph.outputs, "outputs")
        raise InputError(f"the model has no output named {unknown[0]!r}", hint=hint)
    return named


def by_name(given: Mapping[str, Given], names: Sequence[str], what: str, option: str) -> dict[str, Given]:
    """Give each thing the name of its input or output of a model, of which "" means the only one.

    Raises:
        InputError: there is not one, or it is given twice.
    """
    if "" in given and len(names) != 1:
        raise InputError(
            f"the model has {len(names)} {what}s: say which with {option} {names[0] if names else 'NAME'}=FILE",
            hint=f"{what}s: {', '.join(map(repr, names)) or 'none'}",
        )
    if "" in given and names[0] in given:
        raise InputError(f"{option} is given twice for {names[0]!r}")
    return {name or names[0]: value for name, value in given.items()}


def write_results(results: Mapping[str, Value], files: Mapping[str, Path]) -> None:
    """Write outputs to ``.npy`` files, by name; bfloat16 as float32. `InputError` before any is written that cannot."""
    arrays = {name: storable(name, results[name]) for name in files}
    for name, target in files.items():
        if target.suffix == ".npz":
            write_npz(target, {name: arrays[name]})
        else:
            write_npy(target, arrays[name])


def write_all(results: Mapping[str, Value], target: Path) -> None:
    """Write all outputs to one ``.npz`` file; bfloat16 as float32."""
    write_npz(target, {name: storable(name, value) for name, value in results.items()})


@contextmanager
def errors_in(source: Source) -> Generator[None]:
    """Errors inside say the file they are about, where the model is a file."""
    file = "" if isinstance(source, onnx.ModelProto) else str(Path(source))
    try:
        yield
    except ConvcError as error:
        if not error.where.startswith(file):
            error.where = f"{file}: {error.where}" if error.where else file
        raise


def _floating(dtype: np.dtype) -> bool:
    return dtype.name in ("float16", "bfloat16", "float32", "float64")
