"""``convc exec``: any kernel with a launch file."""

from __future__ import annotations

from pathlib import Path

import click

from convc.cli.options import (
    all_switches_option,
    counts_option,
    numerics_option,
    path_type,
    report_options,
    switch_option,
)


@click.command("exec", short_help="Run any PTX kernel with a launch file.")
@click.argument("kernel", type=path_type, metavar="KERNEL.ptx")
@click.argument("launch", type=path_type, metavar="LAUNCH.json")
@click.option("--check", is_flag=True, help="Look for races and hangs while it runs (see convc check).")
@all_switches_option
@switch_option
@numerics_option
@counts_option
@report_options
def exec_command(
    kernel: Path,
    launch: Path,
    check: bool,
    all_switches: bool,
    switches: tuple[str, ...],
    numerics: str,
    counts: bool,
    json_file: Path | None,
    sarif_file: Path | None,
) -> None:
    """Run any PTX kernel on the machine, as LAUNCH.json says.

    The launch file gives grid, block, dynamic shared memory, parameters and buffers. A buffer's "file" is
    read before the launch, its "save" is written after it; both are .npy files, relative to the launch file.
    The JSON has the findings and everything that the machine counted.
    """
    from convc import machine
    from convc.ir.findings import Verdict, worst
    from convc.ir.launch import load_launch
    from convc.machine.base.switches import parse_switches
    from convc.report.console import console, progress_bar
    from convc.report.counts import print_counts
    from convc.report.launch import launch_json, print_findings, print_run, print_verdict, write_findings
    from convc.report.output import check_reports, write_report
    from convc.runtime.launch_files import read_buffers, save_targets
    from convc.sanitizer.run import check_kernel
    from convc.support.files import plain, read_text, write_npy

    text = read_text(kernel)
    spec = load_launch(launch)
    targets = save_targets(spec, launch.parent)
    buffers = read_buffers(spec, launch.parent)
    out = console(stderr=check_reports(json_file, sarif_file))
    options = machine.RunOptions(switches=parse_switches(switches, numerics=numerics))
    check = check or all_switches
    with progress_bar() as progress:
        bar = None if progress is None else lambda done, total: progress(spec.entry, done / total)
        if check:
            more = {"options": options, "all_switches": all_switches, "progress": bar}
            checked = check_kernel(text, spec, buffers, file=str(kernel), **more)
            result, findings = checked.result, checked.findings
        else:
            result = machine.run(text, spec, buffers, file=str(kernel), options=options, progress=bar)
            findings = result.findings
    if result is not None:
        for name, target in targets.items():
            write_npy(target, plain(result.buffers[name]))
        print_run(out, spec.entry, result.counters, result.seconds)
        for name, target in targets.items():
            out.print(f"wrote {target}: buffer {name}", soft_wrap=True)
        if counts:
            print_counts(out, spec.entry, result.counters)
    verdict = worst(findings)
    if check:
        print_verdict(out, spec.entry, verdict, len(findings))
    print_findings(console(stderr=True), findings)
    write_findings(findings, None, sarif_file)
    if json_file is not None:
        write_report(json_file, launch_json(result, findings))
    if verdict >= Verdict.incomplete:
        raise click.exceptions.Exit(1)
