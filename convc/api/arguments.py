"""Checks of arguments of the verbs, before any work: a wrong type is named, with what was expected in its place."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from convc.errors import InputError

RecordT = TypeVar("RecordT")


def given_options(record: RecordT | None, kind: type[RecordT], argument: str) -> RecordT:
    """A record of options, the default one for None; `InputError` where it is no such record, or has a wrong field."""
    if record is None:
        return kind()
    if not isinstance(record, kind):
        raise wrong_type(argument, f"a {kind.__name__}", record, hint=f"write {argument}=convc.{kind.__name__}(...)")
    for name, hint in _hints(kind).items():
        value = getattr(record, name)
        if not _fits(value, hint):
            raise wrong_type(f"{kind.__name__}.{name}", _spelled(hint), value)
    return record


def file_or(value: object, others: tuple[type, ...], argument: str, expected: str) -> None:
    """Raise `InputError` for an argument that is neither the name of a file or folder nor of ``others``."""
    if isinstance(value, type) or not isinstance(value, (str, Path, *others)):
        raise wrong_type(argument, expected, value)
    if isinstance(value, str | Path) and "\0" in str(value):
        raise InputError(f"{argument}: a file name cannot contain a null character, got {str(value)!r}")


def file_name(value: object, argument: str) -> None:
    """Raise `InputError` for what is no name of a file or folder; None is none that is wanted."""
    if value is not None:
        file_or(value, (), argument, "the name of a file or folder")


def by_name(value: object, argument: str, expected: str) -> None:
    """Raise `InputError` for what is no mapping by name; None is an empty one. ``expected``: what it maps to."""
    if value is not None and not isinstance(value, Mapping):
        raise wrong_type(argument, f"a dict of {expected} by name", value)


def array_or_file(value: object, argument: str) -> None:
    """Raise `InputError` for what is neither an array nor the name of a file."""
    if isinstance(value, list | tuple | int | float):
        hint = "convert it: np.asarray(x, np.float32)"
        raise wrong_type(argument, "an array or the name of a .npy file", cast("object", value), hint=hint)
    file_or(value, (np.ndarray,), argument, "an array or the name of a .npy file")


def whole(value: object, argument: str, least: int = 0) -> int:
    """A whole number of at least ``least``; `InputError` for anything else."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # pyright: ignore[reportArgumentType] - that it may not be one is the question
    except TypeError:
        raise wrong_type(argument, "a whole number", value) from None
    if number < least:
        raise InputError(f"{argument} must be at least {least}, got {number}")
    return number


def layer_names(value: object) -> None:
    """Raise `InputError` for what is no name of a layer and no sequence of names."""
    if value is None or isinstance(value, str):
        return
    several = isinstance(value, Iterable) and not isinstance(value, bytes)
    if not several or not all(isinstance(name, str) for name in cast("Iterable[object]", value)):
        raise wrong_type("layer", "the name of a layer, or several", cast("object", value))


def wrong_type(argument: str, expected: str, value: object, hint: str = "") -> InputError:
    """The error for an argument of a wrong type."""
    got = f"the class {value.__name__}" if isinstance(value, type) else f"{type(value).__name__} {_short(value)}"
    return InputError(f"{argument} must be {expected}, got {got}", hint=hint)


def _short(value: object) -> str:
    """The beginning of what something looks like, in one line."""
    shown = " ".join(repr(value).split())
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


@cache
def _hints(kind: type) -> dict[str, Any]:
    """The types of a record's fields; a pool, which is large to import, counts as anything."""
    # Imported here because records that name an executor are rarely looked at.
    from concurrent.futures import Executor

    known = get_type_hints(kind, localns={"Pool": object, "Executor": Executor})
    return {field.name: known[field.name] for field in fields(kind)}


def _fits(value: object, hint: Any) -> bool:
    """Whether a value has a type, or one of several."""
    return any(_is(value, each) for each in _choices(hint))


def _choices(hint: Any) -> tuple[Any, ...]:
    """The types that a hint lets a value have."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is(value: object, kind: Any) -> bool:
    """Whether a value has a type, which is no union."""
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(
            _fits(each, get_args(kind)[0]) for each in cast("tuple[object, ...]", value)
        )
    if get_origin(kind) is Callable:
        return callable(value)
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if isinstance(value, bool):
        return kind in (bool, object)
    return not isinstance(kind, type) or isinstance(value, (int, float) if kind is float else kind)


def _spelled(hint: Any) -> str:
    words = {
        NoneType: "None",
        int: "a whole number",
        float: "a number",
        str: "a text",
        bool: "True or False",
        Path: "a path",
    }
    spelled: list[str] = []
    for each in _choices(hint):
        if get_origin(each) is Literal:
            spelled += map(repr, get_args(each))
        elif each is not object:
            spelled.append("a tuple of texts" if get_origin(each) is tuple else words.get(each, "a function"))
    return " or ".join(spelled)
