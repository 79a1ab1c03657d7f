"""The reasons for the way in which a kernel is launched: one sentence for each choice."""

from __future__ import annotations

import msgspec


class Reasons(msgspec.Struct, frozen=True, kw_only=True):
    """Sentences, each for one choice of a launch or against it; empty where it was not open.

    A new choice has its field here, its sentence from who makes it (`convc.compiler.planner.launch`) and its line
    in ``convc inspect``.

    Attributes:
        walk: whether CTAs are persistent.
        pairs: whether the tensor cores of two CTAs multiply as one.
        split: how many CTAs share the K loop of a tile.
        multicast: whether the CTAs of a cluster load for each other.
        registers: whether warps that load hand registers over to those that multiply.
    """

    walk: str = ""
    pairs: str = ""
    split: str = ""
    multicast: str = ""
    registers: str = ""
