"""The verbs `run` and `run_layer`: one layer of a build, on the kernel's text as it is in the folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from convc.api.arguments import array_or_file, layer_names
from convc.api.inputs import BuildSource, opened, run_options
from convc.api.kept import check_kept
from convc.api.options import MachineOptions
from convc.runtime import layer as runtime
from convc.runtime.layer import LayerRun, read_input, read_residual
from convc.support.files import check_target, write_npy
from convc.support.progress import Progress, Tell


def run(
    build: BuildSource,
    x: np.ndarray | str | Path,
    layer: str | None = None,
    *,
    residual: np.ndarray | str | Path | None = None,
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
    return run_layer(build, x, layer, residual=residual, machine=machine, progress=progress).y


def run_layer(
    build: BuildSource,
    x: np.ndarray | str | Path,
    layer: str | None = None,
    *,
    residual: np.ndarray | str | Path | None = None,
    save: str | Path | None = None,
    machine: MachineOptions | None = None,
    progress: Tell | None = None,
) -> LayerRun:
    """Run one layer of a build, and keep what the machine noticed and counted.

    Args:
        build: a folder, or an open build.
        x: activations (N, C, H, W), which are rounded to the kernel's operand type; or the ``.npy`` file that holds
            them, which is checked before it is loaded.
        layer: its name; not needed where there is only one.
        residual: (N, K, P, Q) or its file, where the layer's epilogue adds one.
        save: ``.npy`` file to write the result to, bfloat16 as float32; nothing is written where ``ok`` is not.
        machine: how the machine reads the kernel.
        progress: called with what is being done and the share of it that is done, 0 to 1.

    Returns:
        The result (N, K, P, Q) as ``y``, with findings and counters; ``ok`` where the machine found nothing wrong.

    Raises:
        InputError: there is no such layer, or several and no name; or x or the residual does not fit it.
        BuildError, LaunchError, PtxSyntaxError, UnmodelledError: the folder or its kernel is damaged.
        MachineFault, DeadlockError: the kernel fails.

    Example:
        >>> build = convc.compile("tiny_conv.onnx", "build")
        >>> done = convc.run_layer(build, np.ones((1, 16, 12, 12), np.float16))
        >>> done.verdict.name, done.counters.ctas
        ('clean', 2)
    """
    source = opened(build)
    array_or_file(x, "x")
    if residual is not None:
        array_or_file(residual, "residual")
    layer_names(layer)
    if save is not None:
        check_target(Path(save))
        files = [Path(given) for given in (x, residual) if isinstance(given, str | Path)]
        check_kept(Path(save), [source.path, *files])
    options = run_options(machine)
    ready = source.load(layer)
    where = f"layer {ready.name!r}"
    if not isinstance(x, np.ndarray):
        x = read_input(Path(x), ready.layout, where)
    if isinstance(residual, str | Path):
        residual = read_residual(Path(residual), ready.layout, where)
    told = Progress(progress).launch(f"run {ready.name}")
    done = runtime.run_layer(ready, x, options, progress=told, residual=residual)
    if save is not None and done.ok:
        write_npy(Path(save), runtime.to_standard_dtype(done.y))
    return done
