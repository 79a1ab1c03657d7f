"""The line between a host program and convc: frames over a Unix socket (the other end is libcuda.c).

A question is a header (what: u32, numbers: u32, bytes: u64), its numbers (u64 each) and its bytes; an answer has a
result of the driver API (i32) in place of what is asked. All little endian.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import BinaryIO

from convc.errors import InputError

HEAD = struct.Struct("<IIQ")
ANSWER = struct.Struct("<iIQ")

MOST_NUMBERS = 256
MOST_BYTES = 256 << 20
"""A question that is larger is none: kernels are the largest there are."""


class What(enum.IntEnum):
    """Kinds of questions, in the order of libcuda.c."""

    HELLO = 0
    DEVICE = 1
    ALLOC = 2
    FREE = 3
    LOAD = 4
    KERNEL = 5
    GLOBAL = 6
    NAMES = 7
    GET = 8
    SET = 9
    LAUNCH = 10
    OCCUPANCY = 11
    ENCODE = 12
    ERROR = 13
    MISSING = 14


@dataclass(frozen=True, slots=True)
class Question:
    """One call that the program makes: its numbers, and its bytes."""

    what: What
    numbers: tuple[int, ...]
    data: bytes

    @property
    def text(self) -> str:
        """The bytes as a name."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Answer:
    """A result of the driver API, 0 for success, and what goes with it."""

    result: int = 0
    numbers: tuple[int, ...] = ()
    data: bytes = b""

    def packed(self) -> bytes:
        """The frame."""
        words = struct.pack(f"<{len(self.numbers)}Q", *(number & (1 << 64) - 1 for number in self.numbers))
        return ANSWER.pack(self.result, len(self.numbers), len(self.data)) + words + self.data


def read_question(stream: BinaryIO) -> Question | None:
    """The next question; None where the program has gone.

    Raises:
        InputError: what comes is no question.
    """
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    what, count, size = HEAD.unpack(head)
    if what >= len(What) or count > MOST_NUMBERS or size > MOST_BYTES:
        raise InputError(f"protocol error of the program's stand-in library: {what}, {count} numbers, {size} bytes")
    words = stream.read(8 * count)
    data = stream.read(size)
    if len(words) < 8 * count or len(data) < size:
        return None
    return Question(What(what), struct.unpack(f"<{count}Q", words), data)
