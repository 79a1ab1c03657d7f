"""Models as the verbs are given them, and the convolutions that a verb works on."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from convc.api.arguments import file_or, given_options, layer_names
from convc.api.options import ReadOptions
from convc.build.selection import LayerNames, names_of, pick_layers
from convc.errors import InputError, NodeError
from convc.frontend.asked import check_batch, check_operands
from convc.frontend.model_file import load_model
from convc.frontend.onnx_reader import Source, read_model
from convc.ir.gradients import gradient_network
from convc.ir.network import CONVOLUTIONS, ConvNode, Network

Model = Source | Network
"""A model: its file, as onnx has loaded it, or as `convc.load` has read it."""


def read_network(model: Model, options: ReadOptions | None = None, layer: LayerNames | None = None) -> Network:
    """The network of a model.

    Args:
        options: how to read it; batch, dtype and precision of a `Network` are settled already.
        layer: where any is named, the others need not be of a kind that convc compiles.
    """
    chosen = given_options(options, ReadOptions, "read")
    check_model(model)
    layer_names(layer)
    if isinstance(model, Network):
        settled = (chosen.batch, chosen.dtype, chosen.precision, chosen.gradient)
        if settled != (None,) * 4 or chosen.accumulate or chosen.shapes:
            raise InputError(
                "a loaded network already has batch, shapes, dtype, precision and gradient: give them to convc.load"
            )
        return model
    check_extents(chosen)
    if chosen.accumulate and chosen.gradient is None:
        raise InputError(
            "accumulate adds gradients to old ones, and no gradient is asked for",
            hint="give gradient (--gradient) input, weights or both",
        )
    network = read_model(
        model,
        batch=chosen.shapes or chosen.batch,
        operand=chosen.dtype,
        precision=chosen.precision,
        skip_refused=layer is not None,
        fuse=chosen.fuse and chosen.gradient is None,
    )
    try:
        if chosen.batch is not None:
            check_batch(load_model(Path(model)) if isinstance(model, str | Path) else model, chosen.batch)
        if chosen.dtype is not None or chosen.precision is not None:
            check_operands(chosen_convolutions(network, layer), chosen.dtype, chosen.precision)
    except InputError as error:
        error.where = error.where or (str(model) if isinstance(model, str | Path) else name_of(model))
        raise
    if chosen.say is not None:
        for sentence in network.assumed:
            chosen.say(sentence)
    return gradient_network(network, chosen.gradient, accumulate=chosen.accumulate)


def say_left_out(network: Network, read: ReadOptions | None, layer: LayerNames | None) -> None:
    """Say which convolutions were left out and why, for verbs whose reports have no place for that."""
    say = None if read is None else read.say
    if say is None or layer is not None:
        return
    reasons: dict[str, list[str]] = {}
    for node in network.skipped:
        if node.op_type in CONVOLUTIONS:
            reasons.setdefault(node.reason, []).append(node.name)
    for reason, names in reasons.items():
        say(f"left out: {', '.join(names)}: {reason}")


def check_extents(read: ReadOptions) -> None:
    """Raise `InputError` where both the batch and shapes are given."""
    if read.shapes and read.batch is not None:
        raise InputError("batch and shapes both set the number of images: give one of them")


def check_model(model: object) -> None:
    """Raise `InputError` for what is no model at all."""
    file_or(model, (*get_args(Source), Network), "model", "a file, an onnx.ModelProto, or what convc.load gives")


def chosen_convolutions(network: Network, layer: LayerNames | None) -> tuple[ConvNode, ...]:
    """The convolutions to work on: all, or those that are named.

    Raises:
        NodeError: a node that is named is no convolution, or was fused into one.
        InputError: there is none of a name.
    """
    for name in () if layer is None else names_of(layer):
        _check_node(network, name)
    return pick_layers(network.convs, layer, network.name)


def _check_node(network: Network, name: str) -> None:
    """NodeError where the node of that name has no kernel of its own."""
    for conv in network.convs:
        if name in conv.fused:
            hint = f"compile {conv.name}, or use --no-fuse"
            raise NodeError(f"fused into convolution {conv.name!r}", where=f"node {name!r}", hint=hint)
    for node in network.skipped:
        if node.name == name:
            raise NodeError(node.reason, where=f"node {name!r} ({node.op_type})")


def name_of(model: Model) -> str:
    """The name of a model while it is being read."""
    if isinstance(model, str | Path):
        return Path(model).name
    return model.name if isinstance(model, Network) else model.graph.name
