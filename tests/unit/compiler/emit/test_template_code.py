"""The code of a template, as Python keeps it: found again in another process, and never of another origin."""

from __future__ import annotations

import sys
from pathlib import Path

import jinja2
import pytest

from convc.compiler.emit import render


def forget():
    """Know no template, as a new process does."""
    render._template.cache_clear()
    render._compiler.cache_clear()


@pytest.fixture
def fill(tmp_path, monkeypatch):
    """A function that fills in a template of its own, as a new process would, with an empty cache of code."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(render.environment(), "loader", jinja2.FileSystemLoader(tmp_path))

    def fill(source: str, **names: object) -> str:
        (tmp_path / "a.ptx.j2").write_text(source)
        forget()
        return render.render("a", names)

    yield fill
    forget()


def kept(folder: Path) -> list[Path]:
    """The files of code below a folder."""
    return list(folder.rglob("*.pyc"))


@pytest.fixture
def compiled(monkeypatch) -> list[str]:
    """The names of the templates that jinja2 compiles from here on."""
    done: list[str] = []
    compile = render.environment().compile

    def counted(source, name, filename, raw):
        done.append(name)
        return compile(source, name, filename, raw)

    monkeypatch.setattr(render.environment(), "compile", counted)
    return done


def test_a_template_is_compiled_once_for_all_processes(fill, compiled, tmp_path):
    assert [fill("{{ a }}", a=number) for number in range(3)] == ["0", "1", "2"]
    assert compiled == ["a.ptx.j2"]
    assert [path.name.split(".")[:2] for path in kept(tmp_path)] == [["a", "ptx"]]


def test_a_template_of_another_text_and_as_many_bytes_is_compiled_anew(fill, compiled):
    assert [fill("{{ a }}.", a=1), fill("{{ a }}!", a=1)] == ["1.", "1!"]
    assert len(compiled) == 2


def test_another_jinja_compiles_anew(fill, compiled, monkeypatch):
    fill("{{ a }}", a=1)
    monkeypatch.setattr(jinja2, "__version__", "another")
    fill("{{ a }}", a=1)
    assert len(compiled) == 2


def test_other_settings_compile_anew(fill, compiled, monkeypatch, tmp_path):
    fill("{{ a }}", a=1)
    other = tmp_path / "render.py"
    other.write_bytes(Path(render.__file__).read_bytes().replace(b"trim_blocks=True", b"trim_blocks=False"))
    monkeypatch.setattr(render, "__file__", str(other))
    fill("{{ a }}", a=1)
    assert len(compiled) == 2


def test_names_are_kept_with_the_code(fill):
    for _ in range(2):
        with pytest.raises(TypeError, match=r"missing names \['a'\], unused names \['b'\]"):
            fill("{{ a }}", b=1)


def test_nothing_is_kept_where_python_keeps_no_code(fill, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert fill("{{ a }}", a=1) == "1"
    assert kept(tmp_path) == []


def test_a_folder_that_nobody_may_write_costs_a_compilation(fill, compiled, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder would be")
    assert [fill("{{ a }}", a=1), fill("{{ a }}", a=2)] == ["1", "2"]
    assert len(compiled) == 2
