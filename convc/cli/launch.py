"""``convc launch``: a kernel on a real GPU."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from convc import api
from convc.api.options import GpuOptions
from convc.cli.contradictions import check_order, refuse_given
from convc.cli.failures import write_failure
from convc.cli.options import (
    Chosen,
    chosen_options,
    collected,
    inputs_option,
    json_option,
    layer_option,
    max_instructions_option,
    numerics_option,
    outputs_option,
    path_type,
    switch_option,
    target_type,
)
from convc.cli.streams import DASH, named_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Options on what goes in and what comes out."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    residual: Path | None
    layer: str | None
    seed: int | None
    emit_host: Path | None
    sanitize: bool


@click.command("launch")
@click.argument("kernel", type=path_type, metavar="DIR|KERNEL.ptx")
@click.argument("launch", type=path_type, required=False, metavar="[LAUNCH.json]")
@inputs_option("Contents of a buffer; of a layer its activations. .npy")
@outputs_option("File for a buffer after the launch; of a layer its result. .npy")
@click.option("--residual", type=path_type, metavar="R.npy", help="The residual that the epilogue adds.")
@layer_option
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Fill buffers without a file with random data.")
@click.option("--compare", is_flag=True, help="Run the same text on the simulator, and compare every buffer.")
@click.option(
    "--atol", type=float, default=0.0, metavar="X", help="Absolute tolerance of floating-point elements, and ..."
)
@click.option(
    "--rtol", type=float, default=0.0, metavar="X", help="... relative tolerance, as a share of the simulator's value."
)
@click.option("--time", "repeat", type=int, default=0, metavar="N", help="Number of additional launches to time.")
@click.option(
    "--timeout", type=float, default=60.0, show_default=True, metavar="SECONDS", help="Time limit of a launch."
)
@click.option("--sanitize", is_flag=True, help="Also launch it under NVIDIA's compute-sanitizer.")
@click.option(
    "--emit-host", type=target_type, metavar="FILE.cu", help="Write the launch as a C++ program, without launching."
)
@switch_option
@max_instructions_option
@numerics_option
@json_option
@collected("data", Data)
@collected("gpu", GpuOptions)
@chosen_options
def launch_command(
    kernel: Path, launch: Path | None, data: Data, gpu: GpuOptions, json_file: Path | None, chosen: Chosen
) -> None:
    """Launch a kernel on the first GPU of this machine: a layer of a build folder, or any with a launch file.

    The kernel is PTX or a .cubin; NVIDIA's driver encodes the tensor maps. A digest of every buffer is printed. With
    --compare the simulator runs the same PTX on the same data: every byte must agree, or lie within --atol and --rtol.
    Buffers without data are filled with bytes 0xFF on both.
    """
    # Imported when the command runs: its help needs neither the simulator nor the driver.
    from convc.api.launching import Hang, KernelInputs, write_host_program
    from convc.report.console import console, progress_bar
    from convc.report.gpu import launched_json, print_launched
    from convc.report.launch import print_sanitized
    from convc.report.output import check_reports, write_report

    files = named_files(data.inputs, "--input")
    save = named_files(data.outputs, "--output")
    check_order(kernel, launch)
    _check(launch, data, files, save)
    inputs = KernelInputs(
        arrays=files.get("") if launch is None else files,
        layer=data.layer,
        residual=data.residual,
        seed=data.seed,
    )
    out = console(stderr=check_reports(json_file))
    if data.emit_host is not None:
        for file in write_host_program(kernel, launch, inputs, data.emit_host):
            out.print(f"wrote {file}", soft_wrap=True, markup=False)
        return
    if data.sanitize:
        with progress_bar() as progress:
            checked = api.sanitize(
                kernel, launch, inputs, timeout=gpu.timeout, machine=chosen.machine, progress=progress
            )
        print_sanitized(out, checked.entry, checked.tools, checked.findings)
        if not checked.ok:
            raise click.exceptions.Exit(1)
        return
    try:
        with progress_bar() as progress:
            done = api.launch(kernel, launch, inputs, save=save, gpu=gpu, machine=chosen.machine, progress=progress)
    except Hang as hang:
        write_failure(json_file, hang)
        click.echo(str(hang), err=True)
        sys.stderr.flush()
        os._exit(hang.exit_code)  # an ordinary end of the process would wait for the kernel
    print_launched(out, done)
    if json_file is not None:
        write_report(json_file, launched_json(done))
    if not done.ok:
        raise click.exceptions.Exit(1)


def _check(launch: Path | None, data: Data, files: dict[str, Path], save: dict[str, Path]) -> None:
    """Raise click.UsageError where words of the call do not go together."""
    if DASH in map(str, (data.residual, data.emit_host, *files.values(), *save.values())):
        raise click.UsageError("buffers and programs go to files: only the report of --json can go to stdout (-).")
    if launch is None and set(files) - {""}:
        raise click.UsageError("a layer of a build folder takes one '--input', a file without NAME.")
    if data.emit_host is not None:
        settled = ("compare", "atol", "rtol", "repeat", "timeout", "outputs", "switches", "numerics", "json_file")
        refuse_given("--emit-host launches nothing", (*settled, "sanitize"))
    if data.sanitize:
        settled = ("compare", "atol", "rtol", "repeat", "outputs", "json_file")
        refuse_given("--sanitize launches under compute-sanitizer and says what that says", settled)
