"""The verbs `run_model` and `run_network`: a whole model, its convolutions from their PTX, other nodes on the host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np

from convc.api.arguments import by_name, file_name, given_options
from convc.api.inputs import InputData, run_options
from convc.api.kept import check_kept
from convc.api.models import check_extents
from convc.api.networks import check_given, check_reading, check_whole, convolutions_of, drawn_feeds
from convc.api.options import MachineOptions, ReadOptions, WorkOptions
from convc.api.working import open_kernels
from convc.errors import InputError
from convc.frontend.onnx_reader import Source
from convc.runtime.network.feeds import check_feeds
from convc.runtime.network.io import (
    Feeds,
    cast_feeds,
    check_targets,
    errors_in,
    open_graph,
    targets_of,
    write_all,
    write_results,
)
from convc.runtime.network.stats import NetworkRun
from convc.support.progress import Progress


def run_model(
    model: Source,
    feeds: Feeds | InputData,
    *,
    host: str = "auto",
    read: ReadOptions | None = None,
    machine: MachineOptions | None = None,
    work: WorkOptions | None = None,
) -> dict[str, np.ndarray]:
    """The outputs of a whole model by name; arguments and errors are those of `run_network`.

    Example:
        >>> x = np.ones((1, 3, 16, 16), np.float32)
        >>> outputs = convc.run_model("tiny_two_convs.onnx", {"x": x})
        >>> {name: y.shape for name, y in outputs.items()}
        {'head.y': (1, 10, 8, 8)}
    """
    return run_network(model, feeds, host=host, read=read, machine=machine, work=work).outputs


def run_network(
    model: Source,
    feeds: Feeds | InputData,
    *,
    host: str = "auto",
    read: ReadOptions | None = None,
    machine: MachineOptions | None = None,
    save: Mapping[str, str | Path] | None = None,
    work: WorkOptions | None = None,
) -> NetworkRun:
    """Run a whole model, its convolutions from their PTX and all other nodes on the host.

    Args:
        model: a file, or a loaded model.
        feeds: for each input, by name, an array or the ``.npy`` file that holds it; one alone is that of the only
            input, or a ``.npz`` file that has the names. Floating-point ones are rounded to the type of the input.
            `InputData` also draws inputs at random, and writes those that are used to a file.
        host: who runs the nodes that are no convolutions: onnxruntime where it is installed and else onnx.reference
            (auto), onnxruntime, or reference. What one does not have or is known to get wrong is run by the other.
        read: how the model is read; ``batch`` is for inputs that are drawn, and ``shapes`` must be those of the feeds.
            Where ``fuse`` is on,
            convolutions take in the BatchNormalization, activations and residuals behind them, and read what others
            wrote without repacking where they can; weights with a folded BatchNormalization are rounded once more than
            without. Quantised convolutions become integer ones, where `convc.frontend.qdq_pattern` recognises them.
        machine: how the simulator reads the kernels.
        save: ``.npy`` files to write outputs to, by name; "" is the only output, or, if it is a ``.npz``, all of them.
        work: where kernels are kept and who is told; the network is run in this process.

    Returns:
        The outputs, and what ran where.

    Raises:
        InputError: an input is missing, or has another shape or type; there is no such output, or it cannot be written.
        NodeError, ProblemError, PlanError: a convolution that convc does not compile, or a node that no host can run.
        MachineFault, DeadlockError: a kernel fails.

    Example:
        >>> x = np.ones((1, 3, 16, 16), np.float32)
        >>> convc.run_network("tiny_two_convs.onnx", x).stats.compiled
        ['stem', 'head']
    """
    chosen = given_options(work, WorkOptions, "work")
    check_whole(model, chosen)
    data = feeds if isinstance(feeds, InputData) else InputData(arrays=feeds)
    if data is not feeds:
        check_given(feeds)
    by_name(save, "save", "names of files")
    for name, file in (save or {}).items():
        file_name(file, f"save[{name!r}]")
    reading = given_options(read, ReadOptions, "read")
    data.check()
    check_extents(reading)
    if reading.batch is not None and data.seed is None:
        raise InputError("the inputs that are given set the batch: batch is for random inputs (--seed)")
    options = run_options(machine)
    targets = {name: Path(file) for name, file in (save or {}).items()}
    check_targets(targets)
    for target in [*targets.values(), *([] if data.save is None else [Path(data.save)])]:
        check_kept(target, _files(model, data))
    with open_kernels(None, chosen) as kernels:
        convolutions = convolutions_of(kernels, reading, options)
        check_reading(model, reading)
        graph = open_graph(model, convolutions, host=host, fuse=reading.fuse)
        whole = targets.pop("") if targets.keys() == {""} and targets[""].suffix == ".npz" else None
        files = targets_of(graph, targets)
        arrays = cast_feeds(graph, drawn_feeds(graph, data, reading))
        with errors_in(model):
            check_feeds(graph.inputs, graph.optional, arrays)
        data.keep(arrays)
        with errors_in(model):
            results = graph.run(arrays, progress=Progress(chosen.progress))
    if whole is not None:
        write_all(results, whole)
        files = dict.fromkeys(results, whole)
    write_results(results, {} if whole is not None else files)
    return NetworkRun(outputs=results, stats=graph.stats, files=files)


def _files(model: Source, data: InputData) -> list[Path]:
    sources = cast("Mapping[str, object]", data.arrays).values() if isinstance(data.arrays, Mapping) else [data.arrays]
    return [Path(file) for file in (model, *sources) if isinstance(file, str | Path)]
