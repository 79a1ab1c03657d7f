"""``convc verify``: every convolution of a model, or of several; or a whole network with random weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc import api
from convc.api.options import WorkOptions
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
from convc.cli.whole import judge
from convc.errors import ConvcError, WorkerError
from convc.support.progress import Progress
from convc.support.visible import visible

if TYPE_CHECKING:
    from convc import DataReport, NetworkReport, VerifyReport


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnData:
    """Options of ``convc verify`` on what the user gives and expects."""

    inputs: tuple[str, ...]
    expect: tuple[str, ...]
    atol: float | None
    rtol: float | None

    @property
    def asked(self) -> tuple[str, ...]:
        """The options that were given, but for ``--input``."""
        given = (("--expect", self.expect), ("--atol", self.atol is not None), ("--rtol", self.rtol is not None))
        return tuple(name for name, value in given if value)


def data_options(command: Command) -> Command:
    """``--input``, ``--expect``, ``--atol`` and ``--rtol``: the fields of `OwnData`."""
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


def verify_own_data(model: Path, given: OwnData, host: str, json_file: Path | None, chosen: Chosen) -> None:
    """Run a network on data of the user's, and say what was found."""
    # Imported when the command runs: its help needs no report.
    from convc.report.own_data import data_json, print_data

    files = named_files(given.inputs, "--input")
    expected = named_files(given.expect, "--expect")
    check_once(model, *files.values(), *expected.values())

    def verify(work: WorkOptions) -> DataReport:
        wanted = api.Expected(
            outputs=sources_of(expected, "what is expected") if expected else None, atol=given.atol, rtol=given.rtol
        )
        feeds = sources_of(files, "an input")
        return api.verify_data(
            model_source(model),
            feeds,
            wanted,
            host=host,
            read=chosen.read,
            schedule=chosen.schedule,
            machine=chosen.machine,
            work=work,
        )

    judge(model, json_file, chosen, verify, print_data, data_json, shapes=lambda report: report.shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Files that reports are written to; None: no such report."""

    json_file: Path | None
    markdown: Path | None
    csv_file: Path | None
    annotate: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Options on what is drawn: data, CTAs of a sample (None: all are run), weights of a network (None: its own)."""

    seed: int
    sample: int | None
    reweight: int | None


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
@collected("drawn", Drawn)
@collected("own", OwnData)
@collected("shown", Shown)
@chosen_options
def verify_command(
    models: tuple[Path, ...],
    layer: Layers,
    shown: Shown,
    host: str,
    files: Files,
    drawn: Drawn,
    own: OwnData,
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
    others: dict[str, object] = {
        "layer": layer,
        "counts": shown.counts,
        "seed": drawn.seed,
        "sample": drawn.sample is not None,
        "jobs": chosen.workers.jobs,
        "executor": chosen.workers.executor,
        "markdown": files.markdown,
        "csv": files.csv_file,
        "annotate": files.annotate,
    }
    if own.inputs:
        others |= {"reweight": drawn.reweight is not None, "batch": chosen.read.batch}
        verify_own_data(_only("--input", models, others), own, host, files.json_file, chosen)
        return
    if own.asked:
        raise click.UsageError(f"{', '.join(own.asked)} applies to data of your own: give --input too.")
    if drawn.reweight is not None:
        others["no-fuse"] = not chosen.read.fuse
        _verify_network(_only("--reweight", models, others), drawn.reweight, host, files.json_file, shown.wide, chosen)
        return
    if host != "auto":
        raise click.UsageError("--host is for whole networks: give --reweight or --input too.")
    for option, given, does in (("--layer", layer, "names a layer of"), ("--annotate", files.annotate, "copies")):
        if given is not None and len(models) > 1:
            raise click.UsageError(f"{option} {does} one model: give one MODEL.")
    _verify_layers(models, layer, shown, files, drawn, chosen)


def _verify_layers(
    models: tuple[Path, ...], layer: Layers, shown: Shown, files: Files, drawn: Drawn, chosen: Chosen
) -> None:
    # Imported when the command runs: its help needs no report.
    from convc.report.annotation import check_annotated, write_annotated
    from convc.report.console import console, print_heading
    from convc.report.output import check_reports
    from convc.report.verify import print_report

    if str(files.annotate) == DASH:
        raise click.UsageError("--annotate takes the name of a file: only reports go to stdout (-).")
    quiet = check_reports(files.json_file, files.markdown, files.csv_file, files.annotate)
    if quiet and shown.counts:
        raise click.UsageError("--counts lists on stdout, where a report goes: leave it out (--json has the counts).")
    first = models[0]
    if files.annotate is not None:
        check_annotated(first, files.annotate)
    made: list[VerifyReport | ConvcError] = []
    with api.Pool(chosen.workers.executor, chosen.workers.jobs) as pool:
        sharing = dataclasses.replace(chosen, work=dataclasses.replace(chosen.work, executor=pool))
        for model in models:
            found = _verify_one(model, layer, drawn, sharing, alone=len(models) == 1)
            made.append(found)
            if isinstance(found, ConvcError):
                click.echo(visible(str(found)), err=True)
            elif not quiet:
                if len(models) > 1:
                    print_heading(console(), str(model))
                print_report(console(), found, shown.counts, shown.wide)
                wrong = next((each.name for each in found.layers if not each.ok), None)
                picked = wrong or slowest((each.name, each.planned) for each in found.layers)
                print_next(console(), "inspect", model, picked, chosen)
    reports = [found for found in made if not isinstance(found, ConvcError)]
    if files.annotate is not None:
        count = write_annotated(first, files.annotate, reports[0])
        if not quiet:
            console().print(f"wrote {files.annotate}: notes on {count} nodes", soft_wrap=True)
    _write_files(files, models, made, reports)
    if len(reports) < len(made):
        raise click.exceptions.Exit(2)
    if not all(report.ok for report in reports):
        raise click.exceptions.Exit(1)


def _write_files(
    files: Files,
    models: tuple[Path, ...],
    made: Sequence[VerifyReport | ConvcError],
    reports: Sequence[VerifyReport],
) -> None:
    """Write the reports that were asked for; in JSON, one model is an object of its own and several are a list.

    JSON comes last: behind it nothing may fail, which would be written as a second object.
    """
    from convc.report.output import write_report
    from convc.report.tables import csv_table, markdown_table
    from convc.report.verify import models_json, report_json

    if files.markdown is not None:
        write_report(files.markdown, markdown_table(reports))
    if files.csv_file is not None:
        write_report(files.csv_file, csv_table(reports))
    if files.json_file is not None:
        one = len(models) == 1
        write_report(files.json_file, report_json(reports[0]) if one else models_json(models, made))


def _verify_one(model: Path, layer: Layers, drawn: Drawn, chosen: Chosen, alone: bool) -> VerifyReport | ConvcError:
    """The report on a model; of one among several, the error where there is none, unless the workers failed."""
    from convc.report.console import progress_bar

    with progress_bar() as bar:
        told = Progress(bar) if alone else Progress(bar).under(model.name)
        try:
            return api.verify(
                model_source(model),
                layer,
                seed=drawn.seed,
                sample=drawn.sample,
                read=chosen.read,
                schedule=chosen.schedule,
                machine=chosen.machine,
                work=dataclasses.replace(chosen.work, progress=told),
            )
        except ConvcError as error:
            if alone or isinstance(error, WorkerError):
                raise
            return error


def _only(option: str, models: tuple[Path, ...], others: dict[str, object]) -> Path:
    """The one network to run; `click.UsageError` for several, and for options that a whole network does not take."""
    given = [f"--{name}" for name, value in others.items() if value]
    if given:
        raise click.UsageError(f"{option} runs the whole network: leave {', '.join(given)} out.")
    if len(models) > 1:
        raise click.UsageError(f"{option} runs one network: give one MODEL.")
    return next(iter(models))


def _verify_network(model: Path, seed: int, host: str, json_file: Path | None, wide: bool, chosen: Chosen) -> None:
    """Verify a model as a network, and say what was found."""
    # Imported when the command runs: its help needs no report.
    from convc.report.network import network_json, print_network

    def verify(work: WorkOptions) -> NetworkReport:
        return api.verify_network(
            model_source(model),
            seed,
            host=host,
            read=chosen.read,
            schedule=chosen.schedule,
            machine=chosen.machine,
            work=work,
        )

    judge(model, json_file, chosen, verify, lambda out, report: print_network(out, report, wide), network_json)
