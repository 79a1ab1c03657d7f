"""``convc check``: does a kernel rely on luck?"""

from __future__ import annotations

from pathlib import Path

import click

from convc.cli.options import all_switches_option, layer_option, path_type, report_options, switch_option


@click.command("check", short_help="Look for races and hangs in the kernels of a build folder.")
@click.argument("build", type=path_type, metavar="DIR")
@layer_option()
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the input.")
@all_switches_option
@switch_option
@report_options
def check_command(
    build: Path,
    layer: str | None,
    seed: int,
    all_switches: bool,
    switches: tuple[str, ...],
    json_file: Path | None,
    sarif_file: Path | None,
) -> None:
    """Run the kernels of the build folder DIR on random input with every checker watching.

    Found are accesses of shared, tensor and global memory that no synchronisation orders (in a cluster, between its
    CTAs), CTAs that exit while a peer may still reach them, registers used before tcgen05.wait, CTAs that use bytes
    that another one stores, reads of memory never written, leaks, hangs and faults.
    Exit code 1 when the verdict of any kernel is incomplete or error.
    """
    from convc.build.folder import load_build
    from convc.ir.findings import Verdict
    from convc.machine import RunOptions
    from convc.machine.base.switches import parse_switches
    from convc.report.console import console, part_of, progress_bar
    from convc.report.launch import print_findings, print_verdict, write_findings
    from convc.report.output import check_reports
    from convc.runtime.layer import input_buffers, random_input, random_residual
    from convc.runtime.source_map import attach_source
    from convc.sanitizer.run import check_kernel

    out = console(stderr=check_reports(json_file, sarif_file))
    options = RunOptions(switches=parse_switches(switches))
    loaded = load_build(build)
    names = [layer] if layer is not None else list(loaded.names)
    findings, seen = [], set()
    with progress_bar() as progress:
        for index, name in enumerate(names):
            ready = loaded.load(name)
            if ready.file in seen:
                continue
            seen.add(ready.file)
            x = random_input(ready, seed)
            bar = progress and part_of(progress, f"check {name}", index, len(names))
            more = {"options": options, "all_switches": all_switches, "progress": bar}
            buffers = input_buffers(ready, x, random_residual(ready, seed))
            checked = check_kernel(ready.ptx, ready.launch, buffers, file=ready.file, **more)
            print_verdict(out, name, checked.verdict, len(checked.findings))
            info = loaded.debug_info(name)
            placed = [attach_source(ready, finding, info) for finding in checked.findings]
            print_findings(out, placed)
            findings += placed
    write_findings(findings, json_file, sarif_file)
    if any(finding.verdict >= Verdict.incomplete for finding in findings):
        raise click.exceptions.Exit(1)
