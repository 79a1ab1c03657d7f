"""The pieces of work that go to worker processes, and how they are done there.

What travels is plain data: a problem and options to a kernel, or a layer's numbers and weights with the text of its
kernel to a report. A worker needs no model file, no cache and no state; it refuses work of another convc than its own.
The same function does the work where there are no workers, so the bits are the same either way. Where the CTAs of a
layer are shared, whole numbers have the same bits, and others those of numpy's product over fewer CTAs: BLAS may sum
products of other sizes in another order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from convc.compiler.fingerprint import compiler_digest
from convc.compiler.kernels import Kernel, Kernels
from convc.errors import WorkerError
from convc.ir.launch import LaunchSpec
from convc.ir.network import ConvNode
from convc.ir.problem import ConvProblem
from convc.ir.sums import Sums, sums_of
from convc.machine import RunOptions
from convc.runtime.layer import LayerRun
from convc.support.blas import one_blas_thread
from convc.support.progress import SILENT, Progress
from convc.verification.layer import (
    Expected,
    check_layer,
    combined,
    expect_part,
    judged_in_parts,
    layer_report,
    run_part,
)
from convc.verification.layer_data import drawn_for
from convc.verification.records import Check, LayerReport, Mode
from convc.workers.compiling import compile_all, one_at_a_time, require_same
from convc.workers.pool import Pool, Task

PART_MACS = 1_000_000_000
"""Multiply-adds of a layer from which on its CTAs are shared among workers: about half a second."""

SHARED_CTAS = 100
"""CTAs of a layer from which on they are shared among workers that would have no other layer to do."""

COMPILING = 0.25
"""Part of the progress of a check that is compiling."""

WORTH_S = 4.0
"""Processes that need not be used are used for work that takes longer: starting them takes about a second."""

MACS_PER_S = 2e9
"""Multiply-adds of a layer that one process does in a second, about."""

LAUNCH_S = 0.015
"""Seconds that a layer takes however small it is, about."""

INPUT_BYTES = 20
"""Bytes that a check takes for each element of x or w, about: drawn, packed, and as float64 with padding."""

OUTPUT_BYTES = 48
"""Bytes that a check takes for each element of y, about: the result, and the reference with its bound."""

FREE_BYTES = 256 << 20
"""Layers that take no more together may be with processes at the same time, whatever one process would take."""

OWN_BYTES = 130 << 20
"""Bytes of a process before it does anything."""

MOST_MEMORY = 1.3
"""Times the memory of one process that processes may take which were not asked for."""


def part_job(
    digest: str, conv: ConvNode, kernel: Kernel, mode: Mode, seed: int, options: RunOptions, ctas: tuple[int, int]
) -> LayerRun | None:
    """Run some CTAs of a layer in a worker (see `convc.verification.layer.run_part`); errors as `check_job`."""
    require_same(digest)
    with one_thread():
        return run_part(conv, kernel, mode, seed, options, ctas)


def expected_job(digest: str, conv: ConvNode, mode: Mode, seed: int, images: tuple[int, int], sums: Sums) -> Expected:
    """Compute the reference for some images in a worker (see `convc.verification.layer.expect_part`)."""
    require_same(digest)
    with one_thread():
        return expect_part(conv, mode, seed, images, sums)


def check_job(
    digest: str,
    conv: ConvNode,
    kernel: Kernel,
    seed: int,
    modes: tuple[Mode, ...],
    options: RunOptions,
    runs: Mapping[Mode, LayerRun],
    sample: int | None,
) -> LayerReport:
    """Check a layer, or a sample of its CTAs, in a worker; ``runs`` are for a whole layer.

    Raises:
        LimitError: the data do not fit into memory.
        WorkerError: this is another convc.
    """
    require_same(digest)
    with one_thread():
        return check_layer(conv, kernel, seed=seed, modes=modes, sample=sample, options=options, runs=runs)


@contextmanager
def one_thread() -> Generator[None]:
    """One piece of work at a time, on one BLAS thread: workers fill the cores, and sums have one order."""
    with one_at_a_time, one_blas_thread():
        yield


def check_all(
    kernels: Kernels,
    convs: Sequence[ConvNode],
    pool: Pool,
    *,
    seed: int,
    modes: tuple[Mode, ...],
    options: RunOptions,
    sample: int | None = None,
    progress: Progress = SILENT,
) -> tuple[LayerReport, ...]:
    """Compile and check layers, or samples of them, in workers; reports in the order of the layers.

    A layer that loses its worker each time it is tried gets a report that says so; the others are not touched by it.

    Raises:
        PlanError, LimitError, WorkerError: see `compile_all` and `check_job`.
    """
    compile_all(kernels, convs, pool, progress.part(0.0, COMPILING))
    digest = compiler_digest()
    pieces: list[Task] = []
    places: list[int] = []
    reports: list[LayerReport | None] = [None] * len(convs)
    shares = _shares(convs, pool.slots)
    for place, conv in enumerate(convs):
        kernel = kernels.compiled(conv.problem)
        runs: dict[Mode, LayerRun] = {}
        if sample is None:
            parts = _in_parts(conv, kernel, pool, shares[place], seed, modes, options, progress)
            runs = parts.runs
            reports[place] = parts.report(conv, kernel, modes, seed)
        if reports[place] is None:
            arguments = (digest, conv, kernel, seed, modes, options, runs, sample)
            pieces.append(Task(name=conv.name, function=check_job, arguments=arguments))
            places.append(place)
    checking = progress.part(COMPILING, 1.0)
    done = len(convs) - len(pieces)
    checking(f"check {len(convs)} layers", done / len(convs))
    for count, (index, report) in enumerate(pool.run(pieces), done + 1):
        conv = convs[places[index]]
        if isinstance(report, WorkerError):
            report = _lost(conv, kernels.compiled(conv.problem), modes, report)
        reports[places[index]] = report
        checking(f"{conv.name} ({count} of {len(convs)} layers)", count / len(convs))
    return tuple(report for report in reports if report is not None)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A large layer as workers found it, by mode: runs of all CTAs, and the reference for all images."""

    runs: dict[Mode, LayerRun]
    expected: dict[Mode, list[Expected]]

    def report(self, conv: ConvNode, kernel: Kernel, modes: Sequence[Mode], seed: int) -> LayerReport | None:
        """The report that `check_layer` would make; None where something is missing or wrong."""
        checks: list[Check] = []
        for mode in modes:
            run = self.runs.get(mode)
            parts = self.expected.get(mode)
            drawn = drawn_for(mode, conv, seed)
            check = None if run is None or parts is None else judged_in_parts(mode, run, parts, drawn)
            if check is None:
                return None
            checks.append(check)
        return layer_report(conv, kernel, checks, self.runs[modes[0]].counters)


def _in_parts(
    conv: ConvNode,
    kernel: Kernel,
    pool: Pool,
    shares: int,
    seed: int,
    modes: tuple[Mode, ...],
    options: RunOptions,
    progress: Progress,
) -> _Parts:
    """Runs of a layer that is so large that its CTAs are shared among workers, and the reference, which they share too.

    Of a smaller layer there is nothing, and from a single worker no reference. A mode of which a part is not clean, or
    is lost, has no run: the layer is then run as a whole.
    """
    ranges = cta_ranges(conv.problem.macs, kernel.artifact.launch, shares)
    if len(ranges) < 2:
        return _Parts({}, {})
    images = image_ranges(conv.problem.batch, pool.slots)
    digest = compiler_digest()
    runs: dict[tuple[Mode, tuple[int, int]], LayerRun] = {}
    expected: dict[tuple[Mode, tuple[int, int]], Expected] = {}
    sums = sums_of(kernel.artifact.ptx, conv.problem.operand, options.switches.numerics)
    asked: list[tuple[Mode, tuple[int, int]]] = []
    pieces: list[Task] = []
    for mode in modes:
        for ctas in ranges:
            asked.append((mode, ctas))
            name = f"{conv.name}, CTAs {ctas[0]}..{ctas[1] - 1}, {mode} data"
            arguments = (digest, conv, kernel, mode, seed, options, ctas)
            pieces.append(Task(name=name, function=part_job, arguments=arguments))
        for some in images:
            asked.append((mode, some))
            name = f"{conv.name}, reference for images {some[0]}..{some[1] - 1}, {mode} data"
            pieces.append(Task(name=name, function=expected_job, arguments=(digest, conv, mode, seed, some, sums)))
    for count, (index, part) in enumerate(pool.run(pieces), 1):
        if isinstance(part, LayerRun):
            runs[asked[index]] = part
        elif isinstance(part, Expected):
            expected[asked[index]] = part
        progress(f"{pieces[index].name} ({count} of {len(pieces)} parts)", COMPILING)
    whole: list[Mode] = [mode for mode in modes if all((mode, ctas) in runs for ctas in ranges)]
    known: list[Mode] = [mode for mode in modes if images and all((mode, some) in expected for some in images)]
    return _Parts(
        {mode: combined([runs[mode, ctas] for ctas in ranges]) for mode in whole},
        {mode: [expected[mode, some] for some in images] for mode in known},
    )


def image_ranges(batch: int, slots: int) -> list[tuple[int, int]]:
    """Ranges of images, one for each worker as far as there are as many; none for a single worker."""
    count = min(batch, slots) if slots > 1 else 0
    bounds = [batch * index // count for index in range(count + 1)] if count else []
    return list(itertools.pairwise(bounds))


def cta_ranges(macs: int, launch: LaunchSpec, shares: int = 1) -> list[tuple[int, int]]:
    """Ranges of CTAs, whole clusters, that cover the grid in order: ``shares`` of them where a layer is worth it.

    It is with more than `PART_MACS` of work, or `SHARED_CTAS` and more. For each part the data of the whole layer are
    drawn and packed, so there are no more of them than workers.
    """
    cluster = math.prod(launch.cluster)
    clusters = launch.ctas // cluster
    worth = macs > PART_MACS or launch.ctas >= SHARED_CTAS
    count = min(clusters, shares if worth else 1)
    bounds = [clusters * index // count * cluster for index in range(count + 1)]
    return list(itertools.pairwise(bounds))


def worth_sending(convs: Sequence[ConvNode], modes: tuple[Mode, ...], jobs: int = 2) -> int:
    """Count the processes, at most ``jobs``, that are worth it for checking these layers; 1: this one alone.

    More are where the work takes so long that starting them saves time, as far as the layers that are with them at the
    same time take little memory, or little more than one process takes.
    """
    seconds = sum(conv.problem.macs / MACS_PER_S + LAUNCH_S for conv in convs) * len(modes)
    if seconds <= WORTH_S:
        return 1
    sizes = sorted((_bytes(conv.problem) for conv in convs), reverse=True)
    limit = max(FREE_BYTES, MOST_MEMORY * (OWN_BYTES + sizes[0]) - OWN_BYTES)
    shared = convs[0].problem.macs > PART_MACS
    while jobs > 1:
        together = sizes[0] * jobs if len(convs) == 1 else sum(sizes[:jobs])
        if together <= limit and (len(convs) > 1 or shared):
            break
        jobs -= 1
    return jobs


def _bytes(problem: ConvProblem) -> int:
    read = math.prod(problem.x_shape) + math.prod(problem.w_shape)
    return INPUT_BYTES * read + OUTPUT_BYTES * math.prod(problem.y_shape)


def _shares(convs: Sequence[ConvNode], slots: int) -> list[int]:
    """Among how many workers each layer is shared: all, where it is more than a worker's part of the work."""
    part = sum(conv.problem.macs for conv in convs) / slots
    return [slots if conv.problem.macs > part else 1 for conv in convs]


def _lost(conv: ConvNode, kernel: Kernel, modes: tuple[Mode, ...], error: WorkerError) -> LayerReport:
    checks = [Check(mode=mode, ok=False, seconds=0.0, fault=str(error)) for mode in modes]
    return layer_report(conv, kernel, checks)
