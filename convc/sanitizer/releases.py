"""Releases and acquires of clusters: how widely each has told others of what it wrote, and heard of what they wrote.

Clusters are not followed step by step (`convc.sanitizer.cross_cluster`). But a write of one cluster can come before an
access of another one only if a thread of the first has a release behind it, and a thread of the second an acquire ahead
of it, whose scope holds the other thread: ``.gpu`` or ``.sys`` (PTX manual, "Memory Consistency Model", "Scope",
"Causality MemoryOrder"). Where those that there are say ``.cta`` or ``.cluster``, their scope is too narrow.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from convc.machine.isa.all import forms_with
from convc.machine.isa.registry import Traits
from convc.ptx import Instr
from convc.sanitizer.strength import SCOPES, strength_of

FENCES = forms_with(Traits.FENCE)

WIDEST = ("gpu", "sys")
LEVELS = {"cta": "cta", "gl": "gpu", "sys": "sys"}
"""Scopes of membar by its level."""


class MemoryOrder(NamedTuple):
    """The order that an instruction makes for others: its scope, whether it releases, whether it acquires."""

    scope: str
    release: bool
    acquire: bool

    @property
    def widest(self) -> bool:
        """Whether other clusters are held."""
        return self.scope in WIDEST


def order_of(instr: Instr) -> MemoryOrder | None:
    """The order that a fence, or an access with one, makes in global memory; None where it makes none."""
    if instr.form.name in FENCES:
        level = instr.slots.get("level")
        return _fence(instr.mods, LEVELS.get(str(level)))
    strength = strength_of(instr)
    if strength is None or not (strength.release or strength.acquire) or _shared(instr):
        return None
    return MemoryOrder(strength.scope, strength.release, strength.acquire)


def _shared(instr: Instr) -> bool:
    return str(instr.slots.get("space")).startswith("shared")


@lru_cache(maxsize=64)
def _fence(mods: tuple[str, ...], level: str | None) -> MemoryOrder:
    """A fence by its modifiers; one without .acquire or .release is both."""
    scope = level or next(mod for mod in mods if mod in SCOPES)
    return MemoryOrder(scope, "acquire" not in mods, "release" not in mods)


class Releases:
    """Counts of how often clusters have released and acquired for other clusters, and how often before each access.

    Attributes:
        released, acquired: by cluster, so far. narrow: instructions that did so for less, by whether they release, with
            the clusters that have executed them.
        first: of each access, how often its cluster had released before the first time; -1: there is none.
        last: how often it had acquired before the last time.
    """

    def __init__(self, clusters: int) -> None:
        self.clusters = clusters
        self.released = np.zeros(clusters, np.int32)
        self.acquired = np.zeros(clusters, np.int32)
        self.narrow: dict[tuple[bool, int], tuple[Instr, np.ndarray]] = {}
        self.first: dict[int, np.ndarray] = {}
        self.last: dict[int, np.ndarray] = {}

    def order(self, instr: Instr, order: MemoryOrder, clusters: np.ndarray) -> None:
        """Clusters execute such an instruction."""
        for told, count in ((True, self.released), (False, self.acquired)):
            if not (order.release if told else order.acquire):
                continue
            if order.widest:
                count[clusters] += 1
            else:
                key = told, instr.index
                if key not in self.narrow:
                    self.narrow[key] = instr, np.zeros(self.clusters, bool)
                self.narrow[key][1][clusters] = True

    def access(self, instr: Instr, clusters: np.ndarray) -> None:
        """Clusters access memory."""
        first = self.first.get(instr.index)
        if first is None:
            first = self.first[instr.index] = np.full(self.clusters, -1, np.int32)
            self.last[instr.index] = np.zeros(self.clusters, np.int32)
        fresh = clusters[first[clusters] < 0]
        first[fresh] = self.released[fresh]
        self.last[instr.index][clusters] = self.acquired[clusters]

    def too_narrow(self, one: tuple[Instr, int], other: tuple[Instr, int]) -> Instr | None:
        """An instruction whose scope should have been wider to order two accesses, in one way or the other."""
        missing = [self._missing(one, other), self._missing(other, one)]
        return None if None in missing else next((instr for each in missing for instr in each or ()), None)

    def _missing(self, one: tuple[Instr, int], other: tuple[Instr, int]) -> list[Instr] | None:
        """Releases and acquires that are too narrow to order ``one`` before ``other``; None: there are wide ones."""
        instr, cluster = one
        later, peer = other
        if instr.index not in self.first or later.index not in self.last:
            return None
        sides = (
            (True, cluster, self.released[cluster] > self.first[instr.index][cluster]),
            (False, peer, self.last[later.index][peer] > 0),
        )
        if all(wide for _, _, wide in sides):
            return None
        return [
            narrow
            for told, who, wide in sides
            if not wide
            for (release, _), (narrow, executed) in self.narrow.items()
            if release == told and executed[who]
        ]
