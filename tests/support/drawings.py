"""Pictures read back: the numbers that an SVG text says."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg: str) -> ElementTree.Element:
    """The text as a tree; it must be well-formed, and need nothing from outside."""
    assert "href" not in svg
    assert "url(" not in svg
    return ElementTree.fromstring(svg)


def table(svg: str, name: str) -> list[list[str]]:
    """The words of a table of cells, row by row."""
    (found,) = (group for group in parsed(svg).iter(f"{SVG}g") if group.get("data-table") == name)
    rows = sorted((group for group in found if group.get("data-row")), key=lambda group: int(group.get("data-row")))
    return [[word.text for word in row.iter(f"{SVG}text") if "cell" in word.get("class").split()] for row in rows]


def marked(svg: str, name: str) -> Iterator[dict[str, str]]:
    """What each element with ``data-NAME`` says: its ``data-`` attributes by their names."""
    for element in parsed(svg).iter():
        if element.get(f"data-{name}") is not None:
            yield {key.removeprefix("data-"): value for key, value in element.items() if key.startswith("data-")}


def words(svg: str) -> list[str]:
    """All words that stand in the picture."""
    return [element.text for element in parsed(svg).iter(f"{SVG}text")]
