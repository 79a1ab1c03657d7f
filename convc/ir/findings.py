"""What a checker found: small records with a verdict.

A verdict is one of five words, from best to worst: ``clean`` (checked, nothing found), ``review`` (a person should
look), ``rule`` (the manual forbids it, and this run came out right), ``incomplete`` (not everything was checked; never
success) and ``error`` (this run is wrong or undefined, with evidence).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

Bounds = tuple[int, int]
"""First and last, both included."""


class Verdict(IntEnum):
    """How bad it is; comparable, worst is greatest."""

    clean = 0
    review = 1
    rule = 2
    incomplete = 3
    error = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """The memory that an access is about.

    Attributes:
        space: ``shared``, ``tensor`` or ``global``.
        buffer: name of the buffer in global memory, else None.
        runs: bytes that follow one another: shared addresses, or offsets in the buffer.
        lanes, columns: of tensor memory; columns count from the first of the allocation.
    """

    space: str
    buffer: str | None = None
    runs: tuple[Bounds, ...] = ()
    lanes: Bounds | None = None
    columns: Bounds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a CTA or an access of a convolution kernel works on; None: not known, or all that the CTA does.

    Attributes:
        pixels: first and last output pixel (n, p, q). k: output channels.
        c: input channels. r, s: filter tap.
    """

    pixels: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    k: Bounds | None = None
    c: Bounds | None = None
    r: Bounds | None = None
    s: Bounds | None = None

    def __str__(self) -> str:
        parts: list[str] = []
        if self.pixels is not None:
            axes = "(n, p, q)" if len(self.pixels[0]) == 3 else "(n, ...)"
            parts.append(f"outputs {axes} = {_range(*self.pixels)}")
        parts += [f"{name} = {_range(*bounds)}" for name in ("k", "c", "r", "s") if (bounds := getattr(self, name))]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where something happened, or who accessed what.

    Attributes:
        file, line: the PTX line that did it (line 0 when there is none).
        step: id of the tile step the instruction belongs to, or None.
        cta, warp: who did it, where known. lanes: of that warp; empty where it is not known.
        nth: how often that warp had made this access with this instruction before, or None.
        region: what was accessed, or None.
        place: in a convolution kernel, what this is part of.
    """

    file: str = ""
    line: int = 0
    step: str | None = None
    cta: int | None = None
    warp: int | None = None
    lanes: tuple[int, ...] = ()
    nth: int | None = None
    region: Region | None = None
    place: Place | None = None

    @property
    def who(self) -> str:
        """CTA, warp and lanes, for people."""
        known = [f"{name} {value}" for name, value in (("CTA", self.cta), ("warp", self.warp)) if value is not None]
        if self.lanes:
            runs = ", ".join(_range(*run) for run in merged(self.lanes))
            known.append(f"lanes {runs}" if len(self.lanes) > 1 else f"lane {runs}")
        return ", ".join(known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Site):
    """One thing that a checker saw.

    Attributes:
        verdict: how bad it is.
        rule: short stable name, e.g. ``shared-memory-unwritten``.
        message: one sentence with the values involved.
        other: the other access of a race, or None.
    """

    verdict: Verdict
    rule: str
    message: str
    other: Site | None = None

    def __str__(self) -> str:
        at = f"{self.file}:{self.line}: " if self.line else ""
        text = f"{at}{self.verdict.name}[{self.rule}]: {self.message}{f' ({self.who})' if self.who else ''}"
        text += f" in step {self.step}" if self.step else ""
        text += f"; {self.place}" if self.place else ""
        if self.other is not None and self.other.who:
            elsewhere = self.other.place is not None and self.other.place != self.place
            text += f"; the other: {self.other.who}{f', {self.other.place}' if elsewhere else ''}"
        return text


def merged(numbers: tuple[int, ...], unit: int = 1) -> tuple[Bounds, ...]:
    """Ascending numbers, each of which stands for ``unit`` from it on, as runs."""
    runs: list[Bounds] = []
    for number in numbers:
        first = runs.pop()[0] if runs and runs[-1][1] + 1 == number else number
        runs.append((first, number + unit - 1))
    return tuple(runs)


def _range(first: object, last: object) -> str:
    return str(first) if first == last else f"{first}..{last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Findings that say the same of several places: of one rule, as bad, alike but for numbers and names.

    Attributes:
        example: the first of them. lines: where they are, in order.
    """

    example: Finding
    lines: tuple[int, ...]

    @property
    def count(self) -> int:
        """Give their number."""
        return len(self.lines)


_DIFFERS = re.compile(r"%[\w$]+|0x[0-9a-f]+|\d+(?:\.\.\d+)?(?:, \d+)*")
"""What differs between the messages of findings of one cause: registers and numbers."""


def grouped(findings: Iterable[Finding]) -> tuple[Group, ...]:
    """Findings by their cause, in the order of the first of each."""
    alike: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.file, finding.verdict, finding.rule, _DIFFERS.sub("#", finding.message))
        alike.setdefault(key, []).append(finding)
    return tuple(Group(example=found[0], lines=tuple(each.line for each in found)) for found in alike.values())


def worst(findings: Iterable[Finding]) -> Verdict:
    """The verdict of the worst finding; clean where there is none."""
    return max((finding.verdict for finding in findings), default=Verdict.clean)


class _Found(Protocol):
    @property
    def findings(self) -> Sequence[Finding]: ...


class Judged:
    """Verdict on something that has findings."""

    __slots__ = ()

    @property
    def verdict(self: _Found) -> Verdict:
        """The worst finding's verdict."""
        return worst(self.findings)

    @property
    def ok(self: _Found) -> bool:
        """Everything was checked, and nothing is wrong; there may be rules that were broken, and things to review."""
        return worst(self.findings) < Verdict.incomplete

    @property
    def by_the_manual(self: _Found) -> bool:
        """Nothing is wrong, and nothing is done that the manual forbids."""
        return worst(self.findings) < Verdict.rule
