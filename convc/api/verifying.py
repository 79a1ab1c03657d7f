"""The verb `verify`: every convolution of a model, compiled, run, and compared with a float64 reference."""

from __future__ import annotations

from convc.api.arguments import given_options, whole
from convc.api.inputs import run_options
from convc.api.models import Model, check_model, chosen_convolutions, name_of, read_network
from convc.api.options import MachineOptions, ReadOptions, ScheduleOptions, WorkOptions
from convc.api.working import open_kernels, open_pool
from convc.build.selection import LayerNames
from convc.support.progress import Progress
from convc.verification.layer import modes_of
from convc.verification.records import LayerReport, VerifyReport
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
