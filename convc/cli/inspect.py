"""``convc inspect``: how one layer is compiled, and why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc import api
from convc.cli.options import (
    Chosen,
    batch_option,
    chosen_options,
    collected,
    dtype_option,
    fuse_option,
    layer_option,
    path_type,
    precision_option,
    read_model_argument,
    schedule_options,
    shape_option,
    target_type,
)

if TYPE_CHECKING:
    from convc.explain.tiles import Tiles
    from convc.report.console import Console


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The views of the tiles that are asked for; none by default."""

    nests: bool
    tile: int | None
    all_lanes: bool
    svg: Path | None
    json_file: Path | None

    @property
    def asked(self) -> bool:
        """Whether anything is asked for."""
        return self.nests or any(each is not None for each in (self.tile, self.svg, self.json_file))


@click.command("inspect")
@click.argument("model", type=path_type, required=False, callback=read_model_argument)
@layer_option
@batch_option
@shape_option
@dtype_option
@precision_option
@fuse_option
@schedule_options
@click.option("--nests", is_flag=True, help="Derive the loops from the definition, rewrite by rewrite.")
@click.option(
    "--lanes",
    "tile",
    type=click.IntRange(min=0),
    is_flag=False,
    flag_value=0,
    metavar="[TILE]",
    help="Show what every lane of a tile holds, which lanes are masked, and why (tile 0 without a number).",
)
@click.option("--all-lanes", is_flag=True, help="With --lanes or --example: leave no lane out.")
@click.option("--svg", type=target_type, metavar="FILE", help="Draw the lanes of the tile.")
@click.option("--json", "json_file", type=target_type, metavar="FILE", help="Write the lanes of the tile as JSON.")
@click.option("--example", is_flag=True, help="Show the worked example of activation reuse instead of a layer.")
@collected("view", View)
@chosen_options
def inspect_command(model: Path | None, layer: str | None, example: bool, view: View, chosen: Chosen) -> None:
    """Show how a layer of MODEL becomes a kernel: loops, index maps, plan, memory, steps, and the PTX.

    With --nests, --lanes, --svg or --json, only what these ask for.
    """
    if example and (model or layer or chosen != Chosen()):
        raise click.UsageError("--example shows its own convolution: leave MODEL and the options about it out.")
    if not example and model is None:
        raise click.UsageError("Missing argument 'MODEL' (or --example).")
    if not example and layer is None:
        raise click.UsageError("Missing option '--layer'.")
    if view.all_lanes and not example and view.tile is None:
        raise click.UsageError("--all-lanes is for lists of lanes: give --lanes (or --example) too.")
    # Imported when the command runs: its help needs neither compiler nor report.
    from convc.explain.example import example_tiles, print_example
    from convc.explain.inspect import print_inspection
    from convc.report.console import console
    from convc.report.output import check_reports

    out = console(stderr=check_reports(view.svg, view.json_file))
    found = None if model is None else api.inspect(model, layer, read=chosen.read, schedule=chosen.schedule)
    if view.asked:
        _print_view(out, example_tiles() if found is None else found.tiles, view)
    elif found is None:
        print_example(out, view.all_lanes)
    else:
        print_inspection(out, found.compiled, found.node.fused)


def _print_view(out: Console, tiles: Tiles, view: View) -> None:
    """What is asked for of a tile."""
    from convc.explain.tiles import print_derivation, print_tile, write_tile

    table = tiles.lanes(view.tile or 0)
    if view.nests:
        print_derivation(out, tiles)
    if view.tile is not None:
        print_tile(out, tiles, table, view.all_lanes)
    write_tile(out, tiles, table, view.svg, view.json_file)
