"""``convc inspect``: the layers of a model; how one of them is compiled, and why."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc import api
from convc.cli.options import (
    Chosen,
    chosen_options,
    collected,
    json_option,
    layer_option,
    model_options,
    no_cache_option,
    path_type,
    target_type,
    wide_option,
)
from convc.cli.streams import model_source
from convc.cli.suggest import print_next
from convc.support.guessing import nearest

if TYPE_CHECKING:
    from convc.api.inspecting import Inspection
    from convc.explain.tiles import KernelTiles
    from convc.report.console import Console


SECTION_NAMES = ("schedules", "plan", "loops", "maps", "memory", "steps", "ptx")
"""In the order of the page; `convc.explain.inspect.SECTIONS` has what prints each."""


VIEWS = ("derivation", "lanes")
"""Sections that are only printed where they are asked for: by ``--only``, or by options of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Everything that is asked for; by default the summary of a layer."""

    only: tuple[str, ...] | None
    full: bool
    pager: bool
    derivation: bool
    tile: int | None
    row: int | None
    all_lanes: bool
    svg: Path | None
    json_file: Path | None
    wide: bool

    @property
    def of_tile(self) -> bool:
        """Whether a tile is asked for."""
        return self.tile is not None or self.svg is not None

    @property
    def sections(self) -> tuple[str, ...] | None:
        """Sections of the page to print; None for the whole page."""
        if self.full:
            return None
        return tuple(name for name in self.only or () if name not in VIEWS)

    @property
    def alone(self) -> bool:
        """Whether nothing is asked for but the layer itself."""
        return not (self.full or self.only is not None or self.of_tile or self.derivation or self.json_file is not None)


def _sections(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    """Names of sections from a list with commas; click.BadParameter for one that there is not."""
    if text is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    known = (*SECTION_NAMES, *VIEWS)
    for name in names:
        if name not in known:
            near = nearest(name, known)
            guess = "" if near is None else f"did you mean {near!r}? "
            raise click.BadParameter(f"there is no section {name!r}; {guess}sections: {', '.join(known)}")
    return names


@click.command("inspect")
@click.argument("model", type=path_type, required=False, metavar="[MODEL|DIR]")
@layer_option
@model_options
@click.option(
    "--only",
    callback=_sections,
    metavar="SECTIONS",
    help=f"Only these sections, comma-separated: {', '.join((*SECTION_NAMES, *VIEWS))}.",
)
@click.option("--full", is_flag=True, help="All sections of a layer, through a pager on a terminal.")
@click.option("--no-pager", "pager", is_flag=True, flag_value=False, default=True, help="Do not use a pager.")
@click.option(
    "--derivation",
    is_flag=True,
    help="Show Algorithms 1 to 3.b with the layer's numbers: theorems, conditions, loops, and which is used.",
)
@click.option(
    "--lanes",
    "tile",
    type=click.IntRange(min=0),
    is_flag=False,
    flag_value=0,
    metavar="[TILE]",
    help="Show what every lane of a tile holds, which lanes are masked, and why (tile 0 without a number).",
)
@click.option(
    "--filter-row",
    "row",
    type=click.IntRange(min=0),
    metavar="R",
    help="With --lanes or --svg: the filter row; by default one inside the image.",
)
@click.option("--all-lanes", is_flag=True, help="With --lanes or --example: list every lane.")
@click.option(
    "--svg",
    type=target_type,
    metavar="FILE",
    help="Draw the lanes of the tile; without --lanes, of a tile inside the image.",
)
@wide_option
@no_cache_option
@functools.partial(
    json_option,
    text="Write the list, or the layer's plan and estimate, or with --lanes the lanes of the tile, as JSON.",
)
@click.option("--example", is_flag=True, help="Show the worked example of activation reuse instead of a layer.")
@collected("view", View)
@chosen_options
def inspect_command(model: Path | None, layer: str | None, example: bool, view: View, chosen: Chosen) -> None:
    """List the layers of MODEL (or of a build folder), or show how one of them becomes a kernel.

    Without --layer: a row for each layer. With it: a summary with the chosen kernel, the reasons and the estimated
    time. With --full also the sections: schedules, plan, loops, index maps, memory, steps, and the PTX.

    --derivation, --lanes, --svg and --json replace the summary.
    """
    if view.only is not None:
        tile = view.tile if "lanes" not in view.only or view.tile is not None else 0
        view = dataclasses.replace(view, derivation=view.derivation or "derivation" in view.only, tile=tile)
    if view.row is not None and not view.of_tile and not (example and view.json_file):
        raise click.UsageError("--filter-row is for lanes: give --lanes or --svg too.")
    if view.full and view.only is not None:
        raise click.UsageError("--full shows all sections: leave --only out.")
    listed = (
        layer is None
        and not view.of_tile
        and not view.derivation
        and not view.full
        and view.only is None
        and not example
    )
    if view.wide and not listed:
        raise click.UsageError("--wide is for the list of all layers: leave it out.")
    if example:
        if model or layer or chosen != Chosen() or view.only or view.full:
            raise click.UsageError("--example shows its own convolution: leave MODEL and the options about it out.")
        _show_example(view)
        return
    if view.all_lanes and view.tile is None:
        raise click.UsageError("--all-lanes is for lists of lanes: give --lanes (or --example) too.")
    if model is None:
        raise click.UsageError("Missing argument 'MODEL' (or --example).")
    if listed:
        _list(model, view, chosen)
        return
    # Imported when the command runs: its help needs neither compiler nor report.
    from convc.explain.summary import LABEL
    from convc.report.console import console, print_prose
    from convc.report.output import check_reports

    out = console(stderr=check_reports(view.svg, view.json_file))
    inspection = api.inspect(model_source(model), layer, read=chosen.read, schedule=chosen.schedule)
    with paged(out, view.pager and not view.alone):
        _show(out, inspection, view)
    if view.alone:
        rest = f"the rest     --full, or --only with some of {', '.join((*SECTION_NAMES, *VIEWS))}"
        print_prose(out, [rest], hang=LABEL)
        print_next(out, "inspect", model, inspection.node.name, chosen, "--full")


def _list(model: Path, view: View, chosen: Chosen) -> None:
    """The layers of a model, and how to look at the one that takes longest."""
    from convc.api.listing import list_layers
    from convc.explain.listing import listing_json, print_listing
    from convc.report.console import console, progress_bar
    from convc.report.output import check_reports, write_report

    quiet = check_reports(view.json_file)
    with progress_bar() as progress:
        work = dataclasses.replace(chosen.work, progress=progress)
        listing = list_layers(model_source(model), read=chosen.read, schedule=chosen.schedule, work=work)
    if not quiet:
        out = console()
        print_listing(out, listing, view.wide)
        planned = [(each.planned.cycles, each.name) for each in listing.layers if each.planned is not None]
        print_next(
            out,
            "inspect",
            model,
            max(planned)[1] if planned else None,
            chosen,
        )
    if view.json_file is not None:
        write_report(view.json_file, listing_json(listing))


def _show(out: Console, layer: Inspection, view: View) -> None:
    """Everything that is asked for of a layer."""
    from convc.explain.inspect import inspection_json, print_inspection, print_summary
    from convc.explain.tiles import print_derivation
    from convc.report.output import write_report

    if view.alone:
        print_summary(out, layer)
    elif view.sections is None or view.sections:
        print_inspection(out, layer, view.sections)
    if view.derivation:
        print_derivation(out, layer.tiles)
    if view.of_tile:
        _print_view(out, layer.tiles, view)
    elif view.json_file is not None:
        write_report(view.json_file, inspection_json(layer))
        out.print(f"wrote {view.json_file}: plan and estimate of {layer.node.name}", soft_wrap=True)


def _show_example(view: View) -> None:
    """The worked example, or what is asked for of its tiles."""
    from convc.explain.example import example_tiles, print_example
    from convc.explain.tiles import print_derivation
    from convc.report.console import console
    from convc.report.output import check_reports

    out = console(stderr=check_reports(view.svg, view.json_file))
    if view.derivation:
        print_derivation(out, example_tiles())
    if view.of_tile or view.json_file is not None:
        _print_view(out, example_tiles(), view, typical=False)
    elif not view.derivation:
        print_example(out, view.all_lanes)


def _print_view(out: Console, tiles: KernelTiles, view: View, typical: bool = True) -> None:
    """Everything that is asked for of a tile: one inside the image, or the first, where no tile is named."""
    from convc.draw.lanes import lanes_picture
    from convc.explain.lane_tables import lanes_json
    from convc.explain.tiles import print_tile
    from convc.report.output import write_report

    inside = view.tile is None and typical
    table = tiles.typical(view.row) if inside else tiles.lanes(view.tile or 0, view.row)
    if view.tile is not None:
        print_tile(out, tiles, table, view.all_lanes)
    for file, content in (
        (view.svg, lambda: lanes_picture(table).svg().encode()),
        (view.json_file, lambda: lanes_json(table, tiles.claims, tiles.cases)),
    ):
        if file is not None:
            write_report(file, content())
            out.print(f"wrote {file}: tile {table.tile_m}, filter row {table.r}", soft_wrap=True)


LESS = "-FRX"
"""Options of less where the user has none: end at once where all fits on the screen, keep colours, leave the page."""


def terminal_stdin() -> bool:
    """Whether a person can turn pages: stdin is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


@contextmanager
def paged(console: Console, wanted: bool) -> Generator[None]:
    """Show what is printed in the block with the user's pager (``PAGER``), if stdin and stdout are a terminal.

    Where the block ends with an error, what it has printed so far is shown first.
    """
    if not (wanted and console.is_terminal and terminal_stdin()):
        yield
        return
    captured = console.capture()
    captured.__enter__()
    try:
        yield
    finally:
        captured.__exit__(None, None, None)
        os.environ.setdefault("LESS", LESS)
        click.echo_via_pager(captured.get())
