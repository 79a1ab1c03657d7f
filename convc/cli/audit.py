"""``convc audit``: whether kernels keep the rules of the PTX manual, by reading them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc import api
from convc.cli.contradictions import check_order
from convc.cli.options import Layers, layers_option, path_type, report_options, strict_option

if TYPE_CHECKING:
    from convc import AuditReport, KernelAudit
    from convc.report.audit import AuditJson


@click.command("audit")
@click.argument("source", type=path_type, metavar="DIR|KERNEL.ptx")
@click.argument("launch", type=path_type, metavar="[LAUNCH.json]", required=False)
@layers_option
@strict_option
@report_options
def audit_command(
    source: Path,
    launch: Path | None,
    layer: Layers,
    strict: bool,
    json_file: Path | None,
    sarif_file: Path | None,
) -> None:
    """Check the kernels of the build folder DIR, or a single kernel, against the rules of the PTX manual.

    Nothing runs: the control flow of the warps of a cluster is followed with the values that the PTX and the launch
    file give. Checked are descriptors, bytes and arrivals of mbarriers, parities, fences, tensor memory, masks, limits
    and the order of operations. What cannot be followed is listed as not understood, without a finding. Exit code 1
    when the verdict of any kernel is error, with --strict also when it is rule.
    """
    check_order(source, launch)
    # Imported when the command runs: its help needs no report.
    from convc.report.audit import print_looked, print_unclear
    from convc.report.console import console, progress_bar
    from convc.report.launch import print_findings, print_verdict, write_sarif
    from convc.report.output import check_reports, json_text, write_report

    out = console(stderr=check_reports(json_file, sarif_file))

    def watch(kernel: KernelAudit) -> None:
        more = len(kernel.layers) - 1
        name = f"{kernel.name} and {more} more with its kernel" if more > 0 else kernel.name
        print_verdict(out, name, kernel.verdict, len(kernel.findings))
        print_findings(out, kernel.findings)
        print_unclear(out, kernel.file, kernel.unclear)
        print_looked(out, kernel.looked)

    with progress_bar() as progress:
        report = api.audit(source, launch, layer=layer or None, watch=watch, progress=progress)
    write_sarif(report.findings, sarif_file)
    if json_file is not None:
        write_report(json_file, json_text(_json(report)))
    if not report.ok or (strict and not report.by_the_manual):
        raise click.exceptions.Exit(1)


def _json(report: AuditReport) -> AuditJson:
    from convc.report.audit import kernel_json
    from convc.report.sarif import verdict_name

    return {
        "format": "convc-audit/1",
        "source": report.source,
        "ok": report.ok,
        "verdict": verdict_name(report.verdict),
        "kernels": [
            kernel_json(each.name, each.layers, each.file, each.verdict, each.findings, each.looked, each.unclear)
            for each in report.kernels
        ],
    }
