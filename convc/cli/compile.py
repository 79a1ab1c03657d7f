"""``convc compile``: a model becomes a build folder."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from convc import api
from convc.cli.options import (
    Chosen,
    Layers,
    chosen_options,
    jobs_options,
    json_option,
    layers_option,
    model_options,
    no_cache_option,
    path_type,
    target_type,
    wide_option,
)
from convc.cli.streams import DASH, model_source
from convc.cli.suggest import print_next, slowest
from convc.support import ptxas


@click.command("compile")
@click.argument("model", type=path_type)
@click.option("-o", "--output", "folder", type=target_type, required=True, metavar="DIR", help="Build folder.")
@layers_option
@model_options
@click.option(
    "--assemble",
    is_flag=True,
    help="Also write kernel.cubin with ptxas, and print registers, shared memory and spills.",
)
@jobs_options
@no_cache_option
@wide_option
@json_option
@chosen_options
def compile_command(
    model: Path, folder: Path, layer: Layers, assemble: bool, wide: bool, json_file: Path | None, chosen: Chosen
) -> None:
    """Compile the convolutions of MODEL (an ONNX file) into the folder DIR.

    Each distinct convolution becomes DIR/kernels/DIGEST/kernel.ptx with its launch.json. An existing build in DIR is
    replaced once the new one is complete.
    """
    if str(folder) == DASH:
        raise click.UsageError("-o takes a folder, which stdout (-) is not.")
    # Imported when the command runs: its help needs no report.
    from convc.report.build import build_json, print_assembled, print_build
    from convc.report.console import console, progress_bar
    from convc.report.output import check_reports, write_report

    assembled: dict[str, ptxas.Assembled] = {}

    def assembler(digest: str, text: str) -> bytes:
        assembled[digest] = ptxas.assemble(text, file=f"{digest}/kernel.ptx")
        return assembled[digest].cubin

    out = console(stderr=check_reports(json_file))
    if assemble:
        ptxas.require_ptxas()
    with api.Pool(chosen.workers.executor, chosen.workers.jobs) as pool, progress_bar() as progress:
        build = api.compile(
            model_source(model),
            folder,
            layer=layer,
            read=chosen.read,
            schedule=chosen.schedule,
            assembler=assembler if assemble else None,
            work=dataclasses.replace(chosen.work, executor=pool, progress=progress),
        )
    print_build(out, build, wide)
    if assemble:
        print_assembled(out, build, assembled)
    print_next(out, "inspect", folder, slowest((layer.name, layer.planned) for layer in build.network.layers))
    if json_file is not None:
        write_report(json_file, build_json(build, assembled))
