"""The reasons for the way in which a kernel is launched: one sentence for each choice."""

from __future__ import annotations

import msgspec


class Reasons(msgspec.Struct, frozen=True, kw_only=True):
    """Sentences, each for one choice of a launch or against it; empty where it was not open.

    A new choice has its field here, its sentence where it is made (`convc.compiler.planner.launch`) and its line
    in ``convc inspect``.

    Attributes:
        persistent: whether CTAs are persistent.
        pairs: whether the tile has 2-CTA MMA.
        split: how many CTAs share the K loop of a tile.
        multicast: whether the CTAs of a cluster load for each other.
        registers: whether warps that load hand registers over to those that multiply.
    """

    persistent: str = ""
    pairs: str = ""
    split: str = ""
    multicast: str = ""
    registers: str = ""
