"""``convc draw layout``: layouts of CuTe."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc.cli.draw_output import check_output, table_option, write_picture

if TYPE_CHECKING:
    from convc.layout import Swizzle

MOST_DIGITS = 6
"""Of an extent of a tile."""


def tile_of(ctx: click.Context, param: click.Parameter, given: str | None) -> tuple[int, int] | None:
    """Rows and columns of ``MxN``; click.BadParameter for another text."""
    if given is None:
        return None
    found = re.fullmatch(rf"(\d{{1,{MOST_DIGITS}}})x(\d{{1,{MOST_DIGITS}}})", given, re.ASCII)
    if found is None or int(found[1]) < 1 or int(found[2]) < 1:
        raise click.BadParameter(f"expected rows and columns of a tile, such as 16x8, got {given!r}", ctx, param)
    return int(found[1]), int(found[2])


def _swizzle(ctx: click.Context, param: click.Parameter, given: str | None) -> Swizzle | None:
    """The swizzle of ``B,M,S``, ``Sw<B,M,S>`` or the name of one of bytes; click.BadParameter for another text."""
    from convc.draw.layouts import BYTES
    from convc.layout import Swizzle

    if given is None or given in BYTES:
        return given and BYTES[given]  # pyright: ignore[reportReturnType]
    found = re.fullmatch(r"(?:Sw?<)?(\d{1,2}),(\d{1,2}),(-?\d{1,2})>?", given, re.ASCII)
    if found is None:
        raise click.BadParameter(f"expected B,M,S such as 3,4,3, or {', '.join(BYTES)}, got {given!r}", ctx, param)
    return Swizzle(*map(int, found.groups()))


@click.command("layout", short_help="A layout in CuTe's notation.")
@click.argument("layout")
@click.option(
    "--swizzle", callback=_swizzle, metavar="B,M,S", help="Of the offsets: Sw<B,M,S>; 32B, 64B, 128B of bytes."
)
@click.option("--tile", callback=tile_of, metavar="MxN", help="Draw the tile whose elements threads and values hold.")
@click.option("--colours", default="thread", show_default=True, help="By thread (row), value (column) or offset.")
@table_option
def layout_command(
    layout: str, swizzle: Swizzle | None, tile: tuple[int, int] | None, colours: str, output: Path | None
) -> None:
    """Draw a layout in CuTe's notation, such as "((4,8),(2,2)):((16,1),(8,64))", as a table of offsets.

    The first mode runs down, the second across. With --tile the layout is one of threads and values, and the tile is
    drawn with both in each cell.
    """
    from convc.draw.layouts import holders_picture, layout_picture, swizzled
    from convc.layout import Layout, parse

    check_output(output)
    found = parse(layout)
    if swizzle is not None:
        found = swizzled(found, swizzle)
    if tile is None:
        picture = layout_picture(found, colours)
    elif isinstance(found, Layout):
        picture = holders_picture(found, *tile)
    else:
        raise click.UsageError("--tile draws who holds the elements of a tile, which has no swizzle")
    write_picture(picture, output)
