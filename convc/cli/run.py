"""``convc run``: one layer of a build folder, from a .npy file to a .npy file."""

from __future__ import annotations

from pathlib import Path

import click

from convc.cli.options import json_option, layer_option, numerics_option, path_type, switch_option


@click.command("run", short_help="Run a layer of a build folder.")
@click.argument("build", type=path_type, metavar="DIR")
@click.option("--input", "source", type=path_type, required=True, metavar="X.npy", help="Activations.")
@click.option("-o", "--output", "target", type=path_type, required=True, metavar="Y.npy", help="Result.")
@click.option("--residual", "added", type=path_type, metavar="R.npy", help="What the layer's epilogue adds.")
@layer_option()
@switch_option
@numerics_option
@json_option
def run_command(
    build: Path,
    source: Path,
    target: Path,
    added: Path | None,
    layer: str | None,
    switches: tuple[str, ...],
    numerics: str,
    json_file: Path | None,
) -> None:
    """Run a layer of the build folder DIR on the machine, on the kernel's text as it is in the folder.

    The input may be float16, float32 or float64 and is rounded to the kernel's type. bfloat16 results are
    written as float32. With one layer in the build, --layer is not needed. A layer that a residual was fused into
    takes that as a second file, of the shape of its result.
    """
    from convc.build import load_build
    from convc.files import check_target, write_npy
    from convc.findings import Verdict
    from convc.machine import RunOptions
    from convc.machine.switches import parse_switches
    from convc.report.console import console, progress_bar
    from convc.report.output import check_reports, write_report
    from convc.report.runs import layer_run_json, print_findings, print_run
    from convc.runtime.session import read_input, read_residual, readable, run_layer

    check_target(target)
    out = console(stderr=check_reports(json_file))
    options = RunOptions(switches=parse_switches(switches, numerics=numerics))
    ready = load_build(build).load(layer)
    x = read_input(source, ready.form, f"layer {ready.name!r}")
    residual = None if added is None else read_residual(added, ready.form, f"layer {ready.name!r}")
    with progress_bar() as progress:
        bar = None if progress is None else lambda done, total: progress(f"run {ready.name}", done / total)
        result = run_layer(ready, x, options, progress=bar, residual=residual)
    print_findings(console(stderr=True), result.findings)
    good = result.verdict < Verdict.incomplete
    write_report(json_file, layer_run_json(ready.name, result, target if good else None, result.findings))
    if not good:
        raise click.exceptions.Exit(1)
    y = readable(result.y)
    write_npy(target, y)
    print_run(out, ready.name, result.counters, result.seconds)
    out.print(f"wrote {target}: {y.dtype.name} {list(y.shape)}")
