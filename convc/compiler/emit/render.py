"""Templates: where they are, and how strictly they are filled in. Besides pages the only file that imports jinja2.

A template may name things, go through a list it is given, and test a boolean it is given; it decides and computes
nothing. A name that a template wants and does not get is an error, and so is a name that it gets and does not use.

Jinja reads templates. As they can do so little, its syntax trees are filled in here: to make Python of them first, as
Jinja does, takes longer than to compile two kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import jinja2
from jinja2 import nodes

from convc.support.resources import template_folder

Names: TypeAlias = Mapping[str, Any]

Value: TypeAlias = Callable[[Names], Any]
"""What an expression of a template comes to."""

Part: TypeAlias = "str | Callable[[Names, list[str]], None]"
"""A piece of a template: a text, or what adds texts to a list."""


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
    )


class _Template(NamedTuple):
    """A template that has been read: its pieces, and the names that it uses without setting them."""

    parts: tuple[Part, ...]
    wanted: frozenset[str]


@functools.cache
def _template(file: str) -> _Template:
    """Read a template, once."""
    loaded = environment()
    assert loaded.loader is not None
    source, path, _ = loaded.loader.get_source(loaded, file)
    tree = loaded.parse(source, file, path)
    return _Template(_parts(tree.body), frozenset(_wanted(tree.body, frozenset())))


def _parts(body: Iterable[nodes.Node]) -> tuple[Part, ...]:
    """The pieces of a template, or of a block of one."""
    found: list[Part] = []
    for node in body:
        match node:
            case nodes.Output():
                found += (each.data if isinstance(each, nodes.TemplateData) else _printed(each) for each in node.nodes)
            case nodes.For():
                found.append(_repeated(node))
            case nodes.If() if not node.elif_:
                found.append(_chosen(node))
            case _:
                raise TypeError(f"a template reads names, lists and booleans, line {node.lineno} does something else")
    return tuple(found)


def _printed(node: nodes.Node) -> Part:
    """The piece that prints a text or a number; TypeError where it gets anything else."""
    value = _value(node)

    def write(names: Names, out: list[str]) -> None:
        found = value(names)
        if type(found) is not str and type(found) is not int:
            raise TypeError(f"a template prints texts and numbers, got {type(found).__name__}: {found!r}")
        out.append(str(found))

    return write


def _repeated(node: nodes.For) -> Part:
    """The piece that is written for each element of a list."""
    several = isinstance(node.target, nodes.Tuple)
    targets = [target.name for target in _names(node.target)]
    every = _value(node.iter)
    body = _parts(node.body)

    def write(names: Names, out: list[str]) -> None:
        inside = dict(names)
        for element in every(names):
            inside.update(zip(targets, element if several else (element,), strict=True))
            _write(body, inside, out)

    return write


def _chosen(node: nodes.If) -> Part:
    """The piece that is written where a boolean is true, or the other one."""
    test = _value(node.test)
    body = _parts(node.body)
    otherwise = _parts(node.else_)

    def write(names: Names, out: list[str]) -> None:
        _write(body if test(names) else otherwise, names, out)

    return write


def _value(node: nodes.Node) -> Value:
    """What gives the value of a name, of a field of one, or of a constant."""
    match node:
        case nodes.Name():
            name = node.name
            return lambda names: names[name]
        case nodes.Getattr():
            record = _value(node.node)
            field = node.attr
            return lambda names: record(names)[field]
        case nodes.Const():
            constant = node.value
            return lambda names: constant
        case _:
            raise TypeError(f"a template reads names, lists and booleans, line {node.lineno} computes something")


def _wanted(body: Iterable[nodes.Node], known: frozenset[str]) -> set[str]:
    """The names that a part of a template uses and does not set."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, nodes.For):
            found |= _wanted([node.iter], known)
            found |= _wanted(node.body, known | {target.name for target in _names(node.target)})
        elif isinstance(node, nodes.Name):
            found |= {node.name} - known
        else:
            found |= _wanted(node.iter_child_nodes(), known)
    return found


def _names(target: nodes.Node) -> list[nodes.Name]:
    """The names that a loop sets."""
    return [target] if isinstance(target, nodes.Name) else list(target.find_all(nodes.Name))


def _write(parts: tuple[Part, ...], names: Names, out: list[str]) -> None:
    """Add the texts of some pieces."""
    for part in parts:
        if isinstance(part, str):
            out.append(part)
        else:
            part(names, out)


def render(template: str, names: Names) -> str:
    """Fill in ``<template>.ptx.j2``; TypeError where the names given are not exactly the names it uses."""
    return render_file(f"{template}.ptx.j2", names)


def render_file(file: str, names: Names) -> str:
    """Fill in a template by the name of its file; TypeError as of `render`."""
    parts, wanted = _template(file)
    missing = sorted(wanted - names.keys())
    unused = sorted(names.keys() - wanted)
    if missing or unused:
        raise TypeError(f"template {file}: missing names {missing}, unused names {unused}")
    out: list[str] = []
    _write(parts, names, out)
    return "".join(out)
