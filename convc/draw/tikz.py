r"""A picture as LaTeX: a document with one TikZ picture, translated from the elements of the SVG.

`convc.draw.svg` makes boxes, words and lines, in groups with sentences about them, which LaTeX leaves out. A length is
a pixel of the SVG, y runs down as there, and colours are those of light pages. The document needs the packages geometry
and TikZ alone, and its page is as large as the picture. Words are escaped; what is not ASCII becomes a question mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from convc.draw.svg import COLOURS, Picture
from convc.errors import InputError

PIXEL = 0.75
"""Points of a pixel."""

MOST = 16000
"""Pixels of a side: TeX has no length of 16384 points, and TikZ reads coordinates as lengths."""

SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "#$%&_{}"}, **{sign: rf"\texttt{{{sign}}}" for sign in '<>|"'},
}  # fmt: skip

STROKES = {"box": "line", "rule": "line", "mark": "ink", "rim": "purple", "way": "bad"}
"""Colours of the lines of classes (`convc.draw.svg.STYLE`)."""

EXTRAS = {
    "dash": "dash pattern=on 2.25pt off 1.5pt", "thick": "line width=1.5pt", "rim": "line width=1.5pt",
    "way": "line width=1.1pt", "faint": "opacity=0.6",
}  # fmt: skip
FONTS = {"name": r"\fontsize{10.95}{11}\selectfont", "strong": r"\sffamily\bfseries"}
SIDES = {"mid": "", "end": "right,"}
"""Where words stand whose side pgf does not take as left: around their place, or up to it."""


def tikz(picture: Picture) -> str:
    """The text of a LaTeX document with the picture.

    Raises:
        InputError: a side of the picture is longer than TeX can measure.
    """
    if max(picture.width, picture.height) > MOST:
        raise InputError(
            f"LaTeX has no room for {picture.width:g} x {picture.height:g} pixels: a side has at most {MOST}",
            hint="draw fewer rows and columns, or write FILE.svg",
        )
    svg = ElementTree.fromstring(picture.svg(style=False))
    used = {kind for element in svg.iter() for kind in element.get("class", "").split()} & set(COLOURS)
    size = f"paperwidth={picture.width * PIXEL:g}pt,paperheight={picture.height * PIXEL + 1:g}pt"
    lines = [
        r"\documentclass{article}",
        rf"\usepackage[{size},margin=0pt]{{geometry}}",
        r"\usepackage{tikz}",
        *(
            rf"\definecolor{{{name}}}{{HTML}}{{{COLOURS[name][0][1:].upper()}}}"
            for name in sorted(used | set(STROKES.values()))
        ),
        r"\newcommand{\words}[4][]{\pgftext[at=\pgfpointxy{#2}{#3},#1]{#4}}  % a node takes ten times as long",
        r"\pagestyle{empty}\frenchspacing\parindent=0pt\topskip=0pt\fboxsep=1pt",
        r"\begin{document}",
        rf"\ttfamily\fontsize{{8}}{{8}}\selectfont\begin{{tikzpicture}}[x={PIXEL}pt,y=-{PIXEL}pt]",
        rf"\useasboundingbox (0,0) rectangle ({picture.width:g},{picture.height:g});",
        *(line for element in svg for line in _lines(element)),
        r"\end{tikzpicture}",
        r"\end{document}",
    ]
    return "\n".join(lines) + "\n"


def _lines(element: ElementTree.Element) -> Iterator[str]:
    """What draws an element and those in it."""
    kinds = element.get("class", "").split()
    match element.tag.rpartition("}")[2]:
        case "rect":
            yield from _box(element.attrib, kinds)
        case "path":
            options = ",".join([next(STROKES[kind] for kind in kinds if kind in STROKES), *_extras(kinds)])
            yield from (rf"\draw[{options}] {steps};" for steps in _steps(element.get("d", "")))
        case "text":
            side = next((SIDES[kind] for kind in kinds if kind in SIDES), "left,")
            look = "".join(
                FONTS.get(kind) or rf"\color{{{kind}}}" for kind in kinds if kind in FONTS or kind in COLOURS
            )
            words = f"{look}{' ' if look else ''}{escaped(element.text or '')}"
            words = rf"\colorbox{{paper}}{{{words}}}" if "halo" in kinds else words
            yield rf"\words[{side}base]{{{element.get('x')}}}{{{element.get('y')}}}{{{words}}}"
        case _:
            for each in element:
                yield from _lines(each)


def _box(attributes: Mapping[str, str], kinds: list[str]) -> Iterator[str]:
    """A rectangle with its colour, its rim, or both."""
    x, y, width, height = (float(attributes.get(name, "0")) for name in ("x", "y", "width", "height"))
    filled = next((kind for kind in kinds if kind in COLOURS), "")
    rim = next((STROKES[kind] for kind in kinds if kind in STROKES), "")
    if filled == "paper" and not rim:
        return
    if filled and rim:
        look = rf"\filldraw[fill={filled},draw={rim}"
    else:
        look = rf"\fill[{filled}" if filled else rf"\draw[{rim}"
    options = ",".join([look, *_extras(kinds)])
    yield f"{options}] ({x:g},{y:g}) rectangle ({x + width:g},{y + height:g});"


def _extras(kinds: list[str]) -> list[str]:
    return [EXTRAS[kind] for kind in kinds if kind in EXTRAS]


def _steps(path: str) -> Iterator[str]:
    """The parts of a path of SVG, of the steps M, L, H and V, each as coordinates of TikZ."""
    for part in re.findall(r"M[^M]+", path):
        points: list[str] = []
        x = y = ""
        for letter, numbers in re.findall(r"([MLHV])([^MLHV]+)", part):
            given = numbers.replace(",", " ").split()
            x = x if letter == "V" else given[0]
            y = y if letter == "H" else given[-1]
            points.append(f"({x},{y})")
        yield " -- ".join(points)


def escaped(words: str) -> str:
    """Words as LaTeX takes them, with every space of several."""
    plain = "".join(SPECIAL.get(letter, letter if " " <= letter <= "~" else "?") for letter in words)
    return re.sub(r"^ | (?= )", "~", plain)
