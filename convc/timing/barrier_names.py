"""The names of mbarriers, as comments behind the instructions that make them say them.

``// full_a[0]`` names one. Where lanes make a barrier each, ``// full[0:4], empty[0:4]`` names those of all lanes in
order: from the first number of a ring on, the last not included.
"""

from __future__ import annotations

import functools
import re

ONE = re.compile(r"//\s*([A-Za-z_]\w*(?:\[\d+\])?)\s*$")

RANGE = r"[A-Za-z_]\w*\[\d{1,4}:\d{1,4}\]"
RANGES = re.compile(rf"//\s*({RANGE}(?:,\s*{RANGE})*)\s*$")

MBARRIER_BYTES = 8
"""PTX, mbarrier: an opaque object of 64 bits."""

LANES = 32


@functools.lru_cache(maxsize=256)
def names_in(line: str) -> tuple[str, ...]:
    """The names that a line gives the barriers of its lanes, as many as a warp has at most; none where it has none.

    Args:
        line: of PTX, with its comment. It may be anybody's: what it says is never computed with beyond the lanes.
    """
    one = ONE.search(line)
    if one is not None:
        return (one[1],)
    several = RANGES.search(line)
    if several is None:
        return ()
    names: list[str] = []
    for ring in several[1].split(","):
        name, first, end = re.split(r"[\[:\]]", ring.strip())[:3]
        names += [f"{name}[{index}]" for index in range(int(first), min(int(end), int(first) + LANES))]
    return tuple(names[:LANES])


class BarrierNames:
    """Says which of an instruction's barriers lies at an address: they lie behind each other, the first one first."""

    def __init__(self) -> None:
        self._first: dict[tuple[int, int], int] = {}

    def called(self, line: str, instr: int, row: int, address: int) -> str | None:
        """The name of a barrier that an instruction makes in a CTA; None where its line says none.

        Args:
            line: of the instruction. instr: its number.
            row: the CTA. address: shared address of the barrier.
        """
        names = names_in(line)
        if len(names) == 1:
            return names[0]
        lane = (address - self._first.setdefault((instr, row), address)) // MBARRIER_BYTES
        return names[lane] if 0 <= lane < len(names) else None
