"""The verb `verify`: results compared with a float64 reference.

Of every convolution of a model by itself; or of a whole network, with random weights, or with its own on data of the
caller's.
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
from convc.frontend.input_shapes import check_batch_size
from convc.frontend.onnx_reader import Source
from convc.ir.network import Network
from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.io import Feeds, cast_feeds, errors_in, open_graph, open_model, read_named, targets_of
from convc.support.progress import Progress
from convc.verification import outputs
from convc.verification.layer import check_layer, modes_of
from convc.verification.network import NetworkCase, expected_by_oracle, random_case, verify_network
from convc.verification.records import LayerReport, Tolerance, VerifyReport
from convc.workers.jobs import check_all, one_thread, worth_sending


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


def verify(  # noqa: PLR0913 - each is one choice, and most are left out
    model: Model,
    layer: LayerNames | None = None,
    *,
    seed: int = 0,
    mode: str | None = None,
    sample: int | None = None,
    feeds: Feeds | InputData | None = None,
    expected: Expected | None = None,
    host: str = "auto",
    read: ReadOptions | None = None,
    schedule: ScheduleOptions | None = None,
    machine: MachineOptions | None = None,
    work: WorkOptions | None = None,
) -> VerifyReport:
    """Compile the convolutions of a model, run the text on the simulator, and compare with the float64 reference.

    Args:
        model: a file, a loaded model, or for all but a whole network what `load` gives.
        layer: verify this one alone: a name or a pattern, or several.
        seed: of the data; at least 0.
        mode: of each convolution by itself integer (bit for bit), normal (the model's weights, derived bound), or both.
            Of the whole network: network, each convolution on what its neighbours made; on ``feeds`` with the model's
            weights, or else with random weights, where nothing is fused and quantised convolutions keep their own.
            None: network where there are feeds, both elsewhere.
        sample: run only so many CTAs of each layer at random, and one for each border and corner of the image, and
            compare what these write; None: all of them. For layers that are too large to be run as a whole.
        feeds: as of `run_network`: an array for each input, files, or `InputData`, which also draws them.
        expected: of the outputs of a network that is run on ``feeds``.
        host: who runs the nodes of a network that are no convolutions, as for `run_network`.
        read: how the model is read. Of a network with random weights ``batch`` stands for extents that the inputs leave
            open, 1 by default; on feeds it is left out, as these have all extents.
        schedule: which schedules to consider; all of them by default.
        machine: how the simulator reads the kernels.
        work: where layers are verified, and kernels kept; a network is run in this process.

    Returns:
        A report on each layer; ``report.ok`` says whether all is right, and ``report.sampled`` how much of them was
        looked at. Of a network ``report.network`` has its outputs, with the rule that decided about each.

    Raises:
        InputError: an argument has a value that does not exist, or there is no such layer, input or output.
        LimitError, PlanError, WorkerError: a layer has no kernel or does not fit, or workers or a cluster fail.
        ModelError, NodeError, ProblemError: a network cannot be read, or has a node that no host can run.
        MachineFault, DeadlockError: a kernel of a network fails.

    Example:
        >>> report = convc.verify("tiny_two_convs.onnx", seed=7)
        >>> report
        <VerifyReport tiny_two_convs: 2 of 2 layers right, 2 kernels, seed 7>
        >>> report.layers[0].counters.tma_loads["filter"].bytes
        5120
        >>> x = np.ones((1, 3, 16, 16), np.float32)
        >>> report = convc.verify("tiny_two_convs.onnx", feeds=x)
        >>> report.ok, report.network.outputs[0].decided_by
        (True, 'relative RMS error')
        >>> convc.verify("tiny_two_convs.onnx", mode="network", seed=1)
        <VerifyReport tiny_two_convs: 2 of 2 layers right, 1 of 1 outputs right, 2 kernels, seed 1>
    """
    seed = whole(seed, "seed")
    chosen = given_options(work, WorkOptions, "work")
    wanted = given_options(expected, Expected, "expected")
    options = run_options(machine)
    if mode == "network" or (mode is None and feeds is not None):
        if layer is not None or sample is not None:
            raise InputError("a whole network is run: leave layer and sample out")
        check_whole(model, chosen)
        assert not isinstance(model, Network)
        reading = given_options(read, ReadOptions, "read")
        with open_kernels(schedule, chosen) as kernels:
            runner = convolutions_of(kernels, reading, options)
            if feeds is None:
                case = _random_case(model, seed, runner, host, reading)
            else:
                case = _own_case(model, feeds, wanted, runner, host, reading)
            with errors_in(model):
                return verify_network(case, Progress(chosen.progress))
    if feeds is not None or expected is not None or host != "auto":
        raise InputError("feeds, expected and host are for a whole network", hint="give feeds, and leave mode out")
    if sample is not None:
        sample = whole(sample, "sample")
    modes = modes_of(mode or "both")
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
                with one_thread():
                    report = check_layer(
                        conv, kernel, seed=seed, modes=modes, sample=sample, options=options, progress=part
                    )
                reports.append(report)
    return VerifyReport(
        source=network.name, seed=seed, layers=tuple(reports), kernels=len(kernels), skipped=network.skipped
    )


def _random_case(model: Source, seed: int, runner: Convolutions, host: str, read: ReadOptions) -> NetworkCase:
    """A network with random weights and inputs."""
    check_extents(read)
    check_batch_size(read.batch)
    check_reading(model, read)
    extents = read.shapes or read.batch
    with errors_in(model):
        loaded, folder = open_model(model)
        return random_case(
            loaded, seed=seed, folder=folder, batch=extents, say=read.say, convolutions=runner, host=host
        )


def _own_case(
    model: Source, feeds: Feeds | InputData, wanted: Expected, runner: Convolutions, host: str, read: ReadOptions
) -> NetworkCase:
    """A network with its own weights on data of the caller's."""
    data = feeds if isinstance(feeds, InputData) else InputData(arrays=feeds)
    if data is not feeds:
        check_given(feeds)
    data.check()
    if read.batch is not None:
        raise InputError("the inputs that are given set the batch: leave batch out")
    tolerance = _tolerance(wanted)
    graph = open_graph(model, runner, host=host, fuse=read.fuse)
    arrays = cast_feeds(graph, drawn_feeds(graph, data, read))
    if wanted.outputs is None:
        with errors_in(model):
            expected = expected_by_oracle(*open_model(model), arrays)
    else:
        targets = targets_of(graph, read_named(wanted.outputs, graph.outputs, "output"), "--expect")
        expected = outputs.Expected(outputs=targets, oracle=outputs.GIVEN)
    return NetworkCase(
        graph=graph,
        convolutions=runner,
        feeds=arrays,
        expected=replace(expected, tolerance=tolerance),
        remake=lambda other: open_graph(model, other, host=host, fuse=False),
        seed=data.seed,
    )


def _tolerance(wanted: Expected) -> Tolerance | None:
    """The tolerance that was asked for; None: none was."""
    for name, value in (("atol", wanted.atol), ("rtol", wanted.rtol)):
        if value is not None and not 0 <= value < math.inf:
            raise InputError(f"{name} must be a number of at least 0, got {value}")
    if wanted.atol is None and wanted.rtol is None:
        return None
    return Tolerance(atol=wanted.atol or 0.0, rtol=wanted.rtol or 0.0)
