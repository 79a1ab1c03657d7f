"""The verb `gradients`: those of one convolution on arrays, by kernels that are compiled and run on the simulator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from convc.api.arguments import array_or_file, given_options, layer_names
from convc.api.inputs import run_options
from convc.api.models import Model, chosen_convolutions, read_network
from convc.api.options import MachineOptions, ReadOptions, ScheduleOptions, WorkOptions
from convc.api.working import open_kernels
from convc.errors import InputError, MachineFault
from convc.ir import dtypes
from convc.ir.gradients import accumulated, dgrad_node, wgrad_node
from convc.ir.network import ConvNode, TensorRef
from convc.ir.problem import ConvProblem
from convc.runtime.gradients import as_model, ready_for
from convc.runtime.layer import FLOATS, run_layer
from convc.runtime.network.convolutions import Convolutions
from convc.support.files import read_npy

Given = np.ndarray | str | Path
"""An array, or its ``.npy`` file."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConvGradients:
    """The gradients of a loss by what a convolution takes, of the type of its result.

    Attributes:
        dx: by its input, (N, C, H, W).
        dw: by its filters, (K, C/G, R, S); of a transposed convolution (C, K/G, R, S).
        db: by its bias, whether it has one or not, (K,): dy added up over images and pixels in float64, on the host.
    """

    dx: np.ndarray
    dw: np.ndarray
    db: np.ndarray


def gradients(  # noqa: PLR0913 - each is one choice, and most are left out
    model: Model | ConvProblem,
    x: Given,
    dy: Given,
    layer: str | None = None,
    *,
    w: Given | None = None,
    dx: Given | None = None,
    dw: Given | None = None,
    db: Given | None = None,
    read: ReadOptions | None = None,
    schedule: ScheduleOptions | None = None,
    machine: MachineOptions | None = None,
) -> ConvGradients:
    """The gradients of one convolution at x, for the gradient dy of a loss by its result.

    What the model has behind the convolution takes no part: dy is the gradient by the result of the convolution itself.

    Args:
        model: that has the convolution; or its numbers.
        x: its input, (N, C, H, W), rounded to the type that is multiplied.
        dy: (N, K, P, Q), in the same way.
        layer: the convolution's name; not needed where the model has only one.
        w: its filters (K, C/G, R, S), where numbers are given, or others than the model's are wanted.
        dx, dw, db: old gradients to add to, rounded to the type of the result: dx and dw are added by the kernels
            before they round (beta = 1), db on the host.
        read, schedule: how the model is read and its kernels are planned.
        machine: how the simulator reads kernels.

    Returns:
        dx and dw as their kernels make them on the simulator, and db.

    Raises:
        InputError: there are several convolutions and no name, an array has another shape, or w is missing.
        ProblemError: the convolution has no such gradient.
        PlanError: there is no kernel for it.
        MachineFault: a kernel fails.

    Example:
        >>> x, dy = np.ones((1, 16, 12, 12), np.float32), np.ones((1, 24, 12, 12), np.float32)
        >>> made = convc.gradients("tiny_conv.onnx", x, dy)
        >>> made.dx.shape, made.dw.shape, made.db[0]
        ((1, 16, 12, 12), (24, 16, 3, 3), np.float16(144.0))
    """
    arrays = {name: _array(given, name) for name, given in (("x", x), ("dy", dy))}
    conv = _convolution(model, layer, None if w is None else _array(w, "w"), read)
    forward = conv.problem
    for name, shape in (("x", forward.x_shape), ("dy", forward.y_shape)):
        _check_shape(name, arrays[name], shape, conv.name)
    shapes = {"dx": forward.x_shape, "dw": forward.w_shape, "db": (forward.out_channels,)}
    given = {"dx": dx, "dw": dw, "db": db}
    old = {name: _array(each, name) for name, each in given.items() if each is not None}
    for name, array in old.items():
        _check_shape(name, array, shapes[name], conv.name)
    with open_kernels(schedule, WorkOptions()) as kernels:
        runner = Convolutions(kernels=kernels, machine=run_options(machine))
        made_dx = _made(runner, dgrad_node(conv), {"x": arrays["dy"]}, old.get("dx"))
        made_dw = _made(runner, wgrad_node(conv), arrays, old.get("dw"))
    sums = arrays["dy"].astype(np.float64).sum(axis=(0, *range(2, arrays["dy"].ndim)))
    if "db" in old:
        sums += dtypes.quantise(forward.out_dtype, old["db"])
    return ConvGradients(dx=made_dx, dw=made_dw, db=dtypes.encode(forward.out_dtype, sums))


def _made(runner: Convolutions, conv: ConvNode, arrays: dict[str, np.ndarray], old: np.ndarray | None) -> np.ndarray:
    """What the kernel of a gradient makes, added to the old gradient where there is one."""
    layer = runner.layer(conv if old is None else accumulated(conv))
    bound, activations, residual = ready_for(layer, arrays if old is None else {**arrays, "residual": old})
    run = run_layer(bound, activations, runner.machine, residual=residual)
    if not run.ok:
        raise MachineFault(f"the kernel came to an end, but {run.findings[0]}", where=f"layer {conv.name!r}")
    return as_model(layer, run.y)


def _convolution(
    model: Model | ConvProblem, layer: str | None, w: np.ndarray | None, read: ReadOptions | None
) -> ConvNode:
    """The convolution without what may be fused into it, with its filters."""
    if isinstance(model, ConvProblem):
        if layer is not None or read is not None:
            raise InputError("layer and read are of a model, and the numbers of one convolution are given")
        conv = _alone(model)
    else:
        layer_names(layer)
        conv = _named(model, layer, read)
    if w is None and conv.weight is None:
        raise InputError(f"the filters are missing: give w of shape {list(conv.problem.w_shape)}", where=conv.name)
    if w is None:
        return conv
    _check_shape("w", w, conv.problem.w_shape, conv.name)
    return replace(conv, weight=dtypes.quantise(conv.problem.filter_dtype, w))


def _named(model: Model, layer: str | None, read: ReadOptions | None) -> ConvNode:
    """The convolution of a model that is meant."""
    chosen = given_options(read, ReadOptions, "read")
    if chosen.gradient is not None:
        raise InputError("gradients takes a model forward: leave ReadOptions.gradient out")
    network = read_network(model, replace(chosen, fuse=False), layer)
    named = chosen_convolutions(network, layer)
    if len(named) != 1:
        names = ", ".join(conv.name for conv in named)
        raise InputError(f"the gradients are of one convolution: name it with layer, one of {names}")
    (conv,) = named
    where = f"layer {conv.name!r}"
    if conv.fused:
        raise InputError(f"{', '.join(conv.fused)} is fused into it", where=where, hint="convc.load(model, fuse=False)")
    if conv.gradient is not None:
        raise InputError("it is a gradient already", where=where, hint="convc.run_network runs it on arrays")
    return conv


def _alone(problem: ConvProblem) -> ConvNode:
    """A convolution of no model."""
    x = TensorRef(name="x", dtype=problem.operand, shape=problem.x_shape)
    y = TensorRef(name="y", dtype=problem.out, shape=problem.y_shape)
    return ConvNode(name=problem.name, problem=problem, input=x, weight=None, bias=None, output=y)


def _array(array: Given, name: str) -> np.ndarray:
    array_or_file(array, name)
    return array if isinstance(array, np.ndarray) else read_npy(Path(array))


def _check_shape(name: str, array: np.ndarray, shape: tuple[int, ...], layer: str) -> None:
    if array.shape != shape:
        raise InputError(f"expected {name} of shape {list(shape)}, got {list(array.shape)}", where=f"layer {layer!r}")
    if array.dtype.name not in FLOATS:
        raise InputError(f"expected {name} of {', '.join(FLOATS)}, got {array.dtype}", where=f"layer {layer!r}")
