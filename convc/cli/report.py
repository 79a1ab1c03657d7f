"""``convc report``: layers, their kernels and their time as one page for a browser."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import click

from convc.api.options import ChipOptions
from convc.cli.contradictions import refuse_given
from convc.cli.draw_time import chip_options
from convc.cli.options import (
    Chosen,
    Layers,
    chosen_options,
    layers_option,
    model_options,
    no_cache_option,
    path_type,
    read_model_argument,
    target_type,
)


def _page_file(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """The file of a page; click.BadParameter where its name does not say HTML."""
    if path is not None and str(path) != "-" and path.suffix != ".html":
        raise click.BadParameter(f"expected FILE.html or - for stdout, got {str(path)!r}", ctx, param)
    return path


@click.command("report")
@click.argument("source", type=path_type, callback=read_model_argument, metavar="[MODEL|DIR]", required=False)
@click.option("--example", is_flag=True, help="The worked example, 9x9 pixels, instead of a model.")
@layers_option
@click.option(
    "-o",
    "--output",
    type=target_type,
    required=True,
    callback=_page_file,
    metavar="FILE.html",
    help="The HTML file (- is stdout).",
)
@click.option("--verify", "verified", is_flag=True, help="Also verify every kernel of a model, and show its verdict.")
@click.option("--sass", is_flag=True, help="Show and time the SASS that ptxas generates (extra convc[sass]).")
@model_options
@no_cache_option
@chip_options
@chosen_options
def report_command(
    source: Path | None,
    example: bool,
    layer: Layers,
    output: Path,
    verified: bool,
    chip: ChipOptions,
    chosen: Chosen,
) -> None:
    """Write an HTML page about the layers of a model or a build folder, as one file without external resources.

    It shows the schedule of each layer and its reasons, the estimated time and its bottlenecks, and drawings of tiles,
    memory, descriptors and time. Layers with the same kernel share a section.
    """
    # Imported when the command runs: its help needs neither compiler nor report.
    from convc.api.paging import page_report
    from convc.page.render import page_html
    from convc.report.console import console, progress_bar
    from convc.report.format import counted
    from convc.report.output import check_reports, write_report

    if (source is None) != example:
        raise click.UsageError("expected a model, a build folder or --example, and one of them.")
    if source is None:
        refuse_given("--example shows its own convolution", but=("example", "output"))
        from convc.page.render import example_html

        quiet = check_reports(output)
        write_report(output, example_html())
        if not quiet:
            console().print(f"wrote {output}: the worked example", soft_wrap=True)
        return
    if verified and source.is_dir():
        raise click.UsageError("--verify is for a model: of a build folder, convc run compares single layers.")
    quiet = check_reports(output)
    with progress_bar() as progress:
        work = dataclasses.replace(chosen.work, progress=progress)
        report = page_report(source, layer, chip=chip, read=chosen.read, schedule=chosen.schedule, work=work)
        if verified:
            report = dataclasses.replace(report, verdicts=_verdicts(source, layer, chosen))
    content = page_html(report)
    write_report(output, content)
    if not quiet:
        console().print(
            f"wrote {output}: {counted(len(report.layers), 'layer')}, {len(content) >> 10} KiB", soft_wrap=True
        )


def _verdicts(source: Path, layer: Layers, chosen: Chosen) -> Mapping[str, str]:
    """The verdicts of a verification, by layer."""
    from convc import api
    from convc.report.verify import verdicts

    report = api.verify(source, layer, read=chosen.read, schedule=chosen.schedule, work=chosen.work)
    return {one.name: verdicts(one) for one in report.layers}
