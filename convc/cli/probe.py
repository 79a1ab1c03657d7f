"""``convc probe``: what is assumed of the hardware, and what a GPU says to it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from convc.cli.contradictions import refuse_given
from convc.cli.files import chip_file
from convc.cli.options import json_option, path_type, target_type
from convc.cli.streams import DASH


@click.command("probe")
@click.argument("names", nargs=-1, metavar="[PROBE]...")
@click.option("--run", "runs", is_flag=True, help="Run the probes on the GPU of this machine.")
@click.option("--apply", "answers", type=path_type, metavar="FILE.json", help="Evaluate the results of a GPU.")
@click.option(
    "-o",
    "--output",
    "target",
    type=target_type,
    metavar="FILE",
    help="With --run: write the results. With --apply: write the chip's parameters (.toml).",
)
@click.option(
    "--chip",
    callback=chip_file,
    default="b200",
    show_default=True,
    metavar="NAME|FILE.toml",
    help="The chip whose parameters are listed: b200, b300, h100 or h200.",
)
@json_option
def probe_command(
    names: tuple[str, ...], runs: bool, answers: Path | None, target: Path | None, chip: str, json_file: Path | None
) -> None:
    """List what the simulator and the model of a chip assume, and the probes that test it.

    --run runs all or the named probes, which are small kernels, on the GPU of this machine; -o writes the results to a
    file. --apply prints the options of the other commands that such a file determines; -o then writes the measured
    parameters, for `convc time --chip FILE.toml`.
    """
    # Imported when the command runs: its help needs neither the simulator nor the driver.
    from convc import api
    from convc.report.console import console, progress_bar
    from convc.report.output import check_reports, write_report
    from convc.report.probe import assumptions_json, print_assumptions, print_settled, probed_json, settled_json

    _check(names, runs, answers, target)
    out = console(stderr=check_reports(json_file, target))
    if not runs and answers is None:
        known = api.assumptions(chip)
        print_assumptions(out, known)
        if json_file is not None:
            write_report(json_file, assumptions_json(known))
        return
    hangs = False
    if answers is not None:
        settled = api.settle_probes(answers, target)
    else:
        with progress_bar() as progress:
            done = api.run_probes(names, progress=progress)
        settled = done.settled
        hangs = done.hangs
        write_report(target, probed_json(done.record))
    print_settled(out, settled)
    if target is not None:
        out.print(f"wrote {target}", soft_wrap=True, markup=False)
    if json_file is not None:
        write_report(json_file, settled_json(settled))
    if hangs:
        sys.stdout.flush()
        os._exit(1)  # an ordinary end of the process would wait for the kernel


def _check(names: tuple[str, ...], runs: bool, answers: Path | None, target: Path | None) -> None:
    """Raise click.UsageError where words of the call do not go together."""
    if runs and answers is not None:
        raise click.UsageError("--run asks a GPU, --apply reads its answers: give one of them.")
    if names and not runs:
        raise click.UsageError("names of probes are for --run.")
    if runs or answers is not None:
        refuse_given("the answers name their GPU: leave --chip out", ("chip",))
    if target is not None and not runs and answers is None:
        raise click.UsageError("-o goes with --run or --apply; a list goes to --json FILE.")
    if str(target) == DASH:
        raise click.UsageError("-o takes the name of a file: only the report of --json goes to stdout (-).")
