"""The verbs `verify`, `verify_data` and `verify_network`: results compared with a float64 reference.

Of every convolution of a model by itself, of a whole network on data of the caller's with its own weights, and of one
with random weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from convc.api.arguments import given_options, whole
from convc.api.inputs import InputData, run_options
from convc.api.models import Model, check_extents, check_model, chosen_convolutions, name_of, read_network
from convc.api.networks import check_given, check_reading, check_whole, convolutions_of, drawn_feeds
from convc.api.options import MachineOptions, ReadOptions, ScheduleOptions, WorkOptions
from convc.api.working import open_kernels, open_pool
from convc.build.selection import LayerNames
from convc.errors import InputError
from convc.frontend.input_shapes import check_batch_size, open_inputs
from convc.frontend.onnx_reader import Source
from convc.runtime.network.io import Feeds, cast_feeds, errors_in, open_graph, open_model, read_named, targets_of
from convc.support.progress import Progress
from convc.verification.layer import modes_of
from convc.verification.network import verify_graph
from convc.verification.own_data import Wanted, oracle_outputs, verify_run
from convc.verification.records import DataReport, LayerReport, NetworkReport, Tolerance, VerifyReport
from convc.workers.jobs import check_all, check_one, worth_sending


def verify(  # noqa: PLR0913 - each is one choice, and most are left out
    model: Model,
    layer: LayerNames | None = None,
    *,
    seed: int = 0,
    mode: str = "both",
    sample: int | None = None,
    read: ReadOptions | None = None,
    schedule: ScheduleOptions | None = None,
    machine: MachineOptions | None = None,
    work: WorkOptions | None = None,
) -> VerifyReport:
    """Compile every convolution of a model (or one layer), run the text, and compare it with the reference.

    Args:
        model: a file, a loaded model, or a network (whose batch, dtype and precision were settled by `load`).
        layer: verify this one alone: a name or a pattern, or several.
        seed: of the data; at least 0.
        mode: integer (bit for bit), normal (the model's weights, derived bound), or both.
        sample: run only so many CTAs of each layer at random, and one for each border and corner of the image, and
            compare what these write; None: all of them. For layers that are too large to be run as a whole.
        read: how the model is read.
        schedule: which schedules to consider; all of them by default.
        machine: how the simulator reads the kernels.
        work: where layers are verified, and kernels kept.

    Returns:
        A report on each layer; ``report.ok`` says whether all are right, and ``report.sampled`` how much of them was
        looked at.

    Raises:
        InputError: an argument has a value that does not exist, or there is no such layer.
        LimitError, PlanError, WorkerError: a layer has no kernel or does not fit, or workers or a cluster fail.

    Example:
        >>> report = convc.verify("tiny_two_convs.onnx", seed=7)
        >>> report
        <VerifyReport tiny_two_convs: 2 of 2 layers right, 2 kernels, seed 7>
        >>> report.layers[0].counters.tma_loads["filter"].bytes
        5120
    """
    seed = whole(seed, "seed")
    if sample is not None:
        sample = whole(sample, "sample")
    modes = modes_of(mode)
    options = run_options(machine)
    chosen = given_options(work, WorkOptions, "work")
    check_model(model)
    told = Progress(chosen.progress)
    told(f"read {name_of(model)}", 0.0)
    network = read_network(model, read, layer)
    convs = chosen_convolutions(network, layer)
    reports: list[LayerReport] = []
    with open_kernels(schedule, chosen) as kernels, open_pool(chosen) as pool:
        here = sample is not None or not convs
        if pool is not None and pool.settle(lambda jobs: 1 if here else worth_sending(convs, modes, jobs)):
            reports += check_all(
                kernels, convs, pool, seed=seed, modes=modes, options=options, sample=sample, progress=told
            )
        else:
            for index, conv in enumerate(convs):
                part = told.piece(index, len(convs))
                part(f"compile {conv.name}", 0.0)
                kernel = kernels.compiled(conv.problem)
                reports.append(check_one(conv, kernel, sample, seed=seed, modes=modes, options=options, progress=part))
    return VerifyReport(
        source=network.name, seed=seed, layers=tuple(reports), kernels=len(kernels), skipped=network.skipped
    )


GIVEN = "the given arrays"
"""Who says what is right, where the caller does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Arrays and tolerances that the outputs of a network are held against.

    Attributes:
        outputs: arrays or files of some outputs by name, or of the only one; None: ask onnxruntime, or where it is not
            installed `onnx.reference`.
        atol, rtol: what an element may be off by, ``|got - expected| <= atol + rtol * |expected|``; where one is given
            the other is 0 by default, and the two decide alone. Where neither is, what rounding explains decides.
    """

    outputs: Feeds | None = None
    atol: float | None = None
    rtol: float | None = None


def verify_data(
    model: Source,
    feeds: Feeds | InputData,
    expected: Expected | None = None,
    *,
    host: str = "auto",
    read: ReadOptions | None = None,
    schedule: ScheduleOptions | None = None,
    machine: MachineOptions | None = None,
    work: WorkOptions | None = None,
) -> DataReport:
    """Run a network on data of one's own, with its own weights, and compare it layer by layer and end to end.

    Args:
        model: a file, or a loaded model.
        feeds: as of `run_network`: an array for each input, files, or `InputData`, which also draws them.
        expected: of the outputs.
        host: who runs the nodes that are no convolutions, as for `run_network`.
        read: how the model is read, but for ``batch``: the extents are those of the feeds.
        schedule: which schedules to consider; all of them by default.
        machine: how the simulator reads the kernels.
        work: where kernels are kept and who is told; the network is run in this process.

    Returns:
        A report on each convolution, by the derived bound, and on each output, with the rule that decided.

    Raises:
        InputError: an input or output that there is not, is missing, or has another shape or type.
        NodeError, ProblemError, PlanError: a convolution that convc does not compile, or a node that nobody can run.
        MachineFault, DeadlockError: a kernel fails.

    Example:
        >>> x = np.ones((1, 3, 16, 16), np.float32)
        >>> report = convc.verify_data("tiny_two_convs.onnx", x)
        >>> report.ok, report.outputs[0].decided_by
        (True, 'relative RMS error')
    """
    chosen = given_options(work, WorkOptions, "work")
    wanted = given_options(expected, Expected, "expected")
    check_whole(model, chosen)
    data = feeds if isinstance(feeds, InputData) else InputData(given=feeds)
    if data is not feeds:
        check_given(feeds)
    data.check()
    reading = given_options(read, ReadOptions, "read")
    if reading.batch is not None:
        raise InputError("the inputs that are given set the batch: leave batch out")
    tolerance = _tolerance(wanted)
    options = run_options(machine)
    with open_kernels(schedule, chosen) as kernels:
        convolutions = convolutions_of(kernels, reading, options)
        graph = open_graph(model, convolutions, host=host, fuse=reading.fuse)
        arrays = cast_feeds(graph, drawn_feeds(graph, data, reading))
        given = None
        if wanted.outputs is not None:
            given = targets_of(graph, read_named(wanted.outputs, graph.outputs, "output"), "--expect")
        with errors_in(model):
            judged = (
                oracle_outputs(*open_model(model), arrays) if given is None else Wanted(outputs=given, oracle=GIVEN)
            )
            report = verify_run(
                graph,
                arrays,
                replace(judged, tolerance=tolerance),
                convolutions,
                progress=Progress(chosen.progress),
                remake=lambda runner: open_graph(model, runner, host=host, fuse=False),
            )
    left_open = open_inputs((*graph.inputs, *graph.optional))
    return replace(report, shapes={name: arrays[name].shape for name in left_open if name in arrays})


def _tolerance(wanted: Expected) -> Tolerance | None:
    """The tolerance that was asked for; None: none was."""
    for name, value in (("atol", wanted.atol), ("rtol", wanted.rtol)):
        if value is not None and not 0 <= value < math.inf:
            raise InputError(f"{name} must be a number of at least 0, got {value}")
    if wanted.atol is None and wanted.rtol is None:
        return None
    return Tolerance(atol=wanted.atol or 0.0, rtol=wanted.rtol or 0.0)


def verify_network(
    model: Source,
    seed: int = 0,
    *,
    host: str = "auto",
    read: ReadOptions | None = None,
    schedule: ScheduleOptions | None = None,
    machine: MachineOptions | None = None,
    work: WorkOptions | None = None,
) -> NetworkReport:
    """Give every layer of a model random weights, run the network, and compare it layer by layer and end to end.

    Nothing is fused: every node is compared by itself. Quantised convolutions are integer ones, with their own weights.

    Args:
        model: a file, or a loaded model.
        seed: of weights and inputs; at least 0.
        host: who runs the nodes that are no convolutions, as for `run_network`.
        read: how the model is read; ``batch`` stands for extents that the inputs leave open, 1 by default, and ``fuse``
            has no say.
        schedule: which schedules to consider; all of them by default.
        machine: how the simulator reads the kernels.
        work: where kernels are kept and who is told; the network is run in this process.

    Returns:
        A report on each convolution, in the order in which they ran, and on each output.

    Raises:
        ModelError, NodeError: the model cannot be read, or has a node that nobody can run.
        InputError: an argument has a value that does not exist.

    Example:
        >>> report = convc.verify_network("tiny_two_convs.onnx", seed=1)
        >>> report
        <NetworkReport tiny_two_convs: 2 of 2 layers right, 2 kernels, seed 1>
        >>> report.departs is None
        True
    """
    chosen = given_options(work, WorkOptions, "work")
    check_whole(model, chosen)
    reading = given_options(read, ReadOptions, "read")
    seed = whole(seed, "seed")
    check_extents(reading)
    check_batch_size(reading.batch)
    options = run_options(machine)
    with open_kernels(schedule, chosen) as kernels, errors_in(model):
        convolutions = convolutions_of(kernels, reading, options)
        check_reading(model, reading)
        loaded, folder = open_model(model)
        return verify_graph(
            loaded,
            seed=seed,
            folder=folder,
            batch=reading.shapes or reading.batch,
            say=reading.say,
            convolutions=convolutions,
            host=host,
            progress=Progress(chosen.progress),
        )
