"""The verbs `tune` and `tune_layers`: the candidates of layers are measured, and the fastest is remembered."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from convc.api.arguments import file_name, given_options
from convc.api.bench import TuneReport, bench_of, known_layer, tuned_layer
from convc.api.inspecting import build_of, check_settled
from convc.api.kept import check_kept
from convc.api.models import Model, chosen_convolutions, name_of, read_network
from convc.api.options import ReadOptions, ScheduleOptions, TuneOptions, WorkOptions
from convc.build.folder import Build
from convc.build.selection import LayerNames, pick_layers
from convc.compiler.kernels import shared_problem
from convc.compiler.tuning_file import dump_tunings, read_tunings
from convc.compiler.tunings import Tunings
from convc.errors import InputError
from convc.gpu.driver import Driver
from convc.ir.problem import ConvProblem
from convc.support.cache import OFF, VARIABLE, kept_kernels
from convc.support.files import check_target, write_bytes
from convc.support.progress import Progress

PLACES = ("auto", "gpu", "engine")


def tune(
    model: Model | Build | None,
    *,
    layer: LayerNames | None = None,
    read: ReadOptions | None = None,
    schedule: ScheduleOptions | None = None,
    options: TuneOptions | None = None,
    work: WorkOptions | None = None,
    driver: Driver | None = None,
) -> TuneReport:
    """Measure the candidates of each convolution, and keep the fastest: from then on it is what is compiled.

    Where there is a GPU they are launched there, in turns, warm; elsewhere the timing engine times them. The record is
    kept in the compile cache under the GPU's name, as soon as a layer is measured; what is there already is not
    measured again. Compiling a problem with the options that it was tuned with takes its choice.

    Args:
        model: a file, a loaded model, or a network; a build, opened or its folder; None: only take ``options.records``.
        layer: only this one: a name or a pattern, or several.
        read: how the model is read.
        schedule: what is settled of schedules, and for which target; None: nothing, and the target of the GPU.
        options: where, how long, among how many, and files of records.
        work: where records are kept, and the progress callback.
        driver: of the GPU; None: NVIDIA's, in a process of its own.

    Returns:
        What was measured, layer by layer.

    Raises:
        InputError: an argument has a value that does not exist, a file cannot be read or written, or there is no cache
            to keep records in and no file to write them to.
        GpuError: a GPU was asked for and there is none, or kernels of this target do not run on it.

    Example:
        >>> import tempfile
        >>> work = convc.WorkOptions(cache=tempfile.mkdtemp())
        >>> options = convc.TuneOptions(on="engine", candidates=2)
        >>> schedule = convc.ScheduleOptions(schedule="reload", columns="off", store="direct")
        >>> report = convc.tune("tiny_conv.onnx", schedule=schedule, options=options, work=work)
        >>> report
        <TuneReport tiny_conv: 1 problem on b200>
        >>> report.layers[0].record.tuned.candidates
        2
    """
    report: TuneReport | None = None
    steps = tune_layers(
        model,
        layer=layer,
        read=read,
        schedule=schedule,
        options=options,
        work=work,
        driver=driver,
    )
    for report in steps:  # noqa: B007 - the last one is the whole report
        pass
    assert report is not None, "the report comes before the first layer"
    return report


def tune_layers(
    model: Model | Build | None,
    *,
    layer: LayerNames | None = None,
    read: ReadOptions | None = None,
    schedule: ScheduleOptions | None = None,
    options: TuneOptions | None = None,
    work: WorkOptions | None = None,
    driver: Driver | None = None,
) -> Iterator[TuneReport]:
    """Do as `tune` does, and give the report before the first layer and behind each, so that an interrupt loses one.

    The arguments and errors are those of `tune`.

    Example:
        >>> import tempfile
        >>> given = {"options": convc.TuneOptions(on="engine", candidates=1)}
        >>> given["work"] = convc.WorkOptions(cache=tempfile.mkdtemp())
        >>> given["schedule"] = convc.ScheduleOptions(schedule="reload", columns="off", store="direct")
        >>> [len(report.layers) for report in convc.tune_layers("tiny_conv.onnx", **given)]
        [0, 1]
    """
    chosen = given_options(options, TuneOptions, "options")
    working = given_options(work, WorkOptions, "work")
    _check(chosen)
    records = chosen.records
    export = chosen.export
    if model is None and records is None:
        raise InputError("there is nothing to tune: give a model, a build folder, or a file of records")
    given = () if records is None else read_tunings(Path(records))
    if export is not None:
        check_target(Path(export))
        check_kept(Path(export), [Path(each) for each in (model, records) if isinstance(each, str | Path)])
    with kept_kernels(working.cache) as cache:
        if cache is None and (export is None or records is not None):
            hint = f"name a cache folder (unset {VARIABLE}={OFF}, leave --no-cache out), or write a file with --export"
            raise InputError("there is no compile cache to keep tuning records in", hint=hint)
        tunings = None if cache is None else Tunings(cache)
        for record in given:
            assert tunings is not None, "it was asked for"
            tunings.keep(record)
        if model is None:
            yield TuneReport(source="", where="", engine=False, why="", target="", imported=len(given))
            return
        source, problems, settled = _problems(model, layer, read, schedule)
        bench = bench_of(chosen, settled, driver, schedule is None and not isinstance(model, Build))
        report = dataclasses.replace(bench.report, source=source, imported=len(given))
        yield report
        told = Progress(working.progress)
        for index, (problem, names) in enumerate(problems.items()):
            told(f"tune {names[0]}", index / len(problems))
            known = None
            if tunings is not None and not chosen.again:
                known = tunings.of_device(problem, bench.options, report.where, "engine" if report.engine else "gpu")
            done = known_layer(problem, names, bench.options, known) if known else tuned_layer(problem, names, bench)
            if done.record is not None and tunings is not None:
                tunings.keep(done.record)
            report.layers.append(done)
            if export is not None:
                kept = [each.record for each in report.layers if each.record is not None]
                write_bytes(Path(export), dump_tunings(kept))
            yield report


def _check(options: TuneOptions) -> None:
    """Raise `InputError` for options that there are not."""
    if options.on not in PLACES:
        raise InputError(f"on must be one of {', '.join(PLACES)}, got {options.on!r}")
    if not 1 <= options.candidates <= 1000:
        raise InputError(f"candidates must be in 1..1000, got {options.candidates}")
    file_name(options.export, "export")
    file_name(options.records, "records")
    for name, value in (("seconds", options.seconds), ("timeout", options.timeout)):
        if not 0 < value <= 86400:
            raise InputError(f"{name} must be above 0 and at most a day, got {value}")


def _problems(
    model: Model | Build, layer: LayerNames | None, read: ReadOptions | None, schedule: ScheduleOptions | None
) -> tuple[str, dict[ConvProblem, tuple[str, ...]], ScheduleOptions]:
    """The distinct problems with the layers that have them, and the options that they are scheduled with."""
    build = build_of(model)
    if build is not None:
        check_settled(read, schedule)
        layers = pick_layers(build.network.layers, layer, str(build.path))
        return str(build.path), _shared((one.name, one.problem) for one in layers), build.network.schedule
    assert not isinstance(model, Build)
    network = read_network(model, read, layer)
    convs = chosen_convolutions(network, layer)
    if not convs:
        raise InputError("there is nothing to tune: every convolution has an empty result", where=name_of(network))
    settled = given_options(schedule, ScheduleOptions, "schedule")
    return network.name, _shared((conv.name, conv.problem) for conv in convs), settled


def _shared(layers: Iterable[tuple[str, ConvProblem]]) -> dict[ConvProblem, tuple[str, ...]]:
    names: dict[ConvProblem, tuple[str, ...]] = {}
    for name, problem in layers:
        shared = shared_problem(problem)
        names[shared] = (*names.get(shared, ()), name)
    return names
