"""Records that hold Python's own types only: a numpy scalar compares, adds and prints well, and no JSON takes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

import msgspec

from convc.machine import launch
from convc.machine.launch import RunResult

PLAIN = (bool, int, float, str, bytes, type(None), msgspec.UnsetType)
"""What JSON has; and what it leaves out."""


def strangers(record: Any, where: str = "", arrays: tuple[str, ...] = ()) -> list[str]:
    """Places in a record, of any depth, whose type is not one of Python's or a record; ``arrays``: fields to skip."""
    if type(record) in PLAIN or isinstance(record, Enum | PurePath):
        return []
    inner = list(_parts(record))
    if not inner and not isinstance(record, Mapping | tuple | list | frozenset | set) and not _is_record(record):
        return [f"{where}: {type(record).__module__}.{type(record).__name__}"]
    return [found for name, part in inner if name not in arrays for found in strangers(part, f"{where}.{name}", arrays)]


def _is_record(record: Any) -> bool:
    return dataclasses.is_dataclass(record) or isinstance(record, msgspec.Struct)


def _parts(record: Any) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(record):
        yield from ((field.name, getattr(record, field.name)) for field in dataclasses.fields(record))
    elif isinstance(record, msgspec.Struct):
        yield from ((name, getattr(record, name)) for name in record.__struct_fields__)
    elif isinstance(record, Mapping):
        for key, value in record.items():
            yield from (("key", key), (str(key), value))
    elif isinstance(record, tuple | list | set | frozenset):
        yield from ((str(index), value) for index, value in enumerate(record))


def watch(monkeypatch: Any) -> None:
    """From now on, every launch that the simulator runs must leave a plain record, its buffers apart."""
    perform = launch._run

    def run(*args: Any, **options: Any) -> tuple[RunResult, Any]:
        result, memory = perform(*args, **options)
        assert strangers(result, "result", ("buffers",)) == []
        return result, memory

    monkeypatch.setattr(launch, "_run", run)
