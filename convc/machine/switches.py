"""Switches: rules that no public source settles, each with the reading we take by default.

A kernel whose result does not change under any setting does not depend on an open question. FIDELITY.md lists what is
known of each.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from convc.errors import LaunchError

CHOICES = {
    "shift_extent": ("all", "window"),
    "unpack_upper": ("keep", "zero"),
    "six_bit": ("low", "high"),
    "numerics": ("float32", "exact"),
}
"""Settings of every switch, the default first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """How to read what the manual leaves open.

    Attributes:
        shift_extent: lanes that a tcgen05.shift moves: in ``all`` four sub-partitions, or only in the 32-lane
            ``window`` of its address.
        unpack_upper: what ``tcgen05.st.unpack::16b`` makes of the upper half of a cell: ``keep`` or ``zero``.
        six_bit: where a 6-bit element lies in its byte of tensor memory: bits 5..0 (``low``) or 6..1 (``high``).
        numerics: how a floating tcgen05.mma adds: ``float32`` in an order of our own, many instructions at a time;
            or ``exact``, the one truncated sum per instruction that is measured on hardware (see `numerics`).
    """

    shift_extent: str = "all"
    unpack_upper: str = "keep"
    six_bit: str = "low"
    numerics: str = "float32"

    def __post_init__(self) -> None:
        for name in (f.name for f in fields(self)):
            if getattr(self, name) not in CHOICES[name]:
                raise LaunchError(
                    f"switch {name} must be one of {', '.join(CHOICES[name])}, got {getattr(self, name)!r}"
                )
