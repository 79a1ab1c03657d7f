"""The names that a step uses and makes, read off the types of its fields.

A field's annotation says what it names (`convc.compiler.plan.names`): one name, an optional one, a tuple of names, or
tuples with names among other values. An expression reads its variables. So a new step says it all by its fields.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin, get_type_hints

from convc.compiler.plan.names import MapName, NewNumber, Number, PointerName, RingName, SmemName, TmemName
from convc.compiler.tile.steps.base import Step
from convc.ir.expr import IntExpr

Kind = Any
"""One of `KINDS`: the objects that NewType makes have no common type of their own."""

KINDS: tuple[Kind, ...] = (Number, NewNumber, RingName, SmemName, TmemName, MapName, PointerName)


def uses(step: Step) -> Iterator[tuple[Kind, str]]:
    """(kind, name) of everything that the step names, field by field, the numbers that it makes included."""
    for field, hint, is_name in _named_fields(type(step)):
        value = getattr(step, field)
        if is_name and value is not None:
            yield hint, value
        else:
            yield from _names(hint, value)


def reads(step: Step) -> tuple[str, ...]:
    """Numbers that the step reads."""
    return tuple(name for kind, name in uses(step) if kind is Number)


@functools.cache
def _named_fields(kind: type[Step]) -> tuple[tuple[str, Kind, bool], ...]:
    """Fields of a class of steps that may name something, with their types, and whether each is one name.

    Those of every step name nothing.
    """
    hints = get_type_hints(kind)
    own = [name for name in kind.__struct_fields__ if name not in Step.__struct_fields__]
    return tuple((name, hints[name], hints[name] in KINDS) for name in own if _may_name(hints[name]))


def _may_name(hint: object) -> bool:
    """Whether a value of a type may have names in it."""
    return hint in KINDS or hint == IntExpr or any(map(_may_name, get_args(hint)))


def _names(hint: object, value: Any) -> Iterator[tuple[Kind, str]]:
    if value is None:
        return
    if hint in KINDS:
        yield hint, str(value)
    elif hint == IntExpr:
        yield from ((Number, name) for name in sorted(value.variables()))
    elif get_origin(hint) in (Union, types.UnionType):
        yield from _names(next(arm for arm in get_args(hint) if arm is not types.NoneType), value)
    elif get_origin(hint) is tuple:
        inner = get_args(hint)
        items: tuple[Any, ...] = value
        each = [inner[0]] * len(items) if inner[-1] is Ellipsis else inner
        for part, item in zip(each, items, strict=True):
            yield from _names(part, item)
