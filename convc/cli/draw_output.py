"""Files of pictures: ``-o FILE.svg|.png``, and ``.tex`` of those that are tables of cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from convc.cli.options import target_type

if TYPE_CHECKING:
    from convc.draw.svg import Picture

Command = TypeVar("Command", bound="Callable[..., Any] | click.Command")
"""What an option of click is put on."""


def _picture_file(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """The file of a picture; click.BadParameter where its name says no format that the option takes."""
    kinds = (param.metavar or "").removeprefix("FILE").split("|") if isinstance(param, click.Option) else []
    if path is not None and str(path) != "-" and path.suffix not in kinds:
        files = ", ".join(f"FILE{kind}" for kind in kinds)
        raise click.BadParameter(f"expected {files} or - for stdout, got {str(path)!r}", ctx, param)
    return path


def _output_option(kinds: str, words: str) -> Callable[[Command], Command]:
    return click.option(
        "-o",
        "--output",
        type=target_type,
        callback=_picture_file,
        metavar=f"FILE{kinds}",
        help=f"Write the picture there: SVG, {words}; by default SVG to stdout.",
    )


output_option = _output_option(".svg|.png", "or PNG (extra convc[draw])")
table_option = _output_option(".svg|.png|.tex", "PNG (extra convc[draw]) or LaTeX (TikZ)")
"""Where a picture goes, and where one of cells alone does."""


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
