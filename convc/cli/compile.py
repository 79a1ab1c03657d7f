"""``convc compile``: a model becomes a build folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc.cli.options import (
    batch_option,
    dtype_option,
    fuse_option,
    jobs_options,
    json_option,
    layer_option,
    model_argument,
    no_cache_option,
    path_type,
    precision_option,
    schedule_options,
)

if TYPE_CHECKING:
    from convc.compiler.options import ScheduleOptions


@click.command("compile", short_help="An ONNX model becomes a build folder.")
@model_argument
@click.option("-o", "--output", "folder", type=path_type, required=True, metavar="DIR", help="Build folder.")
@layer_option()
@batch_option
@dtype_option
@precision_option
@fuse_option
@schedule_options
@click.option("--assemble", is_flag=True, help="Also write kernel.cubin with ptxas, and print what it takes.")
@jobs_options
@no_cache_option
@json_option
def compile_command(
    model: Path,
    folder: Path,
    layer: str | None,
    batch: int | None,
    dtype: str | None,
    precision: str | None,
    fuse: bool,
    options: ScheduleOptions,
    assemble: bool,
    jobs: int | None,
    executor: str | None,
    no_cache: bool,
    json_file: Path | None,
) -> None:
    """Compile the convolutions of MODEL (an ONNX file) into the folder DIR.

    Each distinct convolution becomes DIR/kernels/DIGEST/kernel.ptx with its launch.json. A build that is
    already in DIR is replaced when the new one is whole.
    """
    from convc import api
    from convc.report.build import build_json, print_assembled, print_build
    from convc.report.console import console, progress_bar
    from convc.report.output import check_reports, write_report
    from convc.support import ptxas
    from convc.workers.pool import Pool

    assembled: dict[str, ptxas.Assembled] = {}

    def assembler(digest: str, text: str) -> bytes:
        assembled[digest] = ptxas.assemble(text, file=f"{digest}/kernel.ptx")
        return assembled[digest].cubin

    out = console(stderr=check_reports(json_file))
    if assemble:
        ptxas.require_ptxas()
    with Pool(executor, jobs) as pool, progress_bar() as progress:
        build = api.compile(
            model,
            folder,
            layer=layer,
            batch=batch,
            dtype=dtype,
            precision=precision,
            fuse=fuse,
            options=options,
            assembler=assembler if assemble else None,
            cache=False if no_cache else None,
            executor=pool,
            progress=progress,
        )
    print_build(out, build)
    launches = {layer.kernel: build.launch(layer) for layer in build.network.layers}
    if assemble:
        print_assembled(
            out,
            {
                digest: (made.registers, made.shared_bytes, launches[digest].shared_bytes, made.spill_bytes)
                for digest, made in assembled.items()
            },
        )
    if json_file is not None:
        taken = {
            digest: {"registers": made.registers, "shared_bytes": made.shared_bytes, "spill_bytes": made.spill_bytes}
            for digest, made in assembled.items()
        }
        write_report(json_file, build_json(build, launches, taken))
