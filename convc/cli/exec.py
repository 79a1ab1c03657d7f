"""``convc exec``: any kernel with a launch file."""

from __future__ import annotations

from pathlib import Path

import click

from convc import api
from convc.cli.contradictions import check_order
from convc.cli.folder_options import FolderOptions, answer, folder_options
from convc.cli.options import (
    Chosen,
    all_switches_option,
    chosen_options,
    collected,
    counts_option,
    max_instructions_option,
    numerics_option,
    path_type,
    report_options,
    strict_option,
    switch_option,
)
from convc.errors import MachineError
from convc.support.visible import visible


@click.command("exec")
@click.argument("kernel", type=path_type, metavar="KERNEL.ptx", required=False)
@click.argument("launch", type=path_type, metavar="LAUNCH.json", required=False)
@click.option("--check", is_flag=True, help="Check for races and hangs during the run (see convc check).")
@click.option(
    "--dependent",
    multiple=True,
    metavar="BUFFER",
    help="For a kernel with griddepcontrol: a buffer that the preceding kernel may still use, instead of those in "
    "the launch file; may be repeated. Implies --check.",
)
@all_switches_option
@strict_option
@switch_option
@max_instructions_option
@numerics_option
@counts_option
@folder_options
@report_options
@chosen_options
@collected("folder", FolderOptions)
def exec_command(  # noqa: PLR0913 - each is one option
    kernel: Path | None,
    launch: Path | None,
    check: bool,
    dependent: tuple[str, ...],
    all_switches: bool,
    strict: bool,
    counts: bool,
    json_file: Path | None,
    sarif_file: Path | None,
    chosen: Chosen,
    folder: FolderOptions,
) -> None:
    """Run any PTX kernel on the simulator, with the launch file LAUNCH.json.

    The launch file has grid, block, dynamic shared memory, parameters and buffers. A buffer's "file" is read before the
    launch, its "save" is written after it; both are .npy files, relative to the launch file. The JSON has the findings,
    including a fault or a hang, and all counters of the simulator.

    With --triton-cache or --cute-dump instead of files, list the kernels in such a folder and their arguments, or write
    the launch file of one.
    """
    if answer(folder, kernel):
        return
    check_order(kernel, launch)
    if kernel is None or launch is None:
        raise click.UsageError(f"Missing argument '{'KERNEL.ptx' if kernel is None else 'LAUNCH.json'}'.")
    # Imported when the command runs: its help needs no report.
    from convc.api.simulating import failure
    from convc.report.console import console, progress_bar
    from convc.report.counts import print_counts
    from convc.report.launch import launch_json, print_findings, print_run, print_verdict, write_sarif
    from convc.report.output import check_reports, write_report

    out = console(stderr=check_reports(json_file, sarif_file))
    check = check or all_switches or bool(dependent)
    with progress_bar() as progress:
        try:
            done = api.simulate(
                kernel,
                launch,
                check=check,
                dependent=dependent or None,
                all_switches=all_switches,
                machine=chosen.machine,
                progress=progress,
            )
        except MachineError as error:
            ended = (failure(error, str(kernel)),)
            write_sarif(ended, sarif_file)
            if json_file is not None:
                write_report(json_file, launch_json(None, None, ended))
            click.echo(visible(str(error)), err=True)
            raise click.exceptions.Exit(error.exit_code) from None
    if done.counters is not None and done.seconds is not None:
        print_run(out, done.entry, done.counters, done.seconds)
        for name, target in done.saved.items():
            out.print(f"wrote {target}: buffer {name}", soft_wrap=True)
        if counts:
            print_counts(out, done.entry, done.counters)
    if check:
        print_verdict(out, done.entry, done.verdict, len(done.findings))
    print_findings(console(stderr=True), done.findings)
    write_sarif(done.findings, sarif_file)
    if json_file is not None:
        write_report(json_file, launch_json(done.counters, done.seconds, done.findings))
    if not done.ok or (strict and not done.by_the_manual):
        raise click.exceptions.Exit(1)
