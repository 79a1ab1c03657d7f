"""``convc check``: whether the kernels of a build rely on luck."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc import api
from convc.cli.options import (
    Chosen,
    Layers,
    all_switches_option,
    chosen_options,
    layers_option,
    path_type,
    report_options,
    switch_option,
)

if TYPE_CHECKING:
    from convc import KernelCheck


@click.command("check")
@click.argument("build", type=path_type, metavar="DIR")
@layers_option
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the input.")
@all_switches_option
@switch_option
@report_options
@chosen_options
def check_command(
    build: Path,
    layer: Layers,
    seed: int,
    all_switches: bool,
    json_file: Path | None,
    sarif_file: Path | None,
    chosen: Chosen,
) -> None:
    """Run the kernels of the build folder DIR on random input with every checker watching.

    Found are accesses of shared, tensor and global memory that no synchronisation orders (in a cluster, between its
    CTAs), CTAs that exit while a peer may still reach them, registers used before tcgen05.wait, CTAs that use bytes
    that another one stores, reads of memory never written, leaks, hangs and faults.
    Exit code 1 when the verdict of any kernel is incomplete or error.
    """
    # Imported when the command runs: its help needs no report.
    from convc.report.console import console, progress_bar
    from convc.report.launch import print_findings, print_verdict, write_findings
    from convc.report.output import check_reports

    out = console(stderr=check_reports(json_file, sarif_file))

    def watch(kernel: KernelCheck) -> None:
        print_verdict(out, kernel.layer, kernel.verdict, len(kernel.findings))
        print_findings(out, kernel.findings)

    with progress_bar() as progress:
        report = api.check(
            build,
            layer,
            seed=seed,
            all_switches=all_switches,
            machine=chosen.machine,
            watch=watch,
            progress=progress,
        )
    write_findings(report.findings, json_file, sarif_file)
    if not report.ok:
        raise click.exceptions.Exit(1)
