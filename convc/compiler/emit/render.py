"""Templates: where they are, and how strictly they are filled in. The only file that imports jinja2.

A template may name things, go through a list it is given, and test a boolean it is given; it decides and computes
nothing. A name that a template wants and does not get is an error, and so is a name that it gets and does not use.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import jinja2
from jinja2 import nodes

from convc.support.resources import template_folder

WANTED = "wanted"
"""The name under which the code of a template has the names that it wants."""


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
def _compiler() -> bytes:
    """What turns a template into code: a version of jinja2, and this file with the settings."""
    version: str = vars(jinja2).get("__version__") or importlib.metadata.version("jinja2")
    return version.encode() + b"\0" + Path(__file__).read_bytes()


class _TemplateCode(SourceFileLoader):
    """A template as a module, whose code Python keeps in a ``__pycache__`` as it keeps that of others.

    A module is compiled anew when the size or the time of its file is another. Here a digest stands for the time, so
    that code follows its template, the version of jinja2 and the settings.
    """

    def __init__(self, file: str, path: str, source: str) -> None:
        super().__init__(file, path)
        self._source = source
        self._digest = hashlib.sha256(_compiler() + b"\0" + source.encode()).digest()

    def path_stats(self, path: Any) -> dict[str, Any]:
        """The size of the template, and the digest where Python has the time."""
        return {**super().path_stats(path), "mtime": int.from_bytes(self._digest[:4], "little")}

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:
        """Compile the template, and the names that it uses without setting them as `WANTED`.

        A template sets variables of loops alone, which are names of nothing else (a test holds that): they need not be
        told apart by scope, as `jinja2.meta` does by compiling the template a second time.
        """
        tree = environment().parse(self._source, self.name, self.path)
        names = list(tree.find_all(nodes.Name))
        wanted = {name.name for name in names if name.ctx == "load"} - {
            name.name for name in names if name.ctx == "store"
        }
        code = environment().compile(tree, self.name, self.path, raw=True)
        return super().source_to_code(f"{code}\n{WANTED} = frozenset({sorted(wanted)})\n".encode(), path)


@functools.cache
def _template(file: str) -> tuple[jinja2.Template, frozenset[str]]:
    """A template, and the names that it uses without setting them; compiled where no process has done so yet."""
    loaded = environment()
    assert loaded.loader is not None
    source, path, _ = loaded.loader.get_source(loaded, file)
    assert path is not None
    code = _TemplateCode(file, path, source).get_code(file)
    assert code is not None
    template = loaded.template_class.from_code(loaded, code, loaded.make_globals(None))
    return template, template.root_render_func.__globals__[WANTED]


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
