"""What is fuzzed: a subject makes cases of a seed, says what is wrong with one, makes it smaller, writes it down."""

from __future__ import annotations

import random
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from convc.errors import ConvcError

Case = dict
"""Plain data, as JSON has it."""

MOST_STEPS = 120
"""Smaller cases that are tried of one that was found."""


class Subject(Protocol):
    """Something that is fuzzed."""

    def case(self, rng: random.Random) -> Case:
        """A case."""
        ...

    def check(self, case: Case) -> None:
        """Return where all is well; an error of convc's own is an answer too; any other is a finding."""
        ...

    def smaller(self, case: Case) -> Iterator[Case]:
        """Cases that have less than this one, the smallest first."""
        ...

    def write(self, case: Case, folder: Path) -> None:
        """Write down what reproduces it."""
        ...


def wrong_with(subject: Subject, case: Case) -> str | None:
    """What is wrong, as a text whose last line is the error; None where the answer is a right or a clean one."""
    try:
        subject.check(case)
    except (ConvcError, KeyboardInterrupt):
        return None
    except BaseException:
        return traceback.format_exc(limit=-6)
    return None


def kind_of(said: str) -> str:
    """The type of an error and the place that raised it: what must stay while a case is made smaller."""
    lines = [line for line in said.splitlines() if line.strip()]
    where = next((line.split(", in ")[-1] for line in reversed(lines) if line.startswith("  File")), "")
    return f"{lines[-1].partition(':')[0]} in {where}"


def minimise(subject: Subject, case: Case, said: str) -> tuple[Case, str]:
    """The smallest case found that goes wrong in the same way, and what it says."""
    kind = kind_of(said)
    steps = 0
    going = True
    while going:
        going = False
        for candidate in subject.smaller(case):
            steps += 1
            if steps > MOST_STEPS:
                return case, said
            found = wrong_with(subject, candidate)
            if found is not None and kind_of(found) == kind:
                case = candidate
                said = found
                going = True
                break
    return case, said
