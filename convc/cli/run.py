"""``convc run``: one layer of a build folder, or a whole model, from .npy files to .npy files."""

from __future__ import annotations

from pathlib import Path

import click

from convc.cli.options import (
    dtype_option,
    fuse_option,
    host_option,
    json_option,
    layer_option,
    no_cache_option,
    numerics_option,
    path_type,
    precision_option,
    switch_option,
)
from convc.cli.run_network import looks_like_model, named_files, run_network


@click.command("run", short_help="Run a layer of a build folder, or a whole model.")
@click.argument("source", type=path_type, metavar="DIR|MODEL.onnx")
@click.option("--input", "inputs", required=False, multiple=True, metavar="[NAME=]X.npy", help="Activations.")
@click.option("-o", "--output", "outputs", multiple=True, metavar="[NAME=]Y.npy", help="Result.")
@click.option("--residual", type=path_type, metavar="R.npy", help="What the epilogue of a layer adds.")
@layer_option()
@dtype_option
@precision_option
@fuse_option
@host_option
@switch_option
@numerics_option
@no_cache_option
@json_option
def run_command(
    source: Path,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    residual: Path | None,
    layer: str | None,
    dtype: str | None,
    precision: str | None,
    fuse: bool,
    host: str,
    switches: tuple[str, ...],
    numerics: str,
    no_cache: bool,
    json_file: Path | None,
) -> None:
    """Run a layer of the build folder DIR on the machine, on the kernel's text as it is in the folder; or run all of
    MODEL.onnx, its convolutions on the machine and other nodes on the host.

    Inputs may be float16, float32 or float64 and are rounded to the type of the kernel, or of the model's input.
    bfloat16 results are written as float32. With one layer in the build, --layer is not needed; with one input or
    output in the model, no NAME is. A layer that a residual was fused into takes that as a file of its own, of the
    shape of its result.
    """
    if looks_like_model(source):
        for option, given in (("--layer", layer), ("--residual", residual)):
            if given is not None:
                raise click.UsageError(f"{option} is for build folders: a model runs as a whole.")
        run_network(
            source, inputs, outputs, dtype, precision or "tf32", fuse, host, switches, numerics, no_cache, json_file
        )
        return
    if dtype or precision or host != "reference" or no_cache or not fuse:
        raise click.UsageError(
            "--dtype, --precision, --no-fuse, --host and --no-cache are for models: a build folder has settled them."
        )
    files = [named_files(given, option) for given, option in ((inputs, "--input"), (outputs, "--output"))]
    for found, option in zip(files, ("--input", "-o"), strict=True):
        if list(found) != [""]:
            raise click.UsageError(f"a layer of a build folder takes one '{option}', a file without NAME.")
    _run_layer(source, files[0][""], files[1][""], residual, layer, switches, numerics, json_file)


def _run_layer(
    build: Path,
    source: Path,
    target: Path,
    added: Path | None,
    layer: str | None,
    switches: tuple[str, ...],
    numerics: str,
    json_file: Path | None,
) -> None:
    """One layer, from file to file."""
    from convc.build.folder import load_build
    from convc.ir.findings import Verdict
    from convc.machine import RunOptions
    from convc.machine.base.switches import parse_switches
    from convc.report.console import console, progress_bar
    from convc.report.launch import layer_run_json, print_findings, print_run
    from convc.report.output import check_reports, write_report
    from convc.runtime.layer import read_input, read_residual, run_layer, to_standard_dtype
    from convc.support.files import check_target, write_npy

    check_target(target)
    out = console(stderr=check_reports(json_file))
    options = RunOptions(switches=parse_switches(switches, numerics=numerics))
    ready = load_build(build).load(layer)
    x = read_input(source, ready.layout, f"layer {ready.name!r}")
    residual = None if added is None else read_residual(added, ready.layout, f"layer {ready.name!r}")
    with progress_bar() as progress:
        bar = None if progress is None else lambda done, total: progress(f"run {ready.name}", done / total)
        result = run_layer(ready, x, options, progress=bar, residual=residual)
    print_findings(console(stderr=True), result.findings)
    good = result.verdict < Verdict.incomplete
    y = to_standard_dtype(result.y)
    if good:
        write_npy(target, y)
    write_report(json_file, layer_run_json(ready.name, result, target if good else None, result.findings))
    if not good:
        raise click.exceptions.Exit(1)
    print_run(out, ready.name, result.counters, result.seconds)
    out.print(f"wrote {target}: {y.dtype.name} {list(y.shape)}")
