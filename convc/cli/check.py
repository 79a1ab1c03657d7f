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
    max_instructions_option,
    path_type,
    report_options,
    strict_option,
    switch_option,
)

if TYPE_CHECKING:
    from convc import CheckReport, KernelCheck
    from convc.report.schemas import CheckedKernel, CheckJson


@click.command("check")
@click.argument("build", type=path_type, metavar="DIR")
@layers_option
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the input.")
@all_switches_option
@strict_option
@switch_option
@max_instructions_option
@report_options
@chosen_options
def check_command(
    build: Path,
    layer: Layers,
    seed: int,
    all_switches: bool,
    strict: bool,
    json_file: Path | None,
    sarif_file: Path | None,
    chosen: Chosen,
) -> None:
    """Run the kernels of the build folder DIR on random input, and check them for races, hangs and unwritten memory.

    Findings are: unordered accesses of shared, tensor and global memory within a CTA or cluster, CTAs that exit while a
    peer may still access them, registers used before tcgen05.wait, bytes that one CTA stores and another one uses,
    reads of memory that was never written, leaks, hangs and faults. Exit code 1 when the verdict of any kernel is
    incomplete or error, with --strict also when it is rule.
    """
    # Imported when the command runs: its help needs no report.
    from convc.report.console import console, progress_bar
    from convc.report.launch import print_findings, print_scope, print_verdict, write_sarif
    from convc.report.output import check_reports, json_text, write_report

    out = console(stderr=check_reports(json_file, sarif_file))

    def watch(kernel: KernelCheck) -> None:
        more = len(kernel.layers) - 1
        name = f"{kernel.layer} and {more} more with its kernel" if more else kernel.layer
        print_verdict(out, name, kernel.verdict, len(kernel.findings))
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
    layers = sum(len(kernel.layers) for kernel in report.kernels)
    print_verdict(out, _total(layers, len(report.kernels)), report.verdict, len(report.findings))
    if report.ok:
        print_scope(out, seed, all_switches)
    write_sarif(report.findings, sarif_file)
    if json_file is not None:
        write_report(json_file, json_text(_json(report)))
    if not report.ok or (strict and not report.by_the_manual):
        raise click.exceptions.Exit(1)


def _total(layers: int, kernels: int) -> str:
    """How much was checked."""
    return f"{layers} layer{'s' if layers != 1 else ''}, {kernels} kernel{'s' if kernels != 1 else ''}"


def _json(report: CheckReport) -> CheckJson:
    from convc.report.sarif import finding_json, groups_json, verdict_name

    kernels: list[CheckedKernel] = [
        {
            "layer": kernel.layer,
            "layers": list(kernel.layers),
            "file": kernel.file,
            "verdict": verdict_name(kernel.verdict),
            "findings": [finding_json(finding) for finding in kernel.findings],
            "groups": groups_json(kernel.findings),
        }
        for kernel in report.kernels
    ]
    return {
        "format": "convc-check/1",
        "source": report.source,
        "ok": report.ok,
        "verdict": verdict_name(report.verdict),
        "seed": report.seed,
        "all_switches": report.all_switches,
        "kernels": kernels,
        "findings": [finding for kernel in kernels for finding in kernel["findings"]],
        "groups": [group for kernel in kernels for group in kernel["groups"]],
    }
