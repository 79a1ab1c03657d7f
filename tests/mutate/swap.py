"""A changed file in a process that has imported it: the code of its functions becomes another where they stand.

Whoever took a function by name holds the same object, so that all of them see the change. What an import has run
(constants, defaults, bodies of classes) cannot be changed afterwards: such a change is not made at all.
"""

from __future__ import annotations

import functools
import gc
import inspect
from collections import Counter
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

OURS = ("convc", "support", "test_")
"""Beginnings of the modules whose caches are emptied."""

Place = tuple[str, str, int]
"""File, qualified name and first line of a function's code."""


def swapped(path: str, before: str, after: str) -> bool:
    """Let functions of a file that was imported with one text do what another says; False where that is not enough."""
    changed = changes(compile(before, path, "exec"), compile(after, path, "exec"))
    if changed is None:
        return False
    gc.unfreeze()
    functions = [thing for thing in gc.get_objects() if type(thing) is FunctionType]
    found = [(function, changed[place_of(function.__code__)]) for function in functions
             if place_of(function.__code__) in changed]  # fmt: skip
    if not found or any(len(code.co_freevars) != len(function.__code__.co_freevars) for function, code in found):
        return False
    for function, code in found:
        function.__code__ = code
    return True


def empty_caches() -> None:
    """Forget what functions of ours have kept: a changed one may have another answer."""
    for cache in caches(OURS):
        cache.cache_clear()


def caches(modules: str | tuple[str, ...]) -> list[functools._lru_cache_wrapper[Any]]:
    """The functions that keep what they have answered, of modules whose names begin so."""
    kept = [thing for thing in gc.get_objects() if isinstance(thing, functools._lru_cache_wrapper)]
    return [thing for thing in kept if str(thing.__module__).startswith(modules)]


def changes(before: CodeType, after: CodeType) -> dict[Place, CodeType] | None:
    """Place of each function whose code differs -> its code now; None where what an import runs differs."""
    if _own(before) != _own(after) or len(_inside(before)) != len(_inside(after)):
        return None
    found: dict[Place, CodeType] = {}
    for one, other in zip(_inside(before), _inside(after), strict=True):
        if _all(one) == _all(other):
            continue
        if _is_function(one):
            found |= _functions(one, other)
            continue
        deeper = changes(one, other)
        if deeper is None:
            return None
        found |= deeper
    counts = Counter(place_of(code) for code in _everything(before))
    return None if any(counts[place] > 1 for place in found) else found


def _functions(before: CodeType, after: CodeType) -> dict[Place, CodeType]:
    """A function and those that it makes, as far as they differ."""
    found = {place_of(before): after}
    inside, others = _inside(before), _inside(after)
    if len(inside) == len(others):
        for one, other in zip(inside, others, strict=True):
            if _all(one) != _all(other):
                found |= _functions(one, other)
    return found


def imported_lines(text: str) -> set[int]:
    """The lines that an import runs: those outside of functions."""
    return set(_lines(compile(text, "m", "exec")))


def _lines(code: CodeType) -> Iterator[int]:
    if _is_function(code):
        return
    yield from (line for _, _, line in code.co_lines() if line)
    for inner in _inside(code):
        yield from _lines(inner)


def _is_function(code: CodeType) -> bool:
    """Whether it is run later than where it stands: a class and a comprehension are not."""
    at_once = code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and not at_once


def place_of(code: CodeType) -> Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _everything(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in _inside(code):
        yield from _everything(inner)


def _inside(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _own(code: CodeType) -> tuple[object, ...]:
    """What a code does itself, whatever the functions that are in it do."""
    constants = [(type(c), repr(c)) for c in code.co_consts if not isinstance(c, CodeType)]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, constants


def _all(code: CodeType) -> tuple[object, ...]:
    return (*_own(code), *(_all(inner) for inner in _inside(code)))
