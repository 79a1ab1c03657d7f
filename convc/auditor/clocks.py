"""Clocks of warps: all that one may rely on as done, as numbers by kind and owner.

Every warp counts what it does. What it knows of others comes with synchronisation: an mbarrier phase, a CTA barrier or
a cluster barrier carries what those who arrived knew to those who wait. Knowledge that needs a fence besides has kinds
of its own, which the fence makes of the plain one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Kind = Literal["did", "fenced", "handed", "took", "issued", "finished", "phase", "read", "runs", "made", "multiplied"]
"""Kinds of knowledge of a warp (the second part of a key is the warp, or what is said):

did: it has done so much. fenced: so much of it that a proxy fence stands behind. handed: so much, with a
``tcgen05.fence::before_thread_sync`` behind. took: that, with an ``::after_thread_sync`` here. issued: so many
asynchronous tcgen05 instructions of it are complete. finished: that, with an ``::after_thread_sync`` here.
phase: so many phases of an mbarrier are over. read: so many bulk groups of it have read their memory. runs: a CTA runs.
made: mbarriers that it initialised so far are fenced. multiplied: so many wgmma groups of it are complete.
"""

Key = tuple[str, object]
Clock = dict[Key, int]

LOCAL = ("took", "finished")
"""Kinds that a warp has to get for itself."""

RELAXED = ("runs", "made")
"""Kinds that synchronisation without release carries too."""


def join(into: Clock, other: Mapping[Key, int]) -> None:
    """Know what another knows."""
    for key, number in other.items():
        if number > into.get(key, 0) and key[0] not in LOCAL:
            into[key] = number


def join_relaxed(into: Clock, other: Mapping[Key, int]) -> None:
    """Know what comes without a release: that others run, and their fenced initialisations."""
    for key, number in other.items():
        if key[0] in RELAXED and number > into.get(key, 0):
            into[key] = number


def proxy_fence(clock: Clock) -> None:
    """All that is known to have been done lies before a proxy fence."""
    for key, number in list(clock.items()):
        if key[0] == "did" and number > clock.get(("fenced", key[1]), 0):
            clock["fenced", key[1]] = number


def after_fence(clock: Clock) -> None:
    """Let tcgen05 instructions behind this use all that was handed over, and all that is complete."""
    for key, number in list(clock.items()):
        if key[0] == "handed":
            clock["took", key[1]] = number
        elif key[0] == "issued":
            clock["finished", key[1]] = number
