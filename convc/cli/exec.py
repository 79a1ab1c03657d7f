"""``convc exec``: any kernel with a launch file."""

from __future__ import annotations

from pathlib import Path

import click

from convc.cli.options import path_type


@click.command("exec", short_help="Run any PTX kernel with a launch file.")
@click.argument("kernel", type=path_type, metavar="KERNEL.ptx")
@click.argument("launch", type=path_type, metavar="LAUNCH.json")
def exec_command(kernel: Path, launch: Path) -> None:
    """Run any PTX kernel on the machine, as LAUNCH.json says.

    The launch file gives grid, block, dynamic shared memory, parameters and buffers. A buffer's "file" is
    read before the launch, its "save" is written after it; both are .npy files, relative to the launch file.
    """
    from convc import machine
    from convc.artifact import load_launch
    from convc.files import plain, read_text, write_npy
    from convc.findings import Verdict
    from convc.report.console import console, progress_bar
    from convc.report.runs import print_findings, print_run
    from convc.runtime.launch import read_buffers, save_targets

    text = read_text(kernel)
    spec = load_launch(launch)
    targets = save_targets(spec, launch.parent)
    buffers = read_buffers(spec, launch.parent)
    with progress_bar() as progress:
        bar = None if progress is None else lambda done, total: progress(spec.entry, done / total)
        result = machine.run(text, spec, buffers, file=str(kernel), progress=bar)
    for name, target in targets.items():
        write_npy(target, plain(result.buffers[name]))
    print_run(console(), spec.entry, result.stats, result.seconds)
    for name, target in targets.items():
        console().print(f"wrote {target}: buffer {name}", soft_wrap=True)
    print_findings(console(stderr=True), result.findings)
    if result.verdict >= Verdict.incomplete:
        raise click.exceptions.Exit(1)
