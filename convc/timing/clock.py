"""The SM clock under load: a chip whose tensor cores work much of the time may not take the power of its full clock.

The power of a tensor core goes with its clock and the square of its voltage, which rises with the clock. So what all of
them may work at a clock falls with its third power: a launch in which they work more than a share of the time
(``load.*`` of the chip, by type of operand) goes at ``chip.clock`` times the third root of that share over its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from convc.machine.isa.all import forms_with
from convc.machine.isa.registry import Traits
from convc.ptx import Instr
from convc.timing.chip import TimedLaunch
from convc.timing.parameters import BY_USER, Chip

CLOCK = "chip.clock"

TYPES = {
    "f16": "load.f16", "tf32": "load.tf32", "f8f6f4": "load.f8", "mxf8f6f4": "load.f8", "i8": "load.i8",
    "mxf4": "load.f4", "mxf4nvf4": "load.f4",
}  # fmt: skip
"""The parameter that counts for each ``.kind`` of MMA."""

TURNS = 4
"""Times at most that a launch is timed until its clock and the work of its tensor cores agree."""

CLOSE = 0.005
"""Relative difference of clocks that is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load for which a launch goes slower than the chip's clock.

    Attributes:
        full: the chip's clock, GHz. kind: of its MMAs, as ``f16``.
        use: share of the time, at the clock that it goes at, in which the tensor cores of all SMs work.
        most: share of the time in which they may at the full clock.
    """

    full: float
    kind: str
    use: float
    most: float


def kind_of(body: Iterable[Instr]) -> str:
    """The kind of a kernel's MMAs, as ``tcgen05.mma`` names it; "" where it has none."""
    for instr in body:
        if instr.form.opcode == "tcgen05" and (kind := instr.slots.get("kind")):
            return kind.removeprefix("kind::")
        if instr.form.name in forms_with(Traits.ASYNC_REGISTERS):
            if instr.slots.get("f8a"):
                return "f8f6f4"
            if instr.slots.get("i8a"):
                return "i8"
            return "tf32" if re.search(r"k8$", str(instr.slots["shape"])) else "f16"
    return ""


def use_of_all(launch: TimedLaunch, chip: Chip) -> float:
    """Share of a launch's time in which the tensor cores of all SMs work, as in its first wave."""
    return float(launch.use["tensor core"] * launch.busy / chip["chip.sms"])


def under_load(timed: Callable[[Chip], TimedLaunch], chip: Chip, kind: str) -> tuple[TimedLaunch, Chip, Load | None]:
    """Time a launch at the clock that its own tensor cores leave it.

    Args:
        timed: times it on a chip.
        chip: whose clock is an upper limit; one that the user has set counts as it is.
        kind: see `kind_of`.

    Returns:
        The launch, the chip with its clock, and why that is lower; None: it is not.
    """
    launch = timed(chip)
    if chip.parameters[CLOCK].source == BY_USER or kind not in TYPES:
        return launch, chip, None
    full = float(chip[CLOCK])
    most = float(chip[TYPES[kind]])
    slowed = chip
    for _ in range(TURNS):
        use = use_of_all(launch, chip)
        clock = full * min(1.0, (most / use) ** (1 / 3)) if use else full
        if abs(clock / slowed[CLOCK] - 1) < CLOSE:
            break
        slowed = chip.changed({CLOCK: clock}, "under load")
        launch = timed(slowed)
    if slowed is chip:
        return launch, chip, None
    return launch, slowed, Load(full=full, kind=kind, use=use_of_all(launch, chip), most=most)
