"""Templates only read: the rules of the room, checked on their syntax trees and their text."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
import pytest
from jinja2 import meta, nodes

from convc.compiler.emit.render import _template, environment, render
from convc.compiler.tile.steps.all import STEP_TYPES
from convc.compiler.tile.steps.base import Step, template_name
from convc.errors import BuildError
from convc.support import resources
from convc.support.resources import template_folder

FOLDER = template_folder()
TEMPLATES = sorted(FOLDER.rglob("*.ptx.j2"))
STEPS = sorted((FOLDER / "steps").glob("*.j2"))

ALLOWED = (nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.For, nodes.If, nodes.Tuple)
"""Text, a name, a loop over a name (unpacking tuples), a test of a name: no arithmetic, comparison, filter or call."""


def ids(path: Path) -> str:
    return path.relative_to(FOLDER).as_posix()


def logic(source: str) -> list[str]:
    """What a template does beyond reading."""
    tree = environment().parse(source)
    found = [type(node).__name__ for node in tree.find_all(nodes.Node) if not isinstance(node, ALLOWED)]
    for branch in tree.find_all(nodes.If):
        found += [] if isinstance(branch.test, nodes.Name) else ["If of an expression"]
        found += ["elif"] if branch.elif_ else []
    for loop in tree.find_all(nodes.For):
        found += [] if isinstance(loop.iter, nodes.Name) and loop.test is None and not loop.recursive else ["For"]
    return found


@pytest.mark.parametrize("path", TEMPLATES, ids=ids)
def test_a_template_has_no_logic(path):
    assert logic(path.read_text()) == []


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.j2")), ids=ids)
def test_the_names_that_a_template_wants_are_those_that_jinja_finds(path):
    _, wanted = _template(ids(path))
    assert wanted == meta.find_undeclared_variables(environment().parse(path.read_text()))


@pytest.mark.parametrize(
    ("source", "node"),
    [
        ("{{ a + 1 }}", "Add"),
        ("{% if a == 1 %}x{% endif %}", "Compare"),
        ("{% if not a %}x{% endif %}", "Not"),
        ("{{ a | upper }}", "Filter"),
        ("{{ f(a) }}", "Call"),
        ("{{ a.b }}", "Getattr"),
        ("{{ a[0] }}", "Getitem"),
        ("{% set a = b %}", "Assign"),
        ("{% for x in a if x %}{% endfor %}", "For"),
        ("{{ 1 }}", "Const"),
        ("{% if a %}x{% elif b %}y{% endif %}", "elif"),
    ],
)
def test_the_rule_finds_logic(source, node):
    assert node in logic(source)


def test_steps_and_templates_are_the_same_set():
    assert {template_name(kind) for kind in STEP_TYPES} == {f"steps/{p.name.removesuffix('.ptx.j2')}" for p in STEPS}
    assert {kind.__name__ for kind in STEP_TYPES} == leaves(Step)


def leaves(kind: type) -> set[str]:
    """Names of convc's classes that derive from one, and that no other derives from."""
    found = {cls.__name__: cls for cls in kind.__subclasses__() if cls.__module__.startswith("convc.")}
    return set().union(*(leaves(cls) or {name} for name, cls in found.items()))


@pytest.mark.parametrize("path", STEPS, ids=ids)
def test_a_template_of_a_step_is_one_marked_scope(path):
    lines = path.read_text().splitlines()
    assert lines[0] == "//@ step={{ id }} role={{ role }} {{ note }}"
    assert lines[1] == "{"
    assert lines[-1] == "}"
    assert all(line.startswith((" ", "{%", "{{ label }}:", "{{ end }}:", "{{ body }}")) for line in lines[2:-1])


@pytest.mark.parametrize("path", STEPS, ids=ids)
def test_a_template_of_a_step_declares_before_it_acts(path):
    text = [line.strip() for line in path.read_text().splitlines()[2:-1]]
    code = [line for line in text if line and not line.startswith(("{%", "//", "{{"))]
    acts = [line.startswith(".reg") for line in code]
    assert acts == sorted(acts, reverse=True)


def test_no_register_has_the_name_of_a_special_register():
    special = {
        "tid",
        "ntid",
        "laneid",
        "warpid",
        "nwarpid",
        "ctaid",
        "nctaid",
        "smid",
        "gridid",
        "clock",
        "envreg",
        "pm",
    }
    for path in TEMPLATES:
        declared = re.findall(r"\.reg\s+\.\w+\s+([^;]*);", path.read_text())
        names = {name.strip(" %").split("<")[0] for line in declared for name in line.split(",")}
        assert not names & special, path


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"width": 32}, r"missing names \['columns'\], unused names \['width'\]"),
        ({}, r"missing names \['columns'\], unused names \[\]"),
        ({"columns": 32, "width": 32}, r"missing names \[\], unused names \['width'\]"),
    ],
)
def test_names_must_be_exactly_those_of_the_template(names, message):
    with pytest.raises(TypeError, match=message):
        render("steps/tmem_dealloc", {"id": "x", "role": "y", "note": "z", "group": 1, **names})


def test_only_texts_and_numbers_are_printed():
    names = {"id": "x", "role": "y", "note": "z", "group": 1, "columns": 32.0}
    with pytest.raises(TypeError, match="texts and numbers, got float"):
        render("steps/tmem_dealloc", names)


def test_an_undefined_name_is_an_error():
    with pytest.raises(jinja2.UndefinedError):
        environment().from_string("{{ nothing }}").render()


def test_an_installation_without_templates_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(resources, "PACKAGE", tmp_path / "convc")
    with pytest.raises(BuildError, match="the templates are missing from this installation"):
        template_folder()
    inside = tmp_path / "convc" / "_templates"
    inside.mkdir(parents=True)
    (inside / "kernel.ptx.j2").touch()
    assert template_folder() == inside
