"""``convc draw layout`` and ``convc draw tiled``: layouts of CuTe, and tiles that threads hold by them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc.cli.draw_output import check_output, output_option, write_picture

if TYPE_CHECKING:
    from convc.layout import Layout, Swizzle

MOST_DIGITS = 6
"""Of an extent of a tile."""


def tile_of(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """Rows and columns of ``MxN``; click.BadParameter for another text."""
    if text is None:
        return None
    match = re.fullmatch(rf"(\d{{1,{MOST_DIGITS}}})x(\d{{1,{MOST_DIGITS}}})", text, re.ASCII)
    if match is None or int(match[1]) < 1 or int(match[2]) < 1:
        raise click.BadParameter(f"expected rows and columns of a tile, such as 16x8, got {text!r}", ctx, param)
    return int(match[1]), int(match[2])


def _swizzle(ctx: click.Context, param: click.Parameter, text: str | None) -> Swizzle | None:
    """The swizzle of ``B,M,S``, ``Sw<B,M,S>`` or the name of one of bytes; click.BadParameter for another text."""
    from convc.draw.layouts import BYTES
    from convc.layout import Swizzle

    if text is None or text in BYTES:
        return text and BYTES[text]  # pyright: ignore[reportReturnType]
    match = re.fullmatch(r"(?:Sw?<)?(\d{1,2}),(\d{1,2}),(-?\d{1,2})>?", text, re.ASCII)
    if match is None:
        raise click.BadParameter(f"expected B,M,S such as 3,4,3, or {', '.join(BYTES)}, got {text!r}", ctx, param)
    return Swizzle(*map(int, match.groups()))


@click.command("layout", short_help="A layout in CuTe's notation.")
@click.argument("layout")
@click.option(
    "--swizzle", callback=_swizzle, metavar="B,M,S", help="Of the offsets: Sw<B,M,S>; 32B, 64B, 128B of bytes."
)
@click.option("--tile", callback=tile_of, metavar="MxN", help="Draw the tile whose elements threads and values hold.")
@click.option("--colours", default="thread", show_default=True, help="By thread (row), value (column) or offset.")
@output_option
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
    parsed = parse(layout)
    if swizzle is not None:
        parsed = swizzled(parsed, swizzle)
    if tile is None:
        picture = layout_picture(parsed, colours)
    elif isinstance(parsed, Layout):
        picture = holders_picture(parsed, *tile)
    else:
        raise click.UsageError("--tile draws which thread holds each element; a tile has no swizzle")
    write_picture(picture, output)


@click.command("tiled", short_help="Thread and value of each element of a tiled MMA or copy.")
@click.option("--atom", metavar="NAME", help="The instruction of a tiled MMA, as convc draw atom takes it.")
@click.option(
    "--layout", "groups", required=True, metavar="LAYOUT", help="Of the atoms along M, N, K; of a copy's threads."
)
@click.option("--values", metavar="LAYOUT", help="Of each thread's values, of a tiled copy.")
@click.option("--operand", help="Of a tiled MMA: A (M by K), B (N by K) or D (M by N), by default D.")
@click.option(
    "--tile", callback=tile_of, metavar="MxN", help="Rows and columns of the operand; by default one atom each."
)
@output_option
def tiled_command(
    atom: str | None,
    groups: str,
    values: str | None,
    operand: str | None,
    tile: tuple[int, int] | None,
    output: Path | None,
) -> None:
    """Draw a tile with the thread and the value that hold each of its elements, and print its thread-value layout.

    With --atom it is an operand of a tiled MMA, whose atoms stand beside each other as --layout says. With --values it
    is a tiled copy, whose threads do, each with its values side by side.
    """
    from convc.draw.layouts import copy_picture, mma_picture

    if (atom is None) == (values is None):
        raise click.UsageError("expected --atom for a tiled MMA, or --values for a tiled copy, and not both")
    if values is not None and (operand or tile):
        raise click.UsageError("--operand and --tile are of a tiled MMA: the tile of a copy is that of its layouts")
    check_output(output)
    if atom is not None:
        picture = mma_picture(atom, _layout(groups), operand or "D", tile)
    else:
        picture = copy_picture(_layout(groups), _layout(str(values)))
    write_picture(picture, output)


def _layout(text: str) -> Layout:
    from convc.layout import Layout, parse

    parsed = parse(text)
    if not isinstance(parsed, Layout):
        raise click.UsageError(f"expected a layout without a swizzle, got {parsed}")
    return parsed
