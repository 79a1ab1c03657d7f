"""Lines of source that the instructions of a PTX text were made from: ``.file`` and ``.loc`` (PTX manual, 11.6).

Compilers write ``.loc FILE LINE COLUMN`` in front of what a line became, and ``inlined_at FILE LINE COLUMN`` behind it
where a function was put in place of its call; Triton 3.5 says that in a comment alone. Line 0 is no line.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath

from convc.ir.findings import Finding, Site

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:[^/]*?\binlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_CALLER = re.compile(r"@\[ ([^:\]@]+):(\d+):(\d+)")
"""A call in a comment, by the name of its file without folders; the next one is that one's call."""
_SAID = re.compile(r"\bline (\d+)\b")
"""How messages name another line of the text."""

LIBRARY = "/triton/language/"
"""Where functions of Triton itself are: their caller is shown in place of them."""

Spot = tuple[str, int, int]
"""A file by its number, or by its name without folders; line and column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of a program.

    Attributes:
        file: its path, as the compiler was given it.
        line: counted from 1.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{PurePath(self.file).name}:{self.line}"


class SourceLines:
    """The lines of source of a PTX text."""

    def __init__(self, text: str) -> None:
        self._files: dict[str, str] = {}
        self._lines: list[int] = []
        self._spots: list[Spot] = []
        self._callers: dict[Spot, Spot] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if found := _FILE.match(line):
                # DWARF 5 has a folder and a name.
                path = f"{found[2]}/{found[3]}" if found[3] else found[2]
                self._files |= {found[1]: path, PurePath(path).name: path}
            elif found := _LOC.match(line):
                spot = (found[1], int(found[2]), int(found[3]))
                self._lines.append(number)
                self._spots.append(spot)
                self._note_callers(spot, found, line)

    def _note_callers(self, spot: Spot, found: re.Match[str], line: str) -> None:
        """Note the call that a line was put in place of, and the calls around it."""
        calls = [(call[1], int(call[2]), int(call[3])) for call in _CALLER.finditer(line)]
        if found[4]:
            calls = [(found[4], int(found[5]), int(found[6]))]
        for inner, outer in pairwise([spot, *calls]):
            self._callers[inner] = outer

    def at(self, line: int) -> SourceLine | None:
        """The line of source of a line of the text; None where the text says none."""
        for index in range(bisect.bisect_right(self._lines, line) - 1, -1, -1):
            spot = self._of_the_user(self._spots[index])
            if spot[1]:  # of instructions between two lines, the one before them is the nearest
                return SourceLine(file=self._files.get(spot[0], "?"), line=spot[1])
        return None

    def _of_the_user(self, spot: Spot) -> Spot:
        """The place itself, or the call of a library's function that it is inside of."""
        seen: set[Spot] = set()
        while LIBRARY in self._files.get(spot[0], "") and spot in self._callers and spot not in seen:
            seen.add(spot)
            spot = self._callers[spot]
        return spot


@functools.lru_cache(maxsize=16)
def source_lines(text: str) -> SourceLines:
    """The lines of source of a text, which are read once."""
    return SourceLines(text)


def with_source(findings: Iterable[Finding], text: str, file: str) -> tuple[Finding, ...]:
    """Findings at their lines of source, with the line of the text in their message.

    A finding whose instruction was made from no line stays at its line of ``file``.
    """
    lines = source_lines(text)
    return tuple(_placed(dataclasses.replace(finding, file=file), lines) for finding in findings)


def _placed(finding: Finding, lines: SourceLines) -> Finding:
    other = finding.other
    message = _SAID.sub(lambda said: _spelled(said, lines), finding.message)
    found = lines.at(finding.line) if finding.line else None
    if found is None:
        return dataclasses.replace(finding, message=message, other=other and _moved(other, lines))
    return dataclasses.replace(
        finding,
        file=found.file,
        line=found.line,
        message=message if _SAID.search(message) else f"{message} [PTX line {finding.line}]",
        other=other and _moved(other, lines),
    )


def _moved(site: Site, lines: SourceLines) -> Site:
    """Another access at its line of source."""
    found = lines.at(site.line) if site.line else None
    return site if found is None else dataclasses.replace(site, file=found.file, line=found.line)


def _spelled(said: re.Match[str], lines: SourceLines) -> str:
    """A line of the text that a message names, with its line of source in front."""
    found = lines.at(int(said[1]))
    return said[0] if found is None else f"{found}, PTX {said[0]}"
