"""``convc inspect``: how one layer is compiled, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc.cli.options import (
    batch_option,
    dtype_option,
    fuse_option,
    layer_option,
    path_type,
    precision_option,
    schedule_options,
)

if TYPE_CHECKING:
    from convc.compiler.options import ScheduleOptions


@click.command("inspect", short_help="Show how a layer is compiled, and why.")
@click.argument("model", type=path_type, required=False)
@layer_option()
@batch_option
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
@click.option("--svg", type=path_type, metavar="FILE", help="Draw the lanes of the tile.")
@click.option("--json", "json_file", type=path_type, metavar="FILE", help="Write the lanes of the tile as JSON.")
@click.option("--example", is_flag=True, help="Show the worked example of activation reuse instead of a layer.")
def inspect_command(
    model: Path | None,
    layer: str | None,
    batch: int | None,
    dtype: str | None,
    precision: str | None,
    fuse: bool,
    options: ScheduleOptions,
    nests: bool,
    tile: int | None,
    all_lanes: bool,
    svg: Path | None,
    json_file: Path | None,
    example: bool,
) -> None:
    """Show how a layer of MODEL becomes a kernel: loops, index maps, plan, memory, steps, and the PTX.

    With --nests, --lanes, --svg or --json, only what these ask for.
    """
    from convc import api
    from convc.explain.example import example_tiles, print_example
    from convc.explain.inspect import print_inspection
    from convc.explain.tiles import plan_tiles, print_derivation, print_tile, write_tile
    from convc.report.console import console
    from convc.report.output import check_reports

    _check_call(model, layer, batch, dtype or precision, options, example)
    out = console(stderr=check_reports(svg, json_file))
    choice = {"batch": batch, "dtype": dtype, "precision": precision, "options": options, "fuse": fuse}
    node, compiled = (None, None) if example else api.compile_node(model, layer, **choice)
    if nests or tile is not None or svg is not None or json_file is not None:
        tiles = example_tiles() if example else plan_tiles(compiled.plan)
        table = tiles.lanes(tile or 0)
        if nests:
            print_derivation(out, tiles)
        if tile is not None:
            print_tile(out, tiles, table, all_lanes)
        write_tile(out, tiles, table, svg, json_file)
    elif example:
        print_example(out, all_lanes)
    else:
        print_inspection(out, compiled, node.fused)


def _check_call(
    model: Path | None, layer: str | None, batch: int | None, dtype: str | None, options: ScheduleOptions, example: bool
) -> None:
    """A layer of a model, or the example: UsageError for anything between."""
    chosen = options.schedule != "auto" or options.shift or options.border or options.rows
    if example and (model or layer or batch or dtype or chosen):
        raise click.UsageError("--example shows its own convolution: leave MODEL and the options about it out.")
    if not example and model is None:
        raise click.UsageError("Missing argument 'MODEL' (or --example).")
    if not example and layer is None:
        raise click.UsageError("Missing option '--layer'.")
