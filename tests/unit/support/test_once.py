"""A property that is worked out once, for records that are frozen as well."""

from __future__ import annotations

import msgspec
import pytest

from convc.support.once import once


class Record(msgspec.Struct, frozen=True, dict=True):
    asked: list[int]

    @once
    def value(self) -> int:
        """What is asked for."""
        self.asked.append(1)
        return len(self.asked)


def test_it_is_worked_out_once_for_each_record():
    one, other = Record([]), Record([7])
    assert (one.value, one.value, other.value, one.asked) == (1, 1, 2, [1])
    assert Record.value.__doc__ == "What is asked for."


def test_what_fails_is_asked_again():
    class Fails(msgspec.Struct, frozen=True, dict=True):
        @once
        def value(self) -> int:
            raise LookupError

    record = Fails()
    for _ in range(2):
        with pytest.raises(LookupError):
            _ = record.value
