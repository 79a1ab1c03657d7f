"""The notebooks of ``convc/docs``: their cells run in order, and give what is stored under them.

Cells are run as Python alone, without Jupyter: nothing in them may need more.
"""

from __future__ import annotations

import ast
import code
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pages import DOCS
from reader import same

NOTEBOOKS = sorted(DOCS.glob("*.ipynb"))


class Session(code.InteractiveInterpreter):
    """Runs cells; what fails is raised here."""

    def showtraceback(self) -> NoReturn:
        raise  # called while the error of a cell is handled

    def cell(self, source: str, place: str) -> str:
        """What a cell prints, and the value of its last line."""
        body = ast.parse(source).body
        shown = [body.pop()] if isinstance(body[-1], ast.Expr) else []
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.runcode(compile(ast.Module(body, []), place, "exec"))
            self.runcode(compile(ast.Interactive(shown), place, "single"))
        return out.getvalue()


def stored(cell: dict[str, Any]) -> str:
    """What a notebook shows under a cell, as text."""
    texts = [one["text"] if one["output_type"] == "stream" else one["data"]["text/plain"] for one in cell["outputs"]]
    return "\n".join("".join(text) for text in texts)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_what_it_shows(path: Path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "displayhook", lambda value: None if value is None else print(repr(value)))
    session = Session()
    for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            made = session.cell("".join(cell["source"]), f"{path.name}, cell {number}")
            assert same(stored(cell), made), f"cell {number} shows\n{stored(cell)}\nand gives\n{made}"


def test_there_are_the_notebooks_that_the_contents_list():
    contents = (DOCS / "index.md").read_text("utf-8")
    assert [path.name for path in NOTEBOOKS if f"({path.name})" not in contents] == []
    assert len(NOTEBOOKS) == 3
