"""The worked example as a page: tiles of 16 lanes on images of 9x9 pixels, with all that the terminal shows of it."""

from __future__ import annotations

from convc.draw.lanes import lanes_picture
from convc.explain.example import PROBLEM, example_tiles, print_example
from convc.page.render import filled, tile_parts
from convc.report.console import page_text


def example_html() -> bytes:
    """The whole page, UTF-8: one file that needs nothing else."""
    tiles = example_tiles()
    return filled(
        "example.html.j2",
        title="The worked example: a 3x3 filter on images of 9x9 pixels",
        problem=PROBLEM.describe(),
        example=tile_parts(tiles),
        picture=lanes_picture(tiles.lanes(0)).svg(style=False),
        printed=page_text(lambda console: print_example(console, True)),
    )
