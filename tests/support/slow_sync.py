"""The rules of mbarriers and CTA barriers, thread by thread: slow, in any order, and without a vector in sight.

A thread is a list of steps; `interpret` runs all threads of a CTA in an order drawn at random. A program whose steps
order its accesses gives the same values in every order (PTX manual, "mbarrier", "bar, barrier").
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

MASK = 0xFFFFFFFF


class Step(NamedTuple):
    """One step of a thread.

    Attributes:
        name: ``store`` (the value, to the thread's own word), ``load`` (value = 3 value + word ``a``), ``add`` a,
            ``arrive``, ``drop``, ``expect`` and ``complete`` (at mbarrier ``a`` with amount ``b``), ``wait`` and
            ``test`` (of mbarrier ``a`` for the phase of parity ``b``), ``sync`` (at CTA barrier ``a``, ``b`` threads).
        a, b: its operands.
    """

    name: str
    a: int = 0
    b: int = 0


@dataclass
class Counted:
    """An mbarrier."""

    expected: int
    pending: int = field(init=False)
    tx: int = 0
    phase: int = 0

    def __post_init__(self) -> None:
        self.pending = self.expected

    def change(self, arrivals: int, tx: int) -> None:
        """Bytes first, then arrivals; the phase completes when both are in."""
        self.tx += tx
        self._complete()
        if arrivals:
            assert arrivals <= self.pending, "more arrivals than the phase has left"
            self.pending -= arrivals
            self._complete()

    def _complete(self) -> None:
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.pending = self.expected


class Hang(Exception):
    """No thread can go on."""


def interpret(programs: list[list[Step]], counts: dict[int, int], order: random.Random) -> list[int]:
    """The values of all threads in the end.

    Args:
        programs: the steps of each thread.
        counts: of the mbarriers, by their number.
        order: chooses who goes on.
    """
    barriers = {number: Counted(count) for number, count in counts.items()}
    values = [0] * len(programs)
    words = [0] * len(programs)
    at = [0] * len(programs)
    met: dict[int, list[int]] = {}
    running = [t for t, program in enumerate(programs) if program]
    while running:
        ready = [t for t in running if _free(programs[t][at[t]], t, barriers, met)]
        if not ready:
            raise Hang
        t = order.choice(ready)
        step = programs[t][at[t]]
        match step.name:
            case "store":
                words[t] = values[t]
            case "load":
                values[t] = (3 * values[t] + words[step.a]) & MASK
            case "add":
                values[t] = (values[t] + step.a) & MASK
            case "arrive":
                barriers[step.a].change(step.b, 0)
            case "drop":
                barriers[step.a].expected -= step.b
                barriers[step.a].change(step.b, 0)
            case "expect":
                barriers[step.a].change(0, step.b)
            case "complete":
                barriers[step.a].change(0, -step.b)
            case "test":
                values[t] = (2 * values[t] + (barriers[step.a].phase % 2 != step.b)) & MASK
            case "sync":
                there = met.setdefault(step.a, [])
                there.append(t)
                if len(there) < step.b:
                    running.remove(t)
                    continue
                met[step.a] = []
                for other in there:
                    at[other] += 1
                    if other != t:
                        running.append(other)
                running = [u for u in running if at[u] < len(programs[u])]
                continue
        at[t] += 1
        if at[t] == len(programs[t]):
            running.remove(t)
    if any(met.values()):
        raise Hang
    return values


def _free(step: Step, thread: int, barriers: dict[int, Counted], met: dict[int, list[int]]) -> bool:
    """Whether a thread may take its next step."""
    return step.name != "wait" or barriers[step.a].phase % 2 != step.b
