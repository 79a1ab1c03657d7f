"""The verb `verify_data`: a whole network with its own weights, on data of the caller's."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from convc.api.arguments import given_options
from convc.api.inputs import InputData, run_options
from convc.api.networks import check_given, check_whole, convolutions_of, drawn_feeds
from convc.api.options import MachineOptions, ReadOptions, ScheduleOptions, WorkOptions
from convc.api.working import open_kernels
from convc.errors import InputError
from convc.frontend.input_shapes import open_inputs
from convc.frontend.onnx_reader import Source
from convc.runtime.network.io import (
    Feeds,
    cast_feeds,
    errors_in,
    open_graph,
    open_model,
    read_named,
    targets_of,
)
from convc.support.progress import Progress
from convc.verification.own_data import Wanted, oracle_outputs, verify_run
from convc.verification.records import DataReport, Tolerance

GIVEN = "the arrays that were given"
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
        raise InputError("a run has the extents of its feeds: batch has no part in it")
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
