"""The verbs `run` and `run_layer`: one layer of a build, on the kernel's text as it is in the folder."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from convc.api.arguments import array_or_file, file_name, layer_names
from convc.api.inputs import BuildSource, InputData, opened, run_options
from convc.api.kept import check_kept
from convc.api.options import MachineOptions
from convc.build.folder import Layer
from convc.errors import InputError
from convc.runtime import layer as runtime
from convc.runtime.gradients import as_model, ready_for
from convc.runtime.layer import LayerRun, read_beside, read_inputs
from convc.support.arrays import write_npz
from convc.support.files import check_target, write_npy
from convc.support.progress import Progress, Tell

LayerInput = np.ndarray | str | Path | bytes | InputData
"""Activations, the file that holds them or its bytes; or how they come about."""


def run(
    build: BuildSource,
    x: LayerInput,
    layer: str | None = None,
    *,
    residual: np.ndarray | str | Path | None = None,
    dy: np.ndarray | str | Path | None = None,
    machine: MachineOptions | None = None,
    progress: Tell | None = None,
) -> np.ndarray:
    """The result of one layer of a build; arguments and errors are those of `run_layer`.

    Example:
        >>> build = convc.compile("tiny_two_convs.onnx", "build")
        >>> y = convc.run(build, np.ones((1, 3, 16, 16), np.float32), layer="stem")
        >>> y.shape
        (1, 16, 8, 8)
    """
    return run_layer(build, x, layer, residual=residual, dy=dy, machine=machine, progress=progress).y


def run_layer(
    build: BuildSource,
    x: LayerInput,
    layer: str | None = None,
    *,
    residual: np.ndarray | str | Path | None = None,
    dy: np.ndarray | str | Path | None = None,
    save: str | Path | None = None,
    machine: MachineOptions | None = None,
    progress: Tell | None = None,
) -> LayerRun:
    """Run one layer of a build, and keep what the simulator noticed and counted.

    Args:
        build: a folder, or an open build.
        x: activations (N, C, H, W), which are rounded to the kernel's operand type; or the ``.npy`` or ``.npz`` file
            that holds them (in the latter as ``x``, beside ``residual`` or ``dy``), which is checked before it is
            loaded. Of a gradient by the input: the gradient of the output.
        layer: its name; not needed where there is only one.
        residual: (N, K, P, Q) or its file, where the layer's epilogue adds one; of a gradient the one that it is added
            to.
        dy: the gradient of the output (N, K, P, Q) or its file, where the layer is a gradient by the weights.
        save: ``.npy`` file to write the result to, or ``.npz``, where it is ``y``; bfloat16 as float32. Nothing is
            written where ``ok`` is not.
        machine: how the simulator reads the kernel.
        progress: called with what is being done and the share of it that is done, 0 to 1.

    Returns:
        The result (N, K, P, Q) as ``y``, of a gradient by the weights (K, C/G, R, S), with findings and counters;
        ``ok`` where the simulator found nothing wrong.

    Raises:
        InputError: there is no such layer, or several and no name; or x or the residual does not fit it.
        BuildError, LaunchError, PtxSyntaxError, UnmodelledError: the folder or its kernel is damaged.
        MachineFault, DeadlockError: the kernel fails.

    Example:
        >>> build = convc.compile("tiny_conv.onnx", "build")
        >>> done = convc.run_layer(build, np.ones((1, 16, 12, 12), np.float16))
        >>> done.verdict.name, done.counters.ctas
        ('clean', 4)
    """
    source = opened(build)
    data = x if isinstance(x, InputData) else InputData(arrays=x)
    if not isinstance(x, bytes | InputData):
        array_or_file(x, "x")
    for name, beside in (("residual", residual), ("dy", dy)):
        if beside is not None:
            array_or_file(beside, name)
    layer_names(layer)
    file_name(save, "save")
    data.check()
    files = [Path(file) for file in (data.arrays, residual, dy) if isinstance(file, str | Path)]
    for target in (Path(file) for file in (save, data.save) if file is not None):
        check_target(target)
        check_kept(target, [source.path, *files])
    options = run_options(machine)
    ready = source.load(layer)
    beside = {name: read_beside(name, array, ready) for name, array in (("residual", residual), ("dy", dy))}
    arrays = layer_inputs(data, ready, **beside)
    data.keep(arrays)
    told = Progress(progress).launch(f"run {ready.name}")
    bound, activations, added = ready_for(ready, arrays)
    done = runtime.run_layer(bound, activations, options, progress=told, residual=added)
    done = dataclasses.replace(done, y=as_model(ready, done.y))
    if save is not None and done.ok:
        write_output(Path(save), runtime.to_standard_dtype(done.y))
    return done


def write_output(target: Path, y: np.ndarray) -> None:
    """Write the result of a layer, as ``.npy``, or as ``y`` of a ``.npz``."""
    if target.suffix == ".npz":
        write_npz(target, {"y": y})
    else:
        write_npy(target, y)


def layer_inputs(
    data: InputData, layer: Layer, residual: np.ndarray | None = None, dy: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """The arrays that a layer takes by name: ``x``, and ``residual`` or ``dy`` where it has one."""
    where = f"layer {layer.name!r}"
    beside = {name: array for name, array in (("residual", residual), ("dy", dy)) if array is not None}
    drawn = {} if data.seed is None else runtime.random_inputs(layer, data.seed)
    if data.arrays is None:
        if data.seed is None:
            raise InputError(
                "the input is missing", where=where, hint="give it with --input X.npy, or a random one with --seed N"
            )
        arrays: dict[str, np.ndarray] = {}
    elif isinstance(data.arrays, str | Path | bytes):
        arrays = read_inputs(data.arrays if isinstance(data.arrays, bytes) else Path(data.arrays), layer)
    else:
        arrays = {"x": data.arrays}
    for name in arrays.keys() & beside.keys():
        raise InputError(f"{'the residual' if name == 'residual' else name} is given twice", where=where)
    return drawn | arrays | beside
