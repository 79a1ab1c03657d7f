"""Opening an ONNX file: bytes to a protobuf message that is really a model of a version we know.

Protobuf has no magic number, and an empty or unrelated file can parse, so the header is checked field by
field.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx

from convc.errors import ModelError
from convc.support.memory import human_bytes, require_memory
from convc.support.missing import is_missing, no_file

ONNX_DOMAINS = ("", "ai.onnx")
"""Both spellings of the domain of standard operators."""

MIN_IR = 3
MIN_OPSET = 7
MAX_FILE_BYTES = (1 << 31) - 1
"""Protobuf's own limit for one message; larger models keep their weights in external files."""


def load_model(path: Path) -> onnx.ModelProto:
    """Read and check the header of a model; external weights stay where they are.

    Raises:
        ModelError: not readable, not ONNX, cut short, or of a version outside IR 3.. and opset 7...
        LimitError: larger than memory.
    """

    def bad(message: str, hint: str = "") -> ModelError:
        return ModelError(message, where=str(path), hint=hint)

    if is_missing(path):
        raise no_file(path, ModelError)
    try:
        size = path.stat().st_size
        if not path.is_file():
            built = (path / "network.json").is_file()
            hint = "this is a build folder: use convc run or convc check" if built else "name the .onnx file"
            raise bad("the model must be a regular file", hint)
        require_memory(2 * size, f"reading {path.name}")
        if size > MAX_FILE_BYTES:
            raise bad(
                f"the file has {human_bytes(size)}; one protobuf message holds 2 GiB at most",
                hint="save the model with external data",
            )
        data = path.read_bytes()
    except OSError as error:
        raise bad(f"cannot read the model: {error.strerror}") from None
    if not data:
        raise bad("the file is empty")
    return model_of(data, str(path))


def model_of(data: bytes, where: str) -> onnx.ModelProto:
    """Read a model from the bytes of its file and check its header; `ModelError` as of `load_model`."""
    try:
        model = onnx.ModelProto.FromString(data)
    except Exception:  # whatever protobuf raises: its exception classes live in a package that onnx hides
        message = "not an ONNX model, or cut short: the bytes are not a protobuf message"
        raise ModelError(message, where=where, hint=_likeness(data)) from None
    try:
        check_header(model, where)
    except ModelError as error:
        error.hint = error.hint or _likeness(data)
        raise
    return model


def _likeness(data: bytes) -> str:
    """A hint for bytes that are known to be something else; empty for all others."""
    looks = {
        b"version https://git-lfs": "this is a Git LFS pointer: run `git lfs pull`",
        b"<": "this is a web page or XML: was the download refused?",
        b"PK": "this is an archive: unpack it first",
        b"\x93NUMPY": "this is a numpy array: give it with --input",
        b".version": "this is a PTX kernel: use convc exec",
        b"{": "this is JSON",
    }
    return next((hint for start, hint in looks.items() if data[:100].lstrip().startswith(start)), "")


def opset_of(model: onnx.ModelProto) -> int | None:
    """The set of standard operators that a model uses; None where it has only others."""
    return max((entry.version for entry in model.opset_import if entry.domain in ONNX_DOMAINS), default=None)


def check_header(model: onnx.ModelProto, where: str = "", oldest_opset: int = MIN_OPSET) -> None:
    """Raise `ModelError` unless a message is a model of a version that convc knows, with a graph in it.

    With ``oldest_opset`` 0 it may have any operator set up to the newest, or none but those of other domains.
    """

    def bad(message: str, hint: str = "") -> ModelError:
        return ModelError(message, where=where, hint=hint)

    if not model.HasField("graph") or not model.graph.node:
        raise bad("not an ONNX model, or cut short: there is no graph with nodes in it")
    if not all(isinstance(text, str) for text in _names(model.graph)):
        raise bad("a name in the model is not valid UTF-8")
    if not MIN_IR <= model.ir_version <= onnx.IR_VERSION:
        raise bad(f"expected ONNX IR version {MIN_IR} to {onnx.IR_VERSION}, got {model.ir_version}")
    newest = onnx.defs.onnx_opset_version()
    opset = opset_of(model)
    if opset is None and not oldest_opset:
        return
    if opset is None:
        raise bad("the model does not say which ONNX operator set it uses, or is cut short")
    if not oldest_opset <= opset <= newest:
        raise bad(
            f"expected ONNX operator set {oldest_opset} to {newest}, got {opset}",
            hint="convert the model (onnx.version_converter), or install another version of the onnx package",
        )


def external_files(model: onnx.ModelProto, folder: Path) -> list[Path]:
    """The files in ``folder`` that hold weights of a model, each once.

    Source: `TensorProto.external_data` in onnx.proto, key ``location``.
    """
    files = {
        entry.value: folder / entry.value
        for tensor in tensors_of(model.graph)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return list(files.values())


def tensors_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every tensor that a graph and the graphs inside it hold."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            for inner in (attribute.g, *attribute.graphs):
                yield from tensors_of(inner)


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs among the attributes of a node (`If`, `Loop`, `Scan`)."""
    graphs = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return graphs + [graph for attribute in node.attribute for graph in attribute.graphs]


def _names(graph: onnx.GraphProto) -> Iterator[str | bytes]:
    """All names of a graph; protobuf hands out a name that is not UTF-8 as bytes."""
    yield graph.name
    for value in (*graph.input, *graph.output, *graph.initializer):
        yield value.name
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
