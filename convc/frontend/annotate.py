"""Results written back: a copy of a model whose nodes carry what was found out about them.

Viewers such as Netron show a node's ``metadata_props`` beside its attributes (`NodeProto`, field 9, ONNX IR 10). The
graph itself, its weights and all other metadata are as they were; but functions stand in the place of their calls, as
each call has notes of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx

from convc.errors import InputError
from convc.frontend.inline import inlined
from convc.frontend.model_file import load_model, tensors_of
from convc.frontend.onnx_reader import node_names
from convc.support.files import write_bytes

PREFIX = "convc."
"""How the keys start; a node's keys of an earlier run are replaced."""


def check_annotated(source: Path, target: Path) -> None:
    """Raise `InputError` where ``target`` cannot be a copy of the model: it is the model itself, or its weights are in
    files beside the model, which the copy would not find from another folder. (`ModelError`: it cannot be read.)
    """
    _refuse_target(source, target, load_model(source))


def annotate(source: Path, target: Path, notes: Mapping[str, Mapping[str, str]]) -> int:
    """Write a copy of a model with notes on its nodes.

    Args:
        source: the model.
        target: the copy, whole or not there.
        notes: by the name that a node has in a `Network`: keys, without `PREFIX`, and texts.

    Returns:
        How many nodes got notes.

    Raises:
        ModelError: the model cannot be read.
        InputError: see `check_annotated`, or the file cannot be written.
    """
    model = load_model(source)
    if model.functions:
        model = inlined(model)
    _refuse_target(source, target, model)
    count = 0
    for node, name in zip(model.graph.node, node_names(model.graph.node), strict=True):
        kept = [(entry.key, entry.value) for entry in node.metadata_props if not entry.key.startswith(PREFIX)]
        if len(kept) != len(node.metadata_props):
            del node.metadata_props[:]
            for key, value in kept:
                node.metadata_props.add(key=key, value=value)
        for key, value in notes.get(name, {}).items():
            node.metadata_props.add(key=PREFIX + key, value=value)
        count += name in notes
    write_bytes(target, model.SerializeToString())
    return count


def _refuse_target(source: Path, target: Path, model: onnx.ModelProto) -> None:
    if target.resolve() == source.resolve():
        raise InputError("the copy must have another name than the model", where=str(target))
    outside = next((t for t in tensors_of(model.graph) if t.data_location == onnx.TensorProto.EXTERNAL), None)
    if outside is not None and target.resolve().parent != source.resolve().parent:
        raise InputError(
            f"the model keeps weights ({outside.name!r}) in files beside it, which a copy in another folder would "
            "not find",
            where=str(target),
            hint=f"write the copy into {source.resolve().parent}",
        )
