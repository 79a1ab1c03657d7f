"""``convc record``: a CUDA host program without a GPU."""

from __future__ import annotations

from pathlib import Path

import click

from convc import api
from convc.cli.options import (
    Chosen,
    chosen_options,
    max_instructions_option,
    numerics_option,
    report_options,
    strict_option,
    switch_option,
    target_type,
)

TARGETS = ("sm_100a", "sm_90a")


@click.command("record", context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- PROGRAM [ARGUMENT]...")
@click.option("--check", is_flag=True, help="Check every launch for races and hangs (see convc check).")
@click.option(
    "--target",
    "device",
    type=click.Choice(TARGETS),
    default=TARGETS[0],
    show_default=True,
    help="The device that the program sees: a B200 or an H100.",
)
@click.option(
    "--sms",
    type=click.IntRange(min=1),
    metavar="N",
    help="SMs that the program sees, fewer than the 148 or 132 of the device: persistent kernels launch fewer CTAs.",
)
@click.option("--emit-launch", type=target_type, metavar="DIR", help="Write a folder for each launch, for convc exec.")
@strict_option
@switch_option
@max_instructions_option
@numerics_option
@report_options
@chosen_options
def record_command(  # noqa: PLR0913 - each is one option
    command: tuple[str, ...],
    check: bool,
    device: str,
    sms: int | None,
    emit_launch: Path | None,
    strict: bool,
    json_file: Path | None,
    sarif_file: Path | None,
    chosen: Chosen,
) -> None:
    """Run a CUDA host program without a GPU: its launches run on the simulator.

    Stand-ins of libcuda and libcudart are built by the system's C compiler. The program needs PTX in it:
    nvcc -gencode arch=compute_100a,code=[compute_100a,sm_100a].

    convc writes to stderr, after the program's output. Exit code 1 when the program fails, or the
    verdict of a launch is incomplete or error; 2 when a CUDA function is not supported.
    """
    # Imported when the command runs: its help needs no report.
    from convc.report.console import console
    from convc.report.launch import write_sarif
    from convc.report.output import check_reports, write_report
    from convc.report.record import print_recording, recording_json

    on_stdout = check_reports(json_file, sarif_file)
    done = api.record(
        command,
        target=device,
        sms=sms,
        check=check,
        emit_launch=emit_launch,
        machine=chosen.machine,
        stdout=2 if on_stdout else None,
    )
    print_recording(console(stderr=True), done, checked=check)
    write_sarif(done.findings, sarif_file)
    if json_file is not None:
        write_report(json_file, recording_json(done))
    if not done.ok or (strict and not done.by_the_manual):
        raise click.exceptions.Exit(1)
