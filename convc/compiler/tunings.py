"""Tuning records: of a problem and its options, which kernel was fastest where its candidates were measured.

They are kept in the compile cache, in one entry for each problem and options, with a row for each GPU: the row that was
written last is taken. The name of an entry does not depend on the version of convc, as a choice outlives the text of
its kernel.
"""

from __future__ import annotations

import dataclasses
import hashlib

import msgspec

from convc.compiler.options import ScheduleOptions
from convc.ir.problem import ConvProblem
from convc.ir.tuned import Tuned
from convc.support.cache import KernelCache

MOST_DEVICES = 20
"""Rows of an entry; the oldest go."""


class TuningRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A problem under the name of its kernel, the options that were given, and what was measured."""

    problem: ConvProblem
    options: ScheduleOptions
    tuned: Tuned


class Tunings:
    """The records in a compile cache.

    Whoever only looks for one makes no database where there is none.
    """

    def __init__(self, cache: KernelCache) -> None:
        self.cache = cache
        self._known: dict[str, Tuned | None] = {}

    def find(self, problem: ConvProblem, options: ScheduleOptions) -> Tuned | None:
        """The record of a problem, under the name of its kernel; None where none is to be taken.

        Of several that which was kept last, those of GPUs before those of the timing engine.
        """
        if options.tuned == "off" or options.timed:
            return None
        key = _key(problem, options)
        if key not in self._known:
            self._known[key] = next(iter(sorted(self._rows(key), key=lambda row: row.by == "engine")), None)
        return self._known[key]

    def of_device(self, problem: ConvProblem, options: ScheduleOptions, device: str, by: str) -> Tuned | None:
        """The record of a problem on a GPU, or of the engine; None where there is none."""
        rows = self._rows(_key(problem, options))
        return next((row for row in rows if (row.device, row.by) == (device, by)), None)

    def keep(self, record: TuningRecord) -> None:
        """Keep a record, in place of the one of its GPU, and in front of those of others."""
        tuned = record.tuned
        key = _key(record.problem, record.options)
        others = [row for row in self._rows(key) if (row.device, row.by) != (tuned.device, tuned.by)]
        self.cache.put(key, msgspec.msgpack.encode([tuned, *others[: MOST_DEVICES - 1]]))
        self._known.pop(key, None)

    def _rows(self, key: str) -> list[Tuned]:
        """The rows of an entry; none where there is none, or it is damaged."""
        if not (self.cache.folder / "cache.db").exists():
            return []
        kept = self.cache.get(key)
        if kept is None:
            return []
        try:
            return msgspec.msgpack.decode(kept, type=list[Tuned])
        except msgspec.MsgspecError:
            return []


def _key(problem: ConvProblem, options: ScheduleOptions) -> str:
    """The name of an entry: SHA-256 of the problem and of all options but the one that says whether to look."""
    asked = msgspec.json.encode(("tuning", problem, dataclasses.replace(options, tuned="auto")))
    return hashlib.sha256(asked).hexdigest()
