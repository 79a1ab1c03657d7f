"""``convc run``: one layer of a build folder, or a whole model, from .npy files to .npy files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from convc import api
from convc.api.options import ReadOptions
from convc.cli.options import (
    Chosen,
    batch_option,
    chosen_options,
    collected,
    dtype_option,
    fuse_option,
    host_option,
    inputs_option,
    json_option,
    layer_option,
    max_instructions_option,
    no_cache_option,
    numerics_option,
    outputs_option,
    path_type,
    precision_option,
    shape_option,
    switch_option,
    target_type,
)
from convc.cli.streams import DASH, check_once, model_source, named_files, sources_of, write_stdout
from convc.errors import InputError
from convc.support.guessing import hint_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Options on what goes in and what comes out."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    seed: int | None
    save_inputs: Path | None


@click.command("run")
@click.argument("source", type=path_type, metavar="DIR|MODEL.onnx")
@inputs_option("Activations, .npy or .npz of several (- is stdin).")
@outputs_option("Result, .npy or .npz of all (- is stdout).")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Draw inputs without a file at random.")
@click.option("--save-inputs", type=target_type, metavar="FILE", help="Write the inputs of the run: .npz or .npy.")
@click.option("--residual", type=path_type, metavar="R.npy", help="The residual that the epilogue adds.")
@layer_option
@batch_option
@shape_option
@dtype_option
@precision_option
@fuse_option
@host_option
@switch_option
@max_instructions_option
@numerics_option
@no_cache_option
@json_option
@collected("data", Data)
@chosen_options
def run_command(
    source: Path,
    data: Data,
    residual: Path | None,
    layer: str | None,
    host: str,
    json_file: Path | None,
    chosen: Chosen,
) -> None:
    """Run a layer of the build folder DIR, or all of MODEL.onnx, on the simulator.

    A layer runs from the PTX in the folder. The convolutions of a model run on the simulator, its other nodes on the
    host.

    Inputs are float16, float32 or float64 and are rounded to the type of the kernel, or of the model's input. bfloat16
    results are written as float32. A build with one layer needs no --layer, a model with one input or output no NAME.
    --residual is the input of a fused residual, in the shape of the result.

    A .npz file holds arrays by the names of the model's inputs or outputs; for a layer x, residual and y.
    """
    check_once(source, *data.inputs)
    files = named_files(data.outputs, "--output")
    if sum(str(file) == DASH for file in (json_file, *files.values())) > 1:
        raise click.UsageError("only one output or report can go to stdout (-): name a file for the others.")
    if str(data.save_inputs) == DASH:
        raise click.UsageError("--save-inputs takes the name of a file: only results and reports go to stdout (-).")
    if _looks_like_model(source):
        for option, given in (("--layer", layer), ("--residual", residual)):
            if given is not None:
                raise click.UsageError(f"{option} is for build folders: a model runs as a whole.")
        _run_network(source, data, files, host, json_file, chosen)
        return
    if chosen.read != ReadOptions() or host != "auto" or chosen.work.cache is False:
        raise click.UsageError(
            "--dtype, --precision, --batch, --shape, --no-fuse, --host and --no-cache are for models: a build "
            "folder holds its own."
        )
    target = _one_file(files, "-o")
    _run_layer(source, data, target, residual, layer, json_file, chosen)


def _run_layer(
    build: Path,
    data: Data,
    target: Path,
    residual: Path | None,
    layer: str | None,
    json_file: Path | None,
    chosen: Chosen,
) -> None:
    # Imported when the command runs: its help needs no report.
    from convc.report.console import console, progress_bar
    from convc.report.launch import layer_run_json, print_findings, print_layer_run
    from convc.report.output import check_reports, write_report

    piped = str(target) == DASH
    out = console(stderr=check_reports(json_file) or piped)
    files = named_files(data.inputs, "--input")
    x = api.InputData(
        arrays=None if not files and data.seed is not None else sources_of({"": _one_file(files, "--input")}, "x")[""],
        seed=data.seed,
        save=data.save_inputs,
    )
    save = None if piped else target
    with progress_bar() as progress:
        run = api.run_layer(build, x, layer, residual=residual, save=save, machine=chosen.machine, progress=progress)
    print_findings(console(stderr=True), run.findings)
    write_report(json_file, layer_run_json(run, target if run.ok else None))
    if not run.ok:
        raise click.exceptions.Exit(1)
    if piped:
        _write_array(run.name, run.y)
    print_layer_run(out, run, target)


def _run_network(
    model: Path,
    data: Data,
    files: dict[str, Path],
    host: str,
    json_file: Path | None,
    chosen: Chosen,
) -> None:
    # Imported when the command runs: its help needs no report.
    from convc.report.console import console, progress_bar
    from convc.report.network import network_run_json, print_network_run
    from convc.report.output import check_reports, write_report

    piped = next((name for name, file in files.items() if str(file) == DASH), None)
    out = console(stderr=check_reports(json_file) or piped is not None)
    save = {name: file for name, file in files.items() if name != piped}
    feeds = api.InputData(
        arrays=sources_of(named_files(data.inputs, "--input"), "an input"), seed=data.seed, save=data.save_inputs
    )
    source = model_source(model)
    with progress_bar() as progress:
        work = dataclasses.replace(chosen.work, progress=progress)
        run = api.run_network(source, feeds, host=host, read=chosen.read, machine=chosen.machine, save=save, work=work)
    if piped is not None:
        _pipe(run.outputs, piped)
    write_report(json_file, network_run_json(str(model), run))
    print_network_run(out, run)


def _pipe(outputs: Mapping[str, Any], name: str) -> None:
    """Write an output to stdout; "" is the only one."""
    if not name and len(outputs) > 1:
        listed = ", ".join(outputs)
        which = f"say which with -o {next(iter(outputs))}=-"
        raise InputError(f"the model has {len(outputs)} outputs: {which}", hint=f"outputs: {listed}")
    output = name or next(iter(outputs))
    if output not in outputs:
        raise InputError(f"the model has no output named {name!r}", hint=hint_of(name, list(outputs), "outputs"))
    _write_array(output, outputs[output])


def _write_array(name: str, values: Any) -> None:
    from convc.support.arrays import npy_bytes, storable

    write_stdout(npy_bytes(storable(name, values)))


def _looks_like_model(path: Path) -> bool:
    """Whether the argument of ``convc run`` is a model and not a build folder."""
    if str(path) == DASH:
        return True
    return not path.is_dir() and (path.suffix.lower() == ".onnx" or path.is_file())


def _one_file(files: dict[str, Path], spelling: str) -> Path:
    if not files:
        raise click.UsageError(f"Missing option '{spelling}': a layer of a build folder takes one file.")
    if list(files) != [""]:
        raise click.UsageError(f"a layer of a build folder takes one '{spelling}', a file without NAME.")
    return files[""]
