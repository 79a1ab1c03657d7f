"""``convc draw lanes|tile|memory|operands``: pictures of a layer's tiles and memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from convc import api
from convc.cli.draw_output import check_output, output_option, write_picture
from convc.cli.options import (
    Chosen,
    chosen_options,
    layer_option,
    model_options,
    path_type,
    read_model_argument,
)
from convc.errors import InputError

Command = Callable[..., Any]


def layer_of_model(command: Command, required: bool = True) -> Command:
    """``MODEL|DIR``, ``--layer``, and the options that say how a model is read and scheduled, as ``chosen``."""
    command = layer_option(model_options(chosen_options(command)))
    shown = "MODEL|DIR" if required else "[MODEL|DIR]"
    return click.argument("model", type=path_type, callback=read_model_argument, metavar=shown, required=required)(
        command
    )


tile_option = click.option(
    "--tile", type=click.IntRange(min=0), metavar="N", help="Which tile; by default one inside the image."
)
row_option = click.option(
    "--r", "row", type=click.IntRange(min=0), metavar="R", help="Filter row; by default one that meets the image."
)


def _table(model: Path, layer: str | None, tile: int | None, row: int | None, chosen: Chosen) -> Any:
    tiles = api.inspect(model, layer, read=chosen.read, schedule=chosen.schedule).tiles
    return tiles.typical(row) if tile is None else tiles.lanes(tile, row)


@click.command("lanes", short_help="Pixels that every lane of a tile holds.")
@layer_of_model
@tile_option
@row_option
@output_option
def lanes_command(
    model: Path, layer: str | None, tile: int | None, row: int | None, output: Path | None, chosen: Chosen
) -> None:
    """Draw the pixel that every lane of a tile holds at each filter column, and the rows of shared memory."""
    from convc.draw.lanes import lanes_picture

    check_output(output)
    write_picture(lanes_picture(_table(model, layer, tile, row, chosen)), output)


@click.command("tile", short_help="A tile on the image, at one filter tap.")
@layer_of_model
@tile_option
@row_option
@click.option(
    "--s", "column", type=click.IntRange(min=0), default=0, show_default=True, metavar="S", help="Filter column."
)
@output_option
def tile_command(
    model: Path,
    layer: str | None,
    tile: int | None,
    row: int | None,
    column: int,
    output: Path | None,
    chosen: Chosen,
) -> None:
    """Draw the pixels of a tile on the image as its lanes hold them at one filter tap."""
    from convc.draw.tile import tile_picture

    check_output(output)
    write_picture(tile_picture(_table(model, layer, tile, row, chosen), column), output)


@click.command("memory", short_help="Shared and tensor memory of a CTA, to scale.")
@layer_of_model
@output_option
def memory_command(model: Path, layer: str | None, output: Path | None, chosen: Chosen) -> None:
    """Draw shared memory with its stages and barriers, and tensor memory lane by column, to scale."""
    from convc.draw.memory import memory_picture

    check_output(output)
    inspection = api.inspect(model, layer, read=chosen.read, schedule=chosen.schedule)
    write_picture(memory_picture(inspection.plan), output)


@click.command("operands", short_help="Places of the elements of an MMA that a layer issues.")
@layer_of_model
@click.option(
    "--mma", "number", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="The N-th."
)
@click.option(
    "--most",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    metavar="N",
    help="Rows and columns of D shown.",
)
@output_option
def operands_command(
    model: Path, layer: str | None, number: int, most: int, output: Path | None, chosen: Chosen
) -> None:
    """Draw an MMA as mma-layout does, at the addresses that the layer's first CTA issues it with on the simulator."""
    from convc.draw.issued import issued_mmas
    from convc.draw.mma import cropped, issued_layout, mma_picture

    check_output(output)
    inspection = api.inspect(model, layer, read=chosen.read, schedule=chosen.schedule)
    issued = issued_mmas(inspection.text, inspection.launch)
    if not issued:
        raise InputError("the kernel issues no tcgen05.mma, whose operands are drawn", where=inspection.node.name)
    if number >= len(issued):
        raise InputError(f"there is no MMA {number}", hint=f"MMAs of the first CTA: 0 to {len(issued) - 1}")
    write_picture(mma_picture(cropped(issued_layout(issued[number]), most)), output)
