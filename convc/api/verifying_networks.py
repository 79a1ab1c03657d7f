"""The verb `verify_network`: a whole network with random weights, layer by layer and end to end."""

from __future__ import annotations

from convc.api.arguments import given_options, whole
from convc.api.inputs import run_options
from convc.api.models import check_extents
from convc.api.networks import check_reading, check_whole, convolutions_of
from convc.api.options import MachineOptions, ReadOptions, ScheduleOptions, WorkOptions
from convc.api.working import open_kernels
from convc.frontend.input_shapes import check_batch_size
from convc.frontend.onnx_reader import Source
from convc.runtime.network.io import errors_in, open_model
from convc.support.progress import Progress
from convc.verification.network import verify_graph
from convc.verification.records import NetworkReport


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
