"""``convc verify``: every convolution of a model, or of several; or a whole network."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from convc import api
from convc.api.options import ReadOptions
from convc.cli.files import need_file
from convc.cli.options import (
    Chosen,
    Command,
    Layers,
    chosen_options,
    collected,
    counts_option,
    each_type,
    host_option,
    inputs_option,
    jobs_options,
    json_option,
    layers_option,
    max_instructions_option,
    model_options,
    no_cache_option,
    noted_files,
    numerics_option,
    target_type,
    wide_option,
)
from convc.cli.streams import DASH, check_once, model_source, named_files, sources_of
from convc.cli.suggest import print_next, slowest
from convc.errors import ConvcError, WorkerError
from convc.support.progress import Progress
from convc.support.visible import visible

if TYPE_CHECKING:
    from convc import VerifyReport
    from convc.report.console import Console


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Options on the data: what is drawn (CTAs of a sample, weights of a network), and what the user gives and expects.

    ``sample`` is None where all CTAs are run; ``reweight`` where a network has its own weights, or none is run.
    """

    seed: int
    sample: int | None
    reweight: int | None
    inputs: tuple[str, ...]
    expect: tuple[str, ...]
    atol: float | None
    rtol: float | None

    @property
    def network(self) -> str:
        """The option by which the whole network is run; empty where there is none."""
        if self.inputs:
            return "--input"
        return "" if self.reweight is None else "--reweight"

    def arguments(self, model: Path) -> dict[str, Any]:
        """Those of `convc.verify` for these options; files are read where they come from stdin."""
        if self.network == "--reweight":
            return {"mode": "network", "seed": self.reweight}
        if not self.network:
            return {"seed": self.seed, "sample": self.sample}
        files = named_files(self.inputs, "--input")
        outputs = named_files(self.expect, "--expect")
        check_once(model, *files.values(), *outputs.values())
        expected = sources_of(outputs, "what is expected") if outputs else None
        return {
            "feeds": sources_of(files, "an input"),
            "expected": api.Expected(outputs=expected, atol=self.atol, rtol=self.rtol),
        }


def data_options(command: Command) -> Command:
    """``--input``, ``--expect``, ``--atol`` and ``--rtol``: fields of `Data`."""
    rule = "tolerance of an output, atol + rtol*|expected|, instead of the derived bound."
    for name, words in (("rtol", f"Relative {rule}"), ("atol", f"Absolute {rule}")):
        command = click.option(f"--{name}", type=float, metavar="F", help=words)(command)
    command = click.option(
        "--expect",
        multiple=True,
        callback=noted_files(False),
        metavar="[NAME=]Y",
        help="The expected outputs, .npy or .npz; needs --input.",
    )(command)
    return inputs_option("Run the whole network on this .npy or .npz (- is stdin), with its own weights, and compare.")(
        command
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Files that reports are written to; None: no such report."""

    json_file: Path | None
    markdown: Path | None
    csv_file: Path | None
    annotate: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Parts of a report that are shown on demand: all that was counted, all columns."""

    counts: bool
    wide: bool


@click.command("verify")
@click.argument("models", type=each_type, nargs=-1, required=True, metavar="MODEL...")
@layers_option
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the data.")
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    metavar="N",
    help="Run N CTAs of a layer at random, and one for each border and corner of the image, instead of all.",
)
@model_options
@numerics_option
@max_instructions_option
@counts_option
@wide_option
@click.option(
    "--reweight",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Give every layer random weights, run the whole network, and compare it with onnxruntime as well.",
)
@data_options
@host_option
@jobs_options
@no_cache_option
@json_option
@click.option("--markdown", type=target_type, metavar="FILE", help="Write the table as Markdown (- is stdout).")
@click.option("--csv", "csv_file", type=target_type, metavar="FILE", help="Write a row per layer as CSV (- is stdout).")
@click.option(
    "--annotate", type=target_type, metavar="OUT.onnx", help="Write a copy of MODEL with the verdicts in its nodes."
)
@collected("files", Files)
@collected("data", Data)
@collected("shown", Shown)
@chosen_options
def verify_command(
    models: tuple[Path, ...],
    layer: Layers,
    shown: Shown,
    host: str,
    files: Files,
    data: Data,
    chosen: Chosen,
) -> None:
    """Compile every convolution of MODEL, run the text on the simulator, and compare with a float64 reference.

    Twice: on small integers, where every bit must agree, and on normal data with the model's weights, where
    every element must stay inside a derived bound. Exit code 1 when any element is wrong. Of several models each gets
    a table; one that cannot be read is said so, the others are checked, and the exit code is 2.

    With --sample only some CTAs of each layer are run, and what these write is compared: for large images.

    With --reweight the model runs as a network: each convolution on what its neighbours made, compared with the
    float64 reference and with onnxruntime on the same input, and the network's outputs with onnxruntime's.

    With --input the model runs as a network on data of yours, with its own weights: each convolution is compared with
    the float64 reference, and the outputs with --expect, or else with onnxruntime or onnx.reference. --atol and --rtol
    decide about the outputs; without them what rounding explains does.
    """
    check_once(*models)
    if len(models) == 1:
        need_file(models[0])
    _check_options(models, layer, host, shown, files, data, chosen)
    arguments = {"layer": layer, "host": host, **data.arguments(models[0])}
    _verify_models(models, arguments, shown, files, chosen)


def _check_options(
    models: tuple[Path, ...], layer: Layers, host: str, shown: Shown, files: Files, data: Data, chosen: Chosen
) -> None:
    """`click.UsageError` for options that do not go together."""
    beside = (("--expect", data.expect), ("--atol", data.atol is not None), ("--rtol", data.rtol is not None))
    own = [name for name, value in beside if value]
    if own and not data.inputs:
        raise click.UsageError(f"{', '.join(own)} applies to data of your own: give --input too.")
    if not data.network:
        if host != "auto":
            raise click.UsageError("--host is for whole networks: give --reweight or --input too.")
        for option, value, does in (("--layer", layer, "names a layer of"), ("--annotate", files.annotate, "copies")):
            if value is not None and len(models) > 1:
                raise click.UsageError(f"{option} {does} one model: give one MODEL.")
        return
    others = {
        "layer": layer,
        "counts": shown.counts,
        "seed": data.seed,
        "sample": data.sample is not None,
        "jobs": chosen.workers.jobs,
        "executor": chosen.workers.executor,
        "markdown": files.markdown,
        "csv": files.csv_file,
        "annotate": files.annotate,
        "reweight": data.inputs and data.reweight is not None,
        "batch": data.inputs and chosen.read.batch,
        "no-fuse": not data.inputs and not chosen.read.fuse,
    }
    left = [f"--{name}" for name, value in others.items() if value]
    if left:
        raise click.UsageError(f"{data.network} runs the whole network: leave {', '.join(left)} out.")
    if len(models) > 1:
        raise click.UsageError(f"{data.network} runs one network: give one MODEL.")


def _verify_models(
    models: tuple[Path, ...], arguments: Mapping[str, Any], shown: Shown, files: Files, chosen: Chosen
) -> None:
    """Verify each model, say what was found and what to try next, and end with 1 where anything is wrong."""
    # Imported when the command runs: its help needs no report.
    from convc.report.annotation import check_annotated
    from convc.report.console import console, print_heading
    from convc.report.output import check_reports
    from convc.report.verify import print_report

    if str(files.annotate) == DASH:
        raise click.UsageError("--annotate takes the name of a file: only reports go to stdout (-).")
    quiet = check_reports(files.json_file, files.markdown, files.csv_file, files.annotate)
    if quiet and shown.counts:
        raise click.UsageError("--counts lists on stdout, where a report goes: leave it out (--json has the counts).")
    if files.annotate is not None:
        check_annotated(models[0], files.annotate)
    results: list[VerifyReport | ConvcError] = []
    with api.Pool(chosen.workers.executor, chosen.workers.jobs) as pool:
        sharing = chosen
        if "feeds" not in arguments and "mode" not in arguments:
            sharing = dataclasses.replace(chosen, work=dataclasses.replace(chosen.work, executor=pool))
        for model in models:
            result = _verify_one(model, arguments, sharing, alone=len(models) == 1)
            results.append(result)
            if isinstance(result, ConvcError):
                click.echo(visible(str(result)), err=True)
            elif not quiet:
                if len(models) > 1:
                    print_heading(console(), str(model))
                print_report(console(), result, shown.counts, shown.wide)
                _print_next(console(), model, result, chosen)
    reports = [result for result in results if not isinstance(result, ConvcError)]
    _write_files(files, models, results, reports, quiet)
    if len(reports) < len(results):
        raise click.exceptions.Exit(2)
    if not all(report.ok for report in reports):
        raise click.exceptions.Exit(1)


def _print_next(console: Console, model: Path, report: VerifyReport, chosen: Chosen) -> None:
    """Print the command that inspects the first wrong layer, or else the slowest one."""
    wrong = next((layer.name for layer in report.layers if not layer.ok), None)
    layer = wrong or slowest((layer.name, layer.planned) for layer in report.layers)
    if report.network is not None and report.network.replaced is None:
        read = dataclasses.replace(chosen.read, shapes={**chosen.read.shapes, **report.network.shapes})
        chosen = dataclasses.replace(chosen, read=read)
    if report.network is None or _is_read(model, layer, chosen.read):
        print_next(console, "inspect", model, layer, chosen)


def _write_files(
    files: Files,
    models: tuple[Path, ...],
    results: Sequence[VerifyReport | ConvcError],
    reports: Sequence[VerifyReport],
    quiet: bool,
) -> None:
    """Write the reports that were asked for; in JSON, one model is an object of its own and several are a list.

    JSON comes last: behind it nothing may fail, which would be written as a second object.
    """
    # Imported when the command runs: its help needs no report.
    from convc.report.annotation import write_annotated
    from convc.report.console import console
    from convc.report.output import write_report
    from convc.report.tables import csv_table, markdown_table
    from convc.report.verify import models_json, report_json

    if files.annotate is not None:
        count = write_annotated(models[0], files.annotate, reports[0])
        if not quiet:
            console().print(f"wrote {files.annotate}: notes on {count} nodes", soft_wrap=True)
    if files.markdown is not None:
        write_report(files.markdown, markdown_table(reports))
    if files.csv_file is not None:
        write_report(files.csv_file, csv_table(reports))
    if files.json_file is not None:
        one = len(models) == 1
        write_report(files.json_file, report_json(reports[0]) if one else models_json(models, results))


def _verify_one(model: Path, arguments: Mapping[str, Any], chosen: Chosen, alone: bool) -> VerifyReport | ConvcError:
    """The report on a model; of one among several, the error where there is none, unless the workers failed."""
    from convc.report.console import progress_bar

    with progress_bar() as bar:
        told = Progress(bar) if alone else Progress(bar).under(model.name)
        try:
            return api.verify(
                model_source(model),
                read=chosen.read,
                schedule=chosen.schedule,
                machine=chosen.machine,
                work=dataclasses.replace(chosen.work, progress=told),
                **arguments,
            )
        except ConvcError as error:
            if alone or isinstance(error, WorkerError):
                raise
            return error


def _is_read(model: Path, layer: str | None, read: ReadOptions) -> bool:
    """Whether a layer that ran in its network is also there when the model is read alone, as ``convc inspect`` does.

    It is not where its weights or extents are known only when the network runs.
    """
    if layer is None or str(model) == DASH:
        return False
    try:
        extents = read.shapes or read.batch
        network = api.load(model, batch=extents, dtype=read.dtype, precision=read.precision, fuse=read.fuse)
    except ConvcError:
        return False
    return any(conv.name == layer for conv in network.convs)
