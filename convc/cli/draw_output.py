"""Files of pictures: ``-o FILE.svg|.png|.tex``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc.cli.options import target_type

if TYPE_CHECKING:
    from convc.draw.svg import Picture

KINDS = (".svg", ".png", ".tex")


def _picture_file(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """The file of a picture; click.BadParameter where its name says no format of pictures."""
    if path is not None and str(path) != "-" and path.suffix not in KINDS:
        files = ", ".join(f"FILE{kind}" for kind in KINDS)
        raise click.BadParameter(f"expected {files} or - for stdout, got {str(path)!r}", ctx, param)
    return path


output_option = click.option(
    "-o",
    "--output",
    type=target_type,
    callback=_picture_file,
    metavar=f"FILE{'|'.join(KINDS)}",
    help="Write the picture there: SVG, PNG (extra convc[draw]) or LaTeX (TikZ); by default SVG to stdout.",
)
"""Where a picture goes."""


def check_output(output: Path | None) -> None:
    """Raise where the picture cannot be written, before it is made."""
    # Imported when a command runs: its help needs neither numpy nor the simulator.
    from convc.draw.png import require_png
    from convc.report.output import check_reports

    check_reports(output)
    if output is not None and output.suffix == ".png":
        require_png()


def write_picture(picture: Picture, output: Path | None) -> None:
    """Write a picture as the name of its file says, to stdout where there is none."""
    from convc.draw.png import png
    from convc.draw.tikz import tikz
    from convc.report.console import progress_bar
    from convc.report.output import STDOUT, write_report

    if output is not None and output.suffix == ".png":
        with progress_bar() as tell:
            content = png(picture, tell)
    elif output is not None and output.suffix == ".tex":
        content = tikz(picture).encode()
    else:
        content = picture.svg().encode()
    write_report(output or STDOUT, content)
