"""Templates: where they are, and how strictly they are filled in. The only file that imports jinja2.

A template may name things, go through a list it is given, and test a boolean it is given; it decides and computes
nothing. A name that a template wants and does not get is an error, and so is a name that it gets and does not use.
"""

from __future__ import annotations

import functools
from typing import Any

import jinja2
from jinja2 import nodes

from convc.support.resources import template_folder


@functools.cache
def environment() -> jinja2.Environment:
    """The one Jinja environment; nothing is escaped, as PTX is no markup."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=False,
        finalize=_no_objects,
    )


def _no_objects(value: Any) -> Any:
    """What a template prints is a text or a number; anything else is a mistake in the context."""
    if type(value) not in (str, int, jinja2.StrictUndefined):
        raise TypeError(f"a template prints texts and numbers, got {type(value).__name__}: {value!r}")
    return value


@functools.cache
def _template(file: str) -> tuple[jinja2.Template, frozenset[str]]:
    """A template, and the names that it uses without setting them; read and parsed once.

    A template sets variables of loops alone, which are names of nothing else (a test holds that): they need not be told
    apart by scope, as `jinja2.meta` does by compiling the template a second time.
    """
    loaded = environment()
    assert loaded.loader is not None
    source, path, _ = loaded.loader.get_source(loaded, file)
    tree = loaded.parse(source, file, path)
    names = list(tree.find_all(nodes.Name))
    wanted = frozenset(name.name for name in names if name.ctx == "load").difference(
        name.name for name in names if name.ctx == "store"
    )
    return loaded.template_class.from_code(loaded, loaded.compile(tree, file, path), loaded.make_globals(None)), wanted


def render(template: str, names: dict[str, Any]) -> str:
    """Fill in ``<template>.ptx.j2``; TypeError where the names given are not exactly the names it uses."""
    return render_file(f"{template}.ptx.j2", names)


def render_file(file: str, names: dict[str, Any]) -> str:
    """Fill in a template by the name of its file; TypeError as of `render`."""
    loaded, wanted = _template(file)
    missing = sorted(wanted - names.keys())
    unused = sorted(names.keys() - wanted)
    if missing or unused:
        raise TypeError(f"template {file}: missing names {missing}, unused names {unused}")
    # As `Template.render`, but for its copy of the names beside jinja2's own globals, which no template uses.
    return "".join(loaded.root_render_func(loaded.new_context(names, shared=True)))
