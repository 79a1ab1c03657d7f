"""Changes of kernels drawn at random, and what came of each: noticed, or the kind of its excuse."""

from __future__ import annotations

import random
import zlib
from collections import Counter

from sabotage_caught import caught, upheld
from sabotage_changes import Change, Sabotage
from sabotage_excuses import excuse
from sabotage_kernels import subject

KINDS = {
    "noticed": "a checker, the simulator, or who compares results",
    "same": "another text of the same kernel",
    "idle": "nothing depends on the instruction there: the auditor and more orders of what is asynchronous agree",
    "unseen": "a result or an order on hardware is another, and nobody says so",
    "unexplained": "nobody says so, and no excuse says why",
}
"""What may come of a change, and what that means."""


def drawn(name: str, count: int, seed: int = 0) -> list[Change]:
    """Some of a kernel's changes, always the same for a seed."""
    kernel = subject(name)
    changes = list(Sabotage(kernel.text, kernel.ours).changes())
    return random.Random(zlib.crc32(name.encode()) + seed).sample(changes, min(count, len(changes)))


def outcome(name: str, change: Change) -> str:
    """Say what came of a change, one of `KINDS`."""
    if caught(name, change.text):
        return "noticed"
    reason = excuse(change.what, subject(name).text)
    if reason is None:
        return "unexplained"
    if reason.unseen or reason.same:
        return "unseen" if reason.unseen else "same"
    return "idle" if upheld(name, change.text) else "unexplained"


def noticed_of(counts: Counter[str]) -> float:
    """Of the changes that alter a result or an order on hardware, the part that was noticed."""
    return counts["noticed"] / max(1, counts["noticed"] + counts["unseen"] + counts["unexplained"])
