"""The picture and the tables of ``convc/docs/architecture.md``, made from the imports.

    python -m tests.architecture.picture --write

writes ``architecture.svg`` and the part of the page between the markers; without ``--write`` it says what is out of
date. A package stands one floor above the highest that it imports. An arrow that a longer path replaces is left out;
the tables have all.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from tests.architecture.packages import ROOT, Graph, floors, imports, purpose, reduced

DOCS = ROOT / "convc" / "docs"
PAGE, PICTURE = DOCS / "architecture.md", DOCS / "architecture.svg"
FOLDERS = tuple(ROOT / name for name in ("convc", "convc/compiler", "convc/machine"))
BEGIN, END = "<!-- packages: begin (generated) -->", "<!-- packages: end -->"

CHARACTER, PADDING, BOX, FLOOR, GAP, MARGIN, TITLE = 8, 12, 26, 62, 22, 20, 30
"""Sizes in pixels: of a character, beside a name, of a box, from floor to floor, between boxes, around all, a title."""
SWEEPS = 8
"""How often the floors are put in order, each by what its packages lean on and carry."""

STYLE = """\
.paper { fill: #ffffff } .box { fill: #f6f8fa; stroke: #57606a }
.arrow { fill: none; stroke: #8c959f } .tip { fill: #8c959f }
text { fill: #1f2328; font: 13px ui-monospace, Menlo, Consolas, monospace; text-anchor: middle }
.title { font-weight: bold }
@media (prefers-color-scheme: dark) {
  .paper { fill: #0d1117 } .box { fill: #161b22; stroke: #8b949e } .arrow { stroke: #6e7681 } .tip { fill: #6e7681 }
  text { fill: #e6edf3 }
}"""


@dataclass(slots=True)
class Spot:
    """A place on a floor: a package, or where an arrow passes on its way further down (no name)."""

    name: str
    floor: int
    x: float = 0.0
    below: list[Spot] = field(default_factory=list)
    above: list[Spot] = field(default_factory=list)

    @property
    def width(self) -> int:
        """Pixels from side to side."""
        return len(self.name) * CHARACTER + 2 * PADDING if self.name else 2


def picture() -> str:
    """The text of ``architecture.svg``: one drawing for each folder, side by side."""
    drawings = [_drawing(imports(folder)) for folder in FOLDERS]
    height = TITLE + MARGIN + max(high for _, high, _ in drawings)
    parts: list[str] = []
    left = MARGIN
    for folder, (wide, _, lines) in zip(FOLDERS, drawings, strict=True):
        title = escape(folder.relative_to(ROOT).as_posix())
        parts += [
            f'<g transform="translate({left} {TITLE})">',
            f'<text class="title" x="{wide // 2}" y="-10">{title}</text>',
            *lines,
            "</g>",
        ]
        left += wide + MARGIN
    size = f'width="{left}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {left} {height}" role="img">',
            "<title>The packages of convc: an arrow leads from a package to one that it imports</title>",
            f"<style>\n{STYLE}\n</style>",
            '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path class="tip" d="M0 0 L8 4 L0 8 z"/></marker>',
            f'<rect class="paper" {size}/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def table(folder: Path) -> str:
    """The packages of a folder from the top floor down, what each is for, and all that it imports."""
    graph = imports(folder)
    height = floors(graph)
    lines = ["| floor | package | what it is for | imports |", "| ---: | --- | --- | --- |"]
    for package in sorted(graph, key=lambda package: (-height[package], package)):
        listed = " ".join(sorted(graph[package])) or "-"
        what = escape(purpose(folder, package), quote=False)
        lines.append(f"| {height[package]} | `{package}` | {what} | {listed} |")
    return "\n".join(lines)


def page() -> str:
    """The text of ``architecture.md`` with its generated part as it is now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{PAGE} needs the lines {BEGIN} and {END}")
    tables = "\n\n".join(f"### `{folder.relative_to(ROOT).as_posix()}/`\n\n{table(folder)}" for folder in FOLDERS)
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def generated() -> dict[Path, str]:
    """What both files should say."""
    return {PICTURE: picture(), PAGE: page()}


# ---- drawing ---------------------------------------------------------------------------------------------------------


def _drawing(graph: Graph) -> tuple[int, int, list[str]]:
    """Width, height and the elements of one graph."""
    levels = _levels(graph)
    _put_in_order(levels)
    widths = [_place(level) for level in levels]
    width = max(widths)
    for level, own in zip(levels, widths, strict=True):
        for spot in level:
            spot.x += (width - own) / 2
    height = FLOOR * (len(levels) - 1) + BOX
    arrows = [_arrow(spot, below, height) for level in levels for spot in level if spot.name for below in spot.below]
    return width, height, arrows + [_box(spot, height) for level in levels for spot in level if spot.name]


def _levels(graph: Graph) -> list[list[Spot]]:
    """The floors from the lowest up, each with its packages and with the arrows that pass through it."""
    height = floors(graph)
    spots = {package: Spot(package, height[package]) for package in sorted(graph)}
    levels: list[list[Spot]] = [[] for _ in range(1 + max(height.values()))]
    for spot in spots.values():
        levels[spot.floor].append(spot)
    for package, others in sorted(reduced(graph).items()):
        for other in sorted(others):
            upper = spots[package]
            for floor in range(height[package] - 1, height[other], -1):
                passing = Spot("", floor)
                levels[floor].append(passing)
                upper.below.append(passing)
                passing.above.append(upper)
                upper = passing
            upper.below.append(spots[other])
            spots[other].above.append(upper)
    return levels


def _put_in_order(levels: list[list[Spot]]) -> None:
    """Order every floor by the mean place of its neighbours, upwards and downwards in turns: few arrows cross then."""
    for level in levels:
        _number(level)
    for sweep in range(SWEEPS):
        upwards = sweep % 2 == 0
        for level in levels if upwards else levels[::-1]:
            places = {id(spot): _mean(spot.below if upwards else spot.above, spot.x) for spot in level}
            level.sort(key=lambda spot: (places[id(spot)], spot.name))
            _number(level)


def _number(level: list[Spot]) -> None:
    """Give the spots of a floor the places 0 to 1, evenly."""
    for index, spot in enumerate(level):
        spot.x = (index + 1) / (len(level) + 1)


def _mean(spots: list[Spot], default: float) -> float:
    return sum(spot.x for spot in spots) / len(spots) if spots else default


def _place(level: list[Spot]) -> int:
    """Set the middle of every spot of a floor, from 0 on; gives the width of the floor."""
    end = 0
    for spot in level:
        spot.x = end + spot.width / 2
        end += spot.width + GAP
    return end - GAP


def _box(spot: Spot, height: int) -> str:
    """A package: its box and its name."""
    top = height - BOX - FLOOR * spot.floor
    left = spot.x - spot.width / 2
    return (
        f'<rect class="box" x="{left:.1f}" y="{top}" width="{spot.width}" height="{BOX}" rx="4"/>'
        f'<text x="{spot.x:.1f}" y="{top + 17}">{escape(spot.name)}</text>'
    )


def _arrow(start: Spot, spot: Spot, height: int) -> str:
    """An arrow from a package down to the next package, past the floors between them."""
    y = height - FLOOR * start.floor
    path = [f"M{start.x:.1f} {y}"]
    x = start.x
    while True:
        end = height - BOX - FLOOR * spot.floor
        bend = (end - y) / 2
        path.append(f"C{x:.1f} {y + bend:.1f} {spot.x:.1f} {end - bend:.1f} {spot.x:.1f} {end}")
        if spot.name:
            return f'<path class="arrow" marker-end="url(#tip)" d="{" ".join(path)}"/>'
        path.append(f"V{end + BOX}")
        x, y = spot.x, end + BOX
        (spot,) = spot.below


def main(arguments: list[str]) -> int:
    """Write both files, or say which of them are out of date."""
    stale = [path for path, text in generated().items() if not path.is_file() or path.read_text("utf-8") != text]
    for path in stale:
        if "--write" in arguments:
            path.write_text(generated()[path], encoding="utf-8")
        print(f"{'wrote' if '--write' in arguments else 'out of date:'} {path.relative_to(ROOT)}")
    return 1 if stale and "--write" not in arguments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
