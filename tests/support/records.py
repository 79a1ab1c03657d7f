"""Records with other values in some fields, whether they are dataclasses or structs of msgspec."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import msgspec

Record = TypeVar("Record")


def replace(record: Record, /, **changes: Any) -> Record:
    """A copy of a record with these fields changed."""
    change: Any = msgspec.structs.replace if isinstance(record, msgspec.Struct) else dataclasses.replace
    return change(record, **changes)
