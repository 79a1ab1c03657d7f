"""The vocabulary of all drawings: boxes, words, lines and arrows as SVG, in colours for light and for dark pages.

A drawing is a `Picture`, whose parts are texts that the functions here make. Colours go by names (`TINTS` behind words,
`SHADES` for bars, and the states of `COLOURS`), which are variables of CSS: a page may set them, and the reader's own
choice of light or dark is followed where it does not. Whatever a picture says can be read back from its text: parts
carry ``data-`` attributes, and a sentence about a part (``<title>``) appears where the mouse rests on it. All words and
values are escaped; what XML does not take becomes a question mark.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

TINTS: tuple[str, ...] = tuple(f"t{i}" for i in range(8))
"""Names of pale colours that words stand on."""

SHADES: tuple[str, ...] = tuple(f"s{i}" for i in range(10))
"""Names of full colours, for bars without words."""

COLOURS: Mapping[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#0d1117"), "ink": ("#1f2328", "#e6edf3"), "soft": ("#57606a", "#9198a1"),
    "line": ("#8c959f", "#484f58"), "pad": ("#ffffff", "#0d1117"), "idle": ("#eaeef2", "#21262d"),
    "hot": ("#1b7837", "#56d364"), "bad": ("#cf222e", "#ff7b72"), "purple": ("#7b2fbe", "#bf8bff"),
    "t0": ("#dbe9f6", "#1d3a56"), "t1": ("#fde8d0", "#57391a"), "t2": ("#dcefdc", "#1f4427"),
    "t3": ("#f6dbe4", "#54263a"), "t4": ("#e6dff3", "#3a2d5c"), "t5": ("#f7f1c9", "#4b4314"),
    "t6": ("#d3eeee", "#144848"), "t7": ("#eadfd3", "#453627"),
    "s0": ("#4f81bd", "#6ea8e6"), "s1": ("#d98032", "#f0a35e"), "s2": ("#3f9b57", "#5fc97a"),
    "s3": ("#c0504d", "#ee7f7b"), "s4": ("#8064a2", "#b195d6"), "s5": ("#b39b1e", "#dcc64f"),
    "s6": ("#2f9c9c", "#56cccc"), "s7": ("#8b6a4a", "#c19a72"), "s8": ("#d1679f", "#f195c4"),
    "s9": ("#7a8288", "#a9b1b8"),
    "u0": ("#1f3864", "#c6d4f0"), "u1": ("#6b0f1a", "#ffc2c7"), "u2": ("#a6d854", "#3d5c12"),
    "u3": ("#24292f", "#d0d7de"), "u4": ("#9ecae1", "#2b5f7a"), "u5": ("#fdae6b", "#8a4b12"),
}  # fmt: skip
"""Names of colours, each on a light page and on a dark one."""

SIZE = 11
"""Pixels of a letter's height."""

FONT = f"font-size:{SIZE}px;font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"

LETTER = 6.7
"""Pixels of a letter's width: those of a common monospace font at `SIZE`, rounded up."""

MARGIN = 16
TITLE = 40
"""Pixels at the top that the title takes."""

NOTE = 18
"""Pixels from one note to the next."""


def _palette(dark: bool) -> str:
    return ";".join(f"--{name}:{pair[dark]}" for name, pair in COLOURS.items())


STYLE = "\n".join(
    (
        f".convc{{{_palette(False)};background:var(--paper)}}",
        f"@media (prefers-color-scheme:dark){{.convc{{{_palette(True)}}}}}",
        *(f".convc .{name}{{fill:var(--{name})}}" for name in COLOURS),
        f".convc text{{fill:var(--ink);white-space:pre;{FONT}}}",
        ".convc text.soft{fill:var(--soft)}",
        ".convc .mid{text-anchor:middle} .convc .end{text-anchor:end}",
        ".convc .name{font-size:15px} .convc .strong{font-weight:bold}",
        ".convc text.halo{paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}",
        ".convc .box{stroke:var(--line)}",
        ".convc .dash{stroke-dasharray:3 2}",
        ".convc .rule{stroke:var(--line);fill:none} .convc .mark{stroke:var(--ink);fill:none}",
        ".convc .rim{stroke:var(--purple);stroke-width:2;fill:none}",
        ".convc .way{stroke:var(--bad);fill:none;stroke-width:1.5}",
        ".convc .thick{stroke-width:2} .convc .faint{opacity:0.6}",
    )
)
"""The style sheet of every picture; a page needs it once."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Picture:
    """A drawing.

    Attributes:
        title: what it shows, one line.
        width, height: pixels.
        parts: elements of SVG, later ones on top.
    """

    title: str
    width: float
    height: float
    parts: tuple[str, ...]

    def svg(self, style: bool = True) -> str:
        """The drawing as text that ends in a newline; without ``style`` for a page that has `STYLE`."""
        size = f'width="{self.width:g}" height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="convc" {size} role="img">',
            f"<title>{escape(clean(self.title))}</title>",
        ]
        if style:
            lines.append(f"<style>{STYLE}</style>")
        lines.append(f'<rect class="paper" width="{self.width:g}" height="{self.height:g}"/>')
        return "\n".join([*lines, *self.parts, "</svg>"]) + "\n"

    def _repr_svg_(self) -> str:
        """The drawing, for notebooks."""
        return self.svg()

    def __repr__(self) -> str:
        return f"<Picture: {self.title}>"


def titled(title: str, width: float, height: float, parts: Iterable[str], notes: Sequence[str] = ()) -> Picture:
    """A picture with its title at its top and notes at its end, and at least as wide as these."""
    heading = text(MARGIN, 26, title, "name")
    wide = max(width, 2 * MARGIN + 1.4 * LETTER * len(title), 2 * MARGIN + max(map(width_of, notes), default=0))
    return Picture(
        title=title,
        width=round(wide),
        height=round(height + NOTE * len(notes)),
        parts=(
            heading,
            *parts,
            *(text(MARGIN, height + NOTE * i, words, "soft", note=i) for i, words in enumerate(notes)),
        ),
    )


def plain(svg: str, dark: bool = False) -> str:
    """The text with numbers in place of variables, for programs that draw SVG and know less of CSS than a browser."""
    fixed = re.sub(r"@media [^\n]*\n", "", svg)
    return re.sub(r"var\(--(\w+)\)", lambda found: COLOURS[found[1]][dark], fixed)


def clean(words: str) -> str:
    """Words of a stranger's as XML takes them: without control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in words)


def rect(x: float, y: float, width: float, height: float, kind: str, tip: str = "", **data: object) -> str:
    """A box.

    Args:
        x, y, width, height: in pixels.
        kind: names of its colour and of what else the style sheet knows, such as ``t0 box dash``.
        tip: a sentence about it.
        data: what it stands for, as attributes ``data-NAME``.
    """
    shape = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
    head = f'<rect class="{kind}" {shape}{_data(data)}'
    return f"{head}><title>{escape(clean(tip))}</title></rect>" if tip else f"{head}/>"


def text(x: float, y: float, words: str, kind: str = "", **data: object) -> str:
    """Words on the line y, from x on; ``kind`` as of `rect`, such as ``mid`` for around x and ``end`` for up to x."""
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{_number(x)}" y="{_number(y)}"{_data(data)}>{escape(clean(words))}</text>'


def group(parts: Iterable[str], tip: str = "", **data: object) -> str:
    """Parts that belong together, with a sentence about them and what they stand for."""
    title = f"<title>{escape(clean(tip))}</title>" if tip else ""
    return f"<g{_data(data)}>{title}{''.join(parts)}</g>"


def line(x: float, y: float, to_x: float, to_y: float, kind: str = "rule") -> str:
    """A straight line."""
    return path(f"M{_number(x)} {_number(y)}L{_number(to_x)} {_number(to_y)}", kind)


def path(steps: str, kind: str = "rule") -> str:
    """A line along the steps of SVG's path language."""
    return f'<path class="{kind}" d="{steps}"/>'


def cross(x: float, y: float, width: float, height: float) -> str:
    """Two diagonals."""
    right = _number(x + width)
    low = _number(y + height)
    left = _number(x)
    top = _number(y)
    return path(f"M{left} {top}L{right} {low}M{right} {top}L{left} {low}", "mark")


def arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    """A line with a tip at its end."""
    length = max(1e-6, ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5)
    along_x = 6 * (to_x - x) / length
    along_y = 6 * (to_y - y) / length
    wings = [
        f"M{_number(to_x - along_x + turn * along_y / 2)} {_number(to_y - along_y - turn * along_x / 2)}"
        f"L{_number(to_x)} {_number(to_y)}"
        for turn in (1, -1)
    ]
    return path(f"M{_number(x)} {_number(y)}L{_number(to_x)} {_number(to_y)}{''.join(wings)}", "mark")


def legend(x: float, y: float, entries: Iterable[tuple[str, str]]) -> list[str]:
    """Small boxes in a row, each with its words behind it: pairs of words and the kind of a box."""
    parts: list[str] = []
    for words, kind in entries:
        parts += [rect(x, y, 14, 14, f"{kind} box"), text(x + 20, y + 11, words)]
        x += 34 + width_of(words)
    return parts


def legend_lines(x: float, y: float, entries: Sequence[tuple[str, str]], width: float) -> tuple[list[str], float]:
    """A legend in lines of at most so many pixels, and where the next thing below it may begin."""
    parts: list[str] = []
    row: list[tuple[str, str]] = []
    for entry in entries:
        if row and sum(34 + width_of(words) for words, _ in (*row, entry)) > width:
            parts += legend(x, y, row)
            row = []
            y += 20
        row.append(entry)
    return [*parts, *legend(x, y, row)], y + 24


def width_of(words: str) -> float:
    """Pixels that words take."""
    return LETTER * len(words)


def wrapped(words: str, letters: int) -> list[str]:
    """A sentence in lines of at most so many letters; lines behind the first are set in."""
    return textwrap.wrap(words, max(20, letters), subsequent_indent="  ", break_on_hyphens=False)


def _number(value: float) -> str:
    return f"{round(value, 2):g}" if abs(value) < 1e5 else f"{value:.0f}"


def _data(data: Mapping[str, object]) -> str:
    """Attributes by the names of Python: ``k_byte`` becomes ``data-k-byte``; None is left out."""
    pairs = ((name.replace("_", "-"), value) for name, value in data.items() if value is not None)
    return "".join(f' data-{name}="{escape(clean(str(value)))}"' for name, value in pairs)
