"""The picture and the tables of ``architecture.md`` are those of the imports, and the drawing is sound."""

from __future__ import annotations

from graphlib import CycleError
from xml.etree import ElementTree

import pytest

from tests.architecture import picture
from tests.architecture.packages import floors, imports, reduced
from tests.architecture.picture import FOLDERS, PAGE, PICTURE, ROOT, generated

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("path", [PAGE, PICTURE], ids=lambda path: path.name)
def test_the_files_are_what_the_imports_say(path, request):
    text = generated()[path]
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, (
        "imports or docstrings of packages have changed: run `python -m tests.architecture.picture --write`, "
        "and look at what has moved"
    )


def test_the_same_bytes_every_time():
    assert generated() == generated()


def test_every_package_has_a_box_and_every_arrow_of_the_reduced_graph_a_path():
    root = ElementTree.fromstring(picture.picture())
    graphs = [imports(folder) for folder in FOLDERS]
    texts = [element.text for element in root.iter(f"{SVG}text")]
    titles = [folder.relative_to(ROOT).as_posix() for folder in FOLDERS]
    assert sorted(texts) == sorted([*titles, *(package for graph in graphs for package in graph)])
    arrows = [path for path in root.iter(f"{SVG}path") if path.get("class") == "arrow"]
    assert len(arrows) == sum(len(others) for graph in graphs for others in reduced(graph).values())


def test_names_are_escaped(monkeypatch):
    monkeypatch.setattr(picture, "imports", lambda folder: {"a<b": {"c&d"}, "c&d": set()})
    texts = [element.text for element in ElementTree.fromstring(picture.picture()).iter(f"{SVG}text")]
    assert {"a<b", "c&d"} < set(texts)


def test_floors_are_longest_ways():
    graph = {"a": {"b", "c"}, "b": {"c"}, "c": set(), "d": {"c"}}
    assert floors(graph) == {"a": 2, "b": 1, "c": 0, "d": 1}
    assert reduced(graph) == {"a": {"b"}, "b": {"c"}, "c": set(), "d": {"c"}}
    with pytest.raises(CycleError):
        floors({"a": {"b"}, "b": {"a"}})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_circle_among_the_packages(folder):
    height = floors(imports(folder))
    assert all(height[package] > height[other] for package, others in imports(folder).items() for other in others)


def test_without_the_flag_nothing_is_written(monkeypatch, tmp_path, capsys):
    page, svg = tmp_path / "architecture.md", tmp_path / "architecture.svg"
    page.write_text(f"before\n{picture.BEGIN}\nold\n{picture.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(picture, "ROOT", tmp_path)
    monkeypatch.setattr(picture, "FOLDERS", ())
    monkeypatch.setattr(picture, "picture", lambda: "svg")
    monkeypatch.setattr(picture, "PAGE", page)
    monkeypatch.setattr(picture, "PICTURE", svg)
    assert picture.main([]) == 1
    assert not svg.exists()
    assert picture.main(["--write"]) == 0
    assert page.read_text(encoding="utf-8").startswith(f"before\n{picture.BEGIN}\n")
    assert picture.main([]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "wrote architecture.md"
