"""``convc run``: one layer of a build folder, or a whole model, from .npy files to .npy files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from convc import api
from convc.api.options import ReadOptions
from convc.cli.options import (
    Chosen,
    chosen_options,
    dtype_option,
    fuse_option,
    host_option,
    json_option,
    layer_option,
    named_files,
    no_cache_option,
    numerics_option,
    path_type,
    precision_option,
    switch_option,
)
from convc.errors import InputError
from convc.report.console import console, progress_bar
from convc.report.launch import layer_run_json, print_findings, print_layer_run
from convc.report.network import network_run_json, print_network_run
from convc.report.output import check_reports, write_report


@click.command("run")
@click.argument("source", type=path_type, metavar="DIR|MODEL.onnx")
@click.option(
    "--input", "inputs", multiple=True, callback=named_files(False), metavar="[NAME=]X.npy", help="Activations."
)
@click.option(
    "-o", "--output", "outputs", multiple=True, callback=named_files(True), metavar="[NAME=]Y.npy", help="Result."
)
@click.option("--residual", type=path_type, metavar="R.npy", help="What the epilogue of a layer adds.")
@layer_option
@dtype_option
@precision_option
@fuse_option
@host_option
@switch_option
@numerics_option
@no_cache_option
@json_option
@chosen_options
def run_command(
    source: Path,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    residual: Path | None,
    layer: str | None,
    host: str,
    json_file: Path | None,
    chosen: Chosen,
) -> None:
    """Run a layer of the build folder DIR, or all of MODEL.onnx, on the machine.

    A layer runs on the kernel's text as it is in the folder. Of a model, convolutions run on the machine and other
    nodes on the host.

    Inputs may be float16, float32 or float64 and are rounded to the type of the kernel, or of the model's input.
    bfloat16 results are written as float32. With one layer in the build, --layer is not needed; with one input or
    output in the model, no NAME is. A layer that a residual was fused into takes that as a file of its own, of the
    shape of its result.
    """
    if _looks_like_model(source):
        for option, given in (("--layer", layer), ("--residual", residual)):
            if given is not None:
                raise click.UsageError(f"{option} is for build folders: a model runs as a whole.")
        _run_network(source, inputs, outputs, host, json_file, chosen)
        return
    if chosen.read != ReadOptions() or host != "reference" or chosen.work.cache is False:
        raise click.UsageError(
            "--dtype, --precision, --no-fuse, --host and --no-cache are for models: a build folder has settled them."
        )
    x = _one_file(inputs, "--input", "--input")
    target = _one_file(outputs, "--output", "-o")
    _run_layer(source, x, target, residual, layer, json_file, chosen)


def _run_layer(
    build: Path,
    x: Path,
    target: Path,
    residual: Path | None,
    layer: str | None,
    json_file: Path | None,
    chosen: Chosen,
) -> None:
    """One layer, from file to file."""
    out = console(stderr=check_reports(json_file))
    with progress_bar() as progress:
        run = api.run_layer(build, x, layer, residual=residual, save=target, machine=chosen.machine, progress=progress)
    print_findings(console(stderr=True), run.findings)
    write_report(json_file, layer_run_json(run, target if run.ok else None))
    if not run.ok:
        raise click.exceptions.Exit(1)
    print_layer_run(out, run, target)


def _run_network(
    model: Path,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    host: str,
    json_file: Path | None,
    chosen: Chosen,
) -> None:
    """A whole model, from files to files."""
    out = console(stderr=check_reports(json_file))
    save = _named_files(outputs, "--output")
    feeds = _named_files(inputs, "--input")
    with progress_bar() as progress:
        work = dataclasses.replace(chosen.work, progress=progress)
        run = api.run_network(model, feeds, host=host, read=chosen.read, machine=chosen.machine, save=save, work=work)
    write_report(json_file, network_run_json(str(model), run))
    print_network_run(out, run)


def _looks_like_model(path: Path) -> bool:
    """Whether the argument of ``convc run`` is a model and not a build folder."""
    return not path.is_dir() and (path.suffix.lower() == ".onnx" or path.is_file())


def _one_file(values: tuple[str, ...], option: str, spelling: str) -> Path:
    """The one file that a layer takes, without a name."""
    if not values:
        raise click.UsageError(f"Missing option '{spelling}': a layer of a build folder takes one file.")
    files = _named_files(values, option)
    if list(files) != [""]:
        raise click.UsageError(f"a layer of a build folder takes one '{spelling}', a file without NAME.")
    return files[""]


def _named_files(values: tuple[str, ...], option: str) -> dict[str, Path]:
    """``NAME=FILE`` by name, ``FILE`` alone under ""; `InputError` for a name that comes twice."""
    files: dict[str, Path] = {}
    for value in values:
        name, equals, file = value.partition("=")
        if not equals or Path(value).exists():
            name = ""
            file = value
        if name in files:
            raise InputError(f"{option} is given twice for {name!r}" if name else f"{option} needs names: NAME=FILE")
        files[name] = Path(file)
    return files
