"""Machine code as the disassembler prints it: instructions with their control codes and the PTX lines they come from.

An instruction is 128 bits. Bits 105 to 125 say how it is issued: four bits of cycles until the next one may follow, a
yield hint, the number of a scoreboard that its result releases and of one that the reading of its operands releases (7:
none), and a mask of the six scoreboards that it waits for (layout as in published disassemblers since Volta; chains
whose cycles an H200 measured take the sum of their stall counts).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from convc.errors import ToolError

STEP = 16
"""Bytes of an instruction."""

NO_SCOREBOARD = 7

TENSOR = ("UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA", "UTCMXQMMA", "UTCCP", "UTCSHIFT", "UTCBAR", "UTMALDG", "UTMASTG",
          "UTMAREDG", "UBLKCP", "UBLKRED")  # fmt: skip
"""Instructions that one lane issues for all; operands in other registers than uniform ones need a loop over lanes."""

_SECTION = re.compile(r"\.section\s+\.text\.([^\s,]+)")
_LINE = re.compile(r'//## File ".*?", line (\d+)')
_LABEL = re.compile(r"^(\.L_x_\d+):")
_INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s+/\* 0x([0-9a-f]{16}) \*/")
_UPPER = re.compile(r"^\s+/\* 0x([0-9a-f]{16}) \*/")
_GUARD = re.compile(r"^@!?(\w+)\s+")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sass:
    """One machine instruction.

    Attributes:
        opcode: with its modifiers, as ``UTMALDG.4D.IM2COL``.
        line: of the PTX text that it comes from, from 1; 0 where the table does not say.
        target: number of the instruction that it may jump to.
        ends: nothing follows behind it: an exit, a return, or a jump without a condition.
        stall: cycles until the next instruction of the warp may issue.
        result: scoreboard that is released when its result is there. operands: when its operands have been read.
        waits: scoreboards that must have been released before it issues.
    """

    opcode: str
    line: int
    target: int | None
    ends: bool
    stall: int
    result: int | None
    operands: int | None
    waits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LaneLoop:
    """A loop over lanes around an instruction that one lane issues.

    Attributes:
        line: of the PTX text. opcode: of the instruction. cycles: of one turn, by its stall counts.
    """

    line: int
    opcode: str
    cycles: int


def read_sass(listing: str, entry: str) -> tuple[Sass, ...]:
    """The instructions of an entry, from ``nvdisasm -c -hex -gp``.

    Raises:
        ToolError: the entry is not in the listing, or its lines are not what this reader knows.
    """
    rows = list(_rows(listing, entry))
    if not rows:
        raise ToolError(f"the disassembler shows no code of {entry!r}")
    labels = {label: number for number, (_, _, _, names) in enumerate(rows) for label in names}
    return tuple(_instruction(text, word, line, labels) for text, word, line, _ in rows)


def _rows(listing: str, entry: str) -> Iterator[tuple[str, int, int, tuple[str, ...]]]:
    """Text, upper half of the encoding, line and labels of each instruction of an entry."""
    inside = False
    line = 0
    names: list[str] = []
    held: str | None = None
    for text in listing.splitlines():
        if section := _SECTION.search(text):
            inside = section[1] == entry
        elif not inside:
            continue
        elif held is not None:
            upper = _UPPER.match(text)
            if upper is None:
                raise ToolError(f"the disassembler writes no second half of {held!r}")
            yield held, int(upper[1], 16), line, tuple(names)
            names.clear()
            held = None
        elif found := _LINE.search(text):
            line = int(found[1])
        elif label := _LABEL.match(text):
            names.append(label[1])
        elif instruction := _INSTRUCTION.match(text):
            held = instruction[2]


def _instruction(text: str, word: int, line: int, labels: dict[str, int]) -> Sass:
    """An instruction of its text and the upper half of its encoding."""
    guard = _GUARD.match(text)
    body = text[guard.end() :] if guard else text
    opcode = body.split(None, 1)[0]
    named = _TARGET.search(body)
    jumps = opcode.startswith(("BRA", "BRX", "JMP"))
    conditional = guard is not None or re.match(r"\S+ !?U?P\d", body) is not None or ".DIV" in opcode
    control = word >> 41
    result = control >> 5 & 7
    operands = control >> 8 & 7
    return Sass(
        opcode=opcode,
        line=line,
        target=labels.get(named[1]) if jumps and named else None,
        ends=not conditional and (jumps or opcode.startswith(("EXIT", "RET"))),
        stall=control & 15,
        result=None if result == NO_SCOREBOARD else result,
        operands=None if operands == NO_SCOREBOARD else operands,
        waits=tuple(number for number in range(6) if control >> (11 + number) & 1),
    )


def lane_loops(code: Sequence[Sass]) -> tuple[LaneLoop, ...]:
    """The loops over lanes in a kernel's code: a jump back while any lane is left, around a tensor instruction."""
    found: list[LaneLoop] = []
    for number, one in enumerate(code):
        if one.target is None or one.target > number or ".ANY" not in one.opcode:
            continue
        body = code[one.target : number + 1]
        cycles = sum(each.stall for each in body)
        found += [
            LaneLoop(each.line, each.opcode.partition(".")[0], cycles)
            for each in body
            if each.opcode.startswith(TENSOR)
        ]
    return tuple(found)
