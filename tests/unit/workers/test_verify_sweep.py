"""Sweeps of `convc verify`: processes and clusters give what one process gives, also when workers are killed."""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import distributed
import numpy as np
import psutil
import pytest
from click.testing import CliRunner
from support.interrupting import interrupt, start

import convc
from convc import api
from convc.api.options import WorkOptions
from convc.cli.main import main
from convc.compiler.kernels import Kernels
from convc.compiler.options import ScheduleOptions
from convc.errors import InputError, PlanError, WorkerError
from convc.ir.launch import LaunchSpec
from convc.ir.network import ConvNode, TensorRef
from convc.ir.problem import ConvProblem
from convc.machine import RunOptions
from convc.support.resources import make_models
from convc.verification.data import normal_data
from convc.verification.layer import check_layer, combined, expect_part, judged_in_parts, run_part
from convc.verification.layer_data import draw_special
from convc.verification.records import Check, LayerReport
from convc.workers import compiling, jobs
from convc.workers.jobs import cta_ranges, image_ranges, worth_sending
from convc.workers.pool import Pool

LAYERS, KERNELS = 5, 4


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Five layers of ResNet-50, with an eighth of the channels: four kernels."""
    models = make_models()
    wanted = ("layer3.0.conv", "layer3.1.conv2", "layer3.1.conv3")
    layers = [layer for layer in models.read_layers() if layer.name.startswith(wanted)]
    path = tmp_path_factory.mktemp("sweep") / "layers.onnx"
    small = [
        dataclasses.replace(
            layer, extent=layer.extent // 2, in_channels=layer.in_channels // 8, out_channels=layer.out_channels // 8
        )
        for layer in layers
    ]
    models.build_resnet50_layers(path, small)
    return path


@pytest.fixture(scope="module")
def alone(model) -> tuple[LayerReport, ...]:
    """What one process finds."""
    report = convc.verify(model, seed=3)
    assert report.ok
    assert len(report.layers) == LAYERS
    assert report.kernels == KERNELS
    return bits(report.layers)


def bits(layers: tuple[LayerReport, ...]) -> tuple[LayerReport, ...]:
    """The reports without the times, which no two runs share; the digests of the results stay."""
    assert all(check.digest for layer in layers for check in layer.checks)
    return tuple(
        dataclasses.replace(layer, checks=tuple(dataclasses.replace(check, seconds=0.0) for check in layer.checks))
        for layer in layers
    )


def exact(layer: LayerReport) -> tuple[Check, ...]:
    """The checks on whole numbers: products of fewer CTAs are of another size, and BLAS sums in an order of its own."""
    return tuple(check for check in layer.checks if check.mode == "integer")


def workers_of(pid: int) -> list[int]:
    """Processes that a process started and that are alive."""
    return [child.pid for child in psutil.Process(pid).children() if "spawn_main" in " ".join(child.cmdline())]


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """Two processes for the tests that do not ask how processes begin and end."""
    with Pool(jobs=2) as pool:
        yield pool


def test_two_processes_give_the_same_bits(model, alone, pool):
    told = []
    work = WorkOptions(executor=pool, progress=lambda what, part: told.append((what, part)))
    report = convc.verify(model, seed=3, work=work)
    assert bits(report.layers) == alone
    assert report.kernels == KERNELS
    said = [what.split(" (") for what, _ in told if " of " in what]
    assert [what[1] for what in said[:KERNELS]] == [f"{n} of {KERNELS} kernels)" for n in range(1, KERNELS + 1)]
    assert [what[1] for what in said[KERNELS:]] == [f"{n} of {LAYERS} layers)" for n in range(1, LAYERS + 1)]
    assert {what[0] for what in said[KERNELS:]} == {layer.name for layer in alone}
    parts = [part for _, part in told]
    assert parts == sorted(parts)
    assert (parts[0], parts[-1]) == (0, 1)


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_costs_no_result(model, alone):
    killed = []
    others = workers_of(os.getpid())

    def kill(what: str, part: float) -> None:
        if "layers)" in what and not killed:
            killed.append(next(pid for pid in workers_of(os.getpid()) if pid not in others))
            os.kill(killed[0], signal.SIGKILL)

    report = convc.verify(model, seed=3, work=WorkOptions(jobs=2, progress=kill))
    assert len(killed) == 1
    assert bits(report.layers) == alone


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_bits_and_survives_a_killed_worker(model, alone):
    killed = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        workers = [worker.pid for worker in cluster.workers.values()]
        assert len(set(workers)) == 2

        def kill(what: str, part: float) -> None:
            if f"(2 of {LAYERS} layers)" in what:
                killed.append(workers[0])
                os.kill(workers[0], signal.SIGKILL)

        report = convc.verify(model, seed=3, work=WorkOptions(executor=address, progress=kill))
        assert len(killed) == 1
        assert bits(report.layers) == alone
        assert bits(
            convc.verify(model, layer="layer3.1.conv2", seed=3, work=WorkOptions(executor=address)).layers
        ) == tuple(layer for layer in alone if layer.name == "layer3.1.conv2")


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_bits_and_is_missed_in_a_sentence(model, alone, tmp_path, capfd):
    """Scheduler and worker as a user starts them; the scheduler is killed in the middle of a second sweep."""
    note = tmp_path / "scheduler.json"
    programs = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", note, "--no-dashboard", *more],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=tmp_path,
            start_new_session=True,
        )
        for what, more in (
            ("scheduler", ["--host", "127.0.0.1", "--port", "0"]),
            ("worker", ["--nthreads", "1", "--no-nanny"]),
        )
    ]
    try:
        with distributed.Client(scheduler_file=str(note), timeout=60, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
            address = client.scheduler.address.replace("tcp://", "dask://")
        assert bits(convc.verify(model, seed=3, work=WorkOptions(executor=address)).layers) == alone
        capfd.readouterr()

        def stop(what: str, part: float) -> None:
            if f"(2 of {LAYERS}" in what:
                programs[0].kill()

        with pytest.raises(WorkerError, match="the cluster went away") as error:
            convc.verify(model, work=WorkOptions(executor=address, progress=stop))
        assert "under way: layer" in error.value.where
        assert "Traceback" not in capfd.readouterr().err
    finally:
        for program in programs:
            program.kill()
            program.wait()


def test_a_cluster_without_workers_is_named(model):
    with distributed.LocalCluster(n_workers=0, dashboard_address=None, host="127.0.0.1") as cluster:
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        with pytest.raises(WorkerError, match="has no workers") as error:
            convc.verify(model, work=WorkOptions(executor=address))
        assert error.value.where == address


def test_a_layer_that_kills_its_worker_is_reported_by_name(model, alone, monkeypatch, tmp_path):
    """One layer's weights are replaced by something that ends whoever takes them out of the envelope."""
    network = convc.load(model)
    convs = list(network.convs)
    convs[4] = dataclasses.replace(convs[4], bias=Poison(), fused=("relu",))
    report = convc.verify(dataclasses.replace(network, convs=tuple(convs)), seed=3, work=WorkOptions(jobs=2))
    assert not report.ok
    assert [layer.ok for layer in report.layers] == [index != 4 for index in range(LAYERS)]
    lost = report.layers[4]
    assert lost.name == convs[4].name
    assert lost.schedule == alone[4].schedule
    assert lost.fused == ("relu",)
    assert all("W100" in check.fault and lost.name in check.fault for check in lost.checks)
    rest = tuple(layer for layer in report.layers if layer.ok)
    assert bits(rest) == tuple(layer for index, layer in enumerate(alone) if index != 4)


class Poison:
    """Ends the process that unpacks it."""

    def __reduce__(self):
        return os._exit, (9,)


def test_workers_of_another_convc_refuse(model, monkeypatch):
    monkeypatch.setattr(jobs, "compiler_digest", lambda: "of another commit")
    with pytest.raises(WorkerError, match="a worker has another version of convc"):
        convc.verify(model, work=WorkOptions(jobs=2))


def test_an_error_in_a_worker_is_the_error_of_the_call(model, pool):
    network = convc.load(model)
    impossible = dataclasses.replace(network.convs[0].problem, in_channels=4096, in_extent=(1 << 17, 1 << 17))
    broken = dataclasses.replace(
        network, convs=(*network.convs, dataclasses.replace(network.convs[0], name="far", problem=impossible))
    )
    with pytest.raises(PlanError):
        convc.verify(broken, work=WorkOptions(executor=pool))


@pytest.mark.slow
def test_a_pool_serves_several_calls_which_fill_the_cache_and_use_it(model, alone, tmp_path, monkeypatch):
    others = set(workers_of(os.getpid()))
    with Pool(jobs=2) as pool:
        work = WorkOptions(executor=pool, cache=tmp_path / "cache")
        cold = convc.verify(model, seed=3, work=work)
        pids = set(workers_of(os.getpid()))
        assert pids > others
        monkeypatch.setattr(compiling, "compile_job", None)  # not to be asked
        warm = convc.verify(model, seed=3, work=work)
        assert set(workers_of(os.getpid())) == pids
    assert bits(cold.layers) == bits(warm.layers) == alone
    deadline = time.monotonic() + 60
    while set(workers_of(os.getpid())) != others and time.monotonic() < deadline:
        time.sleep(0.05)
    assert set(workers_of(os.getpid())) == others


def test_compiling_in_workers_writes_the_same_build(model, pool, tmp_path):
    for folder, workers in (("one", {"jobs": 1}), ("two", {"executor": pool})):
        told = []
        work = WorkOptions(**workers, progress=lambda what, part, told=told: told.append(part))
        api.compile(model, tmp_path / folder, work=work)
        assert told == sorted(told)
        assert told[0] == 0
        assert 1 - 1 / LAYERS < told[-1] < 1
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert len(files) == 1 + 2 * LAYERS + 5 * KERNELS
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


# ---- ranges of CTAs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "mode"),
    [(name, "integer") for name in ("reload", "slide", "shift", "stationary")] + [("shift", "normal")],
)
def test_parts_of_a_launch_are_the_launch(tiny_conv, schedule, mode):
    """Output, counters and the judgement, whatever the cuts.

    Sums that are not whole numbers may be rounded in another order: a BLAS does so where a product has fewer rows.
    """
    machine = RunOptions()
    kernel = Kernels(ScheduleOptions(schedule=schedule, cta_group="1")).compiled(tiny_conv.problem)
    ctas = kernel.artifact.launch.ctas
    assert ctas >= 4
    rounding = 0 if mode == "integer" else 2**-10
    whole = run_part(tiny_conv, kernel, mode, 3, machine, (0, ctas))
    for cuts in ([0, 1, ctas], [0, 2, 3, ctas], list(range(ctas + 1))):
        parts = [run_part(tiny_conv, kernel, mode, 3, machine, pair) for pair in itertools.pairwise(cuts)]
        made = combined(parts)
        np.testing.assert_allclose(made.y.astype(float), whole.y.astype(float), rtol=rounding, atol=rounding * 2**-4)
        assert made.counters == whole.counters
        assert parts[0].y.tobytes() != whole.y.tobytes()
    report = check_layer(tiny_conv, kernel, seed=3)
    again = check_layer(tiny_conv, kernel, seed=3, runs={mode: made})
    assert again.ok
    if mode == "integer":
        assert bits((report,)) == bits((again,))
    one_missing = check_layer(tiny_conv, kernel, seed=3, runs={mode: combined(parts[1:])})
    assert not one_missing.ok


def test_the_reference_in_parts_judges_as_the_whole_one(tiny_conv):
    kernel = Kernels(ScheduleOptions(schedule="reload", store="direct")).compiled(tiny_conv.problem)
    whole = check_layer(tiny_conv, kernel, seed=3)
    for mode, check in zip(("integer", "normal"), whole.checks, strict=True):
        run = run_part(tiny_conv, kernel, mode, 3, RunOptions(), (0, kernel.artifact.launch.ctas))
        parts = [expect_part(tiny_conv, mode, 3, images) for images in image_ranges(5, 2)]
        assert {part.values.dtype.name for part in parts} == {"float16" if mode == "integer" else "float64"}
        drawn = draw_special(tiny_conv.problem, 3) if mode == "normal" else None
        made = judged_in_parts(mode, run, parts, drawn)
        assert dataclasses.replace(made, seconds=check.seconds) == check
        run.y.reshape(-1)[7] += 1
        assert judged_in_parts(mode, run, parts) is None
    assert (image_ranges(1, 2), image_ranges(3, 2), image_ranges(4, 1)) == ([(0, 1)], [(0, 1), (1, 3)], [])


@pytest.fixture
def tiny_conv():
    """A layer with several CTAs."""
    problem = ConvProblem(
        name="conv",
        batch=5,
        in_channels=16,
        out_channels=24,
        in_extent=(12, 12),
        kernel=(3, 3),
        pad_lo=(1, 1),
        pad_hi=(1, 1),
        bias=True,
    )
    _, weight, bias = normal_data(problem, 1)
    x = TensorRef(name="x", dtype="f16", shape=problem.x_shape)
    return ConvNode(name="conv", problem=problem, input=x, weight=weight, bias=bias, output=x)


def test_a_range_that_is_none_is_refused(tiny_conv):
    kernel = Kernels(ScheduleOptions(schedule="reload", store="direct")).compiled(tiny_conv.problem)
    for bad in ((0, 99), (-1, 2), (2, 2), (3, 1)):
        with pytest.raises(InputError, match="CTAs to run must be a range within"):
            run_part(tiny_conv, kernel, "integer", 0, RunOptions(), bad)


def test_ranges_cover_the_grid_in_whole_clusters():
    def launch(grid, cluster=(1, 1, 1)):
        return LaunchSpec(entry="e", grid=grid, block=(32, 1, 1), cluster=cluster, buffers={}, params=())

    assert cta_ranges(5, launch((9, 1, 1)), shares=3) == [(0, 9)]
    assert cta_ranges(2 * jobs.PART_MACS, launch((3, 3, 1)), shares=3) == [(0, 3), (3, 6), (6, 9)]
    assert cta_ranges(99 * jobs.PART_MACS, launch((3, 3, 1)), shares=1) == [(0, 9)]  # more parts cost more
    assert cta_ranges(99 * jobs.PART_MACS, launch((2, 1, 1)), shares=8) == [(0, 1), (1, 2)]
    assert cta_ranges(2 * jobs.PART_MACS, launch((6, 1, 1), (2, 1, 1)), shares=2) == [(0, 2), (2, 6)]
    assert cta_ranges(5, launch((10, 10, 1)), shares=2) == [(0, 50), (50, 100)]
    assert cta_ranges(5, launch((99, 1, 1)), shares=2) == [(0, 99)]


def test_large_layers_are_shared_by_workers_with_the_same_numbers(model, alone, pool, monkeypatch):
    monkeypatch.setattr(jobs, "PART_MACS", 200_000)
    monkeypatch.setattr(jobs, "_shares", lambda convs, slots: [slots] * len(convs))
    told = []
    work = WorkOptions(executor=pool, progress=lambda what, part: told.append(what))
    report = convc.verify(model, seed=3, work=work)
    assert [exact(layer) for layer in bits(report.layers)] == [exact(layer) for layer in alone]
    assert report.ok
    assert any("CTAs 0.." in what and "parts)" in what for what in told)


@pytest.mark.slow
def test_one_layer_of_many_ctas_is_shared_by_workers(model, alone, pool, monkeypatch):
    monkeypatch.setattr(jobs, "SHARED_CTAS", 2)
    told = []
    work = WorkOptions(executor=pool, progress=lambda what, part: told.append(what))
    report = convc.verify(model, "layer3.0.conv1", seed=3, work=work)
    assert exact(bits(report.layers)[0]) == exact(alone[0])
    assert report.ok
    assert any("CTAs 0.." in what and "of 6 parts)" in what for what in told)
    assert any("reference for images 0..0, normal data" in what for what in told)


def test_small_work_stays_here_unless_it_is_sent(model):
    convs = convc.load(model).convs
    modes = ("integer", "normal")
    assert worth_sending(convs[:1], modes, 8) == 1
    assert worth_sending(convs * 60, modes, 8) == 8

    def layer(extent):
        kernel = {"kernel": (5, 5), "pad_lo": (2, 2), "pad_hi": (2, 2), "stride": (1, 1), "in_extent": (extent, extent)}
        problem = dataclasses.replace(convs[0].problem, in_channels=256, out_channels=256, **kernel)
        return dataclasses.replace(convs[0], problem=problem)

    assert worth_sending((layer(56),), modes, 2) == 2  # its CTAs are shared
    assert worth_sending((layer(56),), modes, 8) == 3  # of 83 MiB each
    assert worth_sending((layer(512),), modes, 8) == 1  # each would draw all of it
    assert worth_sending((layer(512), *convs), modes, 2) == 2  # the others are small beside it
    assert worth_sending((layer(512),) * 2, modes, 2) == 1


def test_a_layer_that_is_more_than_a_part_of_the_work_is_shared(model):
    first, *_ = convc.load(model).convs
    small = dataclasses.replace(first, problem=dataclasses.replace(first.problem, in_channels=1))
    assert jobs._shares([first, first], 2) == [1, 1]
    assert jobs._shares([first, small], 2) == [2, 1]
    assert jobs._shares([first], 4) == [4]


# ---- the command --------------------------------------------------------------------------------------------


def test_the_command_in_one_process_and_in_two(model):
    asked = ["verify", str(model), "--csv", "-", "--jobs"]
    one = CliRunner().invoke(main, [*asked, "1"], prog_name="convc")
    two = subprocess.run(
        [sys.executable, "-m", "convc", *asked, "2"], capture_output=True, text=True, timeout=120, check=False
    )
    assert (one.exit_code, two.returncode) == (0, 0), two.stderr
    assert (one.stderr, two.stderr) == ("", "")

    def timeless(text: str) -> list[list[str]]:
        place = text.splitlines()[0].split(",").index("seconds")
        return [[cell for n, cell in enumerate(line.split(",")) if n != place] for line in text.splitlines()]

    assert timeless(one.stdout) == timeless(two.stdout)
    assert len(one.stdout.splitlines()) == 1 + LAYERS


def test_ctrl_c_ends_a_sweep(model):
    asked = ["-m", "convc", "verify", *[model] * 1000, "--jobs", "2"]
    process = start(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for line in process.stdout:
        if f"{LAYERS} of {LAYERS} layers right" in line:
            break
    workers = workers_of(process.pid)
    assert workers
    said = interrupt(process)
    assert process.returncode == 130
    assert said.strip() == "interrupted"
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--jobs", "0"), "0 is not in the range"),
        (("--jobs", "many"), "'many' is not a valid integer range"),
        (("--executor", "slurm"), "processes or dask://HOST:PORT, got 'slurm'"),
        (("--executor", "dask://127.0.0.1:1", "--jobs", "2"), "jobs are processes of this machine"),
        (("--executor", "dask://127.0.0.1:1"), "no Dask scheduler answers"),
    ],
)
@pytest.mark.parametrize("verb", ["verify", "compile"])
def test_bad_values_are_refused(model, tmp_path, arguments, words, verb, monkeypatch):
    monkeypatch.setattr("convc.workers.executors.CONNECT_S", 0.5)
    folder = ("-o", str(tmp_path / "build")) if verb == "compile" else ()
    done = CliRunner().invoke(main, [verb, str(model), *folder, *arguments], prog_name="convc")
    assert done.exit_code == 2, done.output
    assert words in done.stderr
    assert done.stdout == ""
