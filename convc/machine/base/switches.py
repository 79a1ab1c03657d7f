"""Switches: rules that no public source settles, each with the reading we take by default.

A kernel whose result does not change under any setting does not depend on an open question. docs/fidelity.md lists what
is known of each.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args, get_type_hints

from convc.errors import InputError, LaunchError


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """How to read what the manual leaves open. The first setting of each, its default, is named first.

    Attributes:
        numerics: how a floating tcgen05.mma adds: ``float32`` in an order of our own, many instructions at a time;
            or ``exact``, the one truncated sum per instruction that is measured on hardware (see `numerics`). This one
            is no open question but a choice between speed and exactness.
        ashift_then_cp: whether a tcgen05.cp may land before the shift of an ``.ashift`` that the same thread issued
            ahead of it (``unordered``), or only after it (``ordered``).
        shift_extent: lanes that a tcgen05.shift moves: in ``all`` four sub-partitions, or only in the 32-lane
            ``window`` of its address.
        refresh_lane: lane of the first row of tcgen05.cp.4x256b: that of its ``address``, or always ``zero``.
        unpack_upper: what ``tcgen05.st.unpack::16b`` makes of the upper half of a cell: ``keep`` or ``zero``.
        six_bit: where a 6-bit element lies in its byte of tensor memory: bits 5..0 (``low``) or 6..1 (``high``).
        bank_copies: which copy of A in tensor memory each bank of layouts B, E and G reads: its ``own``, or all the
            ``first``.
        pair_mask: whose lanes words 0 to 3 of the eight mask words of a pair are: ``even`` or ``odd``.
        zero_mask: whether the zero-column mask of tcgen05.mma.ws counts columns ``after`` or ``before`` its shift.
        scale_id: whether the scale id is that of the instruction ``descriptor``, or bits 31..30 of the ``address``.
        e2m1_exponent: the exponent that a subnormal e2m1 number (0.5) counts with in an exact sum of kinds f8f6f4 and
            mxf8f6f4: that of its ``value``, or the smallest of its ``format``. No effect with numerics float32.
        placement: which free run of columns tcgen05.alloc takes: the ``first`` or the ``last``.
        ftz_sum: whether sums of f32_ftz and tf32_ftz elements ``flush`` or ``keep`` subnormal results.
        elect: the lane that elect.sync elects among the active ones: the ``lowest`` or the ``highest``.
        divergence: the side of a divergent branch that runs first: its ``target`` or the ``next`` instruction.
        absent_lane: what shfl.sync reads of a lane that does not take part: ``zero``, or the reader's ``own`` value.
        colliding_stores: the lane whose store to a common place stays: the ``lowest`` or the ``highest``.
        atomic_order: order of lanes that hit one place in one instruction: ``ascending`` or ``descending``.
        divide_by_zero: quotient and remainder of an integer divided by zero: all ``ones``, or ``zero``.
        approximate: rounding of the .approx functions: ``nearest``, or toward ``zero``.
        random_bits: of cvt.rs to four narrow numbers: 16 that two neighbours have ``shared``, or 8 each, ``apart``.
    """

    numerics: Literal["float32", "exact"] = "float32"
    ashift_then_cp: Literal["unordered", "ordered"] = "unordered"
    shift_extent: Literal["all", "window"] = "all"
    refresh_lane: Literal["address", "zero"] = "address"
    unpack_upper: Literal["keep", "zero"] = "keep"
    six_bit: Literal["low", "high"] = "low"
    bank_copies: Literal["own", "first"] = "own"
    pair_mask: Literal["even", "odd"] = "even"
    zero_mask: Literal["after", "before"] = "after"
    scale_id: Literal["descriptor", "address"] = "descriptor"
    e2m1_exponent: Literal["value", "format"] = "value"
    placement: Literal["first", "last"] = "first"
    ftz_sum: Literal["flush", "keep"] = "flush"
    elect: Literal["lowest", "highest"] = "lowest"
    divergence: Literal["target", "next"] = "target"
    absent_lane: Literal["zero", "own"] = "zero"
    colliding_stores: Literal["lowest", "highest"] = "lowest"
    atomic_order: Literal["ascending", "descending"] = "ascending"
    divide_by_zero: Literal["ones", "zero"] = "ones"
    approximate: Literal["nearest", "zero"] = "nearest"
    random_bits: Literal["shared", "apart"] = "shared"

    def __post_init__(self) -> None:
        for name, settings in CHOICES.items():
            if getattr(self, name) not in settings:
                raise LaunchError(f"switch {name} must be one of {', '.join(settings)}, got {getattr(self, name)!r}")

    def others(self) -> Iterator[tuple[str, Switches]]:
        """Every other setting of every open question, one at a time: (``name=setting``, the switches with it)."""
        for name in OPEN:
            for setting in CHOICES[name]:
                if setting != getattr(self, name):
                    yield f"{name}={setting}", replace(self, **{name: setting})


CHOICES: dict[str, tuple[str, ...]] = {name: get_args(hint) for name, hint in get_type_hints(Switches).items()}
"""Settings of every switch, the default first."""

DEFAULTS = Switches()

OPEN = tuple(name for name in CHOICES if name != "numerics")
"""The switches that stand for an open question."""


RECORDED = (
    "ftz_sum", "elect", "divergence", "absent_lane", "colliding_stores", "atomic_order", "divide_by_zero",
)  # fmt: skip
"""Switches whose default was recorded on sm_90 (probes_h100.json and probes_h200.json in tests/recordings); the others
are assumed."""


def explained() -> dict[str, str]:
    """Explain each switch, with its settings, the default first: as the docstring of `Switches` does."""
    _, _, listed = (inspect.getdoc(Switches) or "").partition("Attributes:\n")
    entries = re.findall(r"^ +(\w+): (.*(?:\n {8,}.*)*)", listed, re.MULTILINE)
    texts = {name: " ".join(text.replace("`", "").split()) for name, text in entries}
    return {name: f"{texts[name][0].upper()}{texts[name][1:]} Settings: {', '.join(CHOICES[name])}." for name in OPEN}


def parse_switches(settings: tuple[str, ...], **more: str) -> Switches:
    """The switches of ``name=setting`` texts of a command line; the rest are at their defaults, or as in ``more``."""
    given: dict[str, str] = {}
    for text in settings:
        name, equals, setting = text.partition("=")
        if name not in OPEN:
            near = difflib.get_close_matches(name, OPEN, n=1)
            guess = f"did you mean {near[0]!r}? " if near else ""
            raise InputError(f"there is no switch {name!r}", hint=f"{guess}switches: {', '.join(OPEN)}")
        if setting not in CHOICES[name]:
            got = repr(setting) if equals else "no setting"
            raise InputError(
                f"switch {name} must be one of {', '.join(CHOICES[name])}, got {got}",
                hint=f"write {name}={CHOICES[name][-1]}",
            )
        if given.get(name, setting) != setting:
            raise InputError(f"switch {name} is given twice: {given[name]} and {setting}", hint="give it once")
        given[name] = setting
    return replace(DEFAULTS, **given, **more)
