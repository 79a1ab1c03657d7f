"""Kernels on chips that differ in one setting: a choice by its settings, a number at the ends of its range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from convc.errors import InputError
from convc.timing.kernel import KernelTime
from convc.timing.parameters import CHOICES, Chip, check_name, read_chip

ENDS = ("low", "value", "high")
"""Settings of a number: the ends of its range, and between them what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfTime:
    """The time of a kernel in a setting.

    Attributes:
        layer: its name. schedule: of its kernel; "" for one that convc did not write.
        planned: the report is about this kernel; else it is one that another schedule would give.
        cycles: of the SM clock. microseconds: at the setting's clock.
    """

    layer: str
    schedule: str
    planned: bool
    cycles: float
    microseconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfSetting:
    """A chip with one setting, and the times of kernels on it.

    Attributes:
        setting: of a choice its name, as ``8x64``; of a number ``low``, ``value`` or ``high``.
        numbers: the parameters that the setting replaces.
        times: of each kernel, in the same order in every setting.
    """

    setting: str
    numbers: Mapping[str, float]
    times: tuple[WhatIfTime, ...]

    @property
    def fastest(self) -> WhatIfTime:
        """The kernel that takes least; among the schedules of a layer the one to choose."""
        return min(self.times, key=lambda one: one.cycles)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Settings of one name, side by side.

    Attributes:
        name: of the number or of the choice. unit: of the number; "" for a choice.
        schedules: the times are those of one layer in each schedule that it can have.
        settings: all of them.
    """

    name: str
    unit: str
    schedules: bool
    settings: tuple[WhatIfSetting, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A kernel that is asked about, with the name of its layer and its schedule."""

    layer: str
    schedule: str
    kernel: KernelTime


def check_what_if(chip: Chip, names: Sequence[str]) -> None:
    """Raise `InputError` where something is asked about that the chip does not have."""
    for name in names:
        if "=" in name:
            raise InputError(f"what-if takes a name alone, as in tmem.banks, got {name!r}: NAME=VALUE is for --set")
        check_name(chip, name)


def asks_for_choices(names: Iterable[str]) -> bool:
    """Whether a choice is asked about, which may change which schedule is best."""
    return any(name in CHOICES for name in names)


def what_if(
    name: str, chip: Chip, settings: Sequence[str], timed: Sequence[Candidate], others: Sequence[Candidate] = ()
) -> WhatIf:
    """Time kernels in each setting of a name.

    Args:
        name: of a number or a choice of the chip.
        chip: as it is set. settings: that made it so, ``NAME=VALUE`` each.
        timed: the kernels that are asked about.
        others: the same layer's kernels in other schedules, for choices.
    """
    choice = name in CHOICES
    asked = [(one, True) for one in timed] + [(one, False) for one in others if choice]
    chips = _choices(name, chip, settings) if choice else _ends(name, chip)
    return WhatIf(
        name=name,
        unit="" if choice else chip.parameters[name].unit,
        schedules=choice and bool(others),
        settings=tuple(_setting(setting, numbers, other, asked) for setting, numbers, other in chips),
    )


def _choices(name: str, chip: Chip, settings: Sequence[str]) -> Iterator[tuple[str, Mapping[str, float], Chip]]:
    """Each setting of a choice with the parameters that it replaces, and the chip that it makes."""
    replaced = list(dict.fromkeys(key for numbers in CHOICES[name].values() for key in numbers))
    for setting in CHOICES[name]:
        other = read_chip(chip.name, [*settings, f"{name}={setting}"])
        yield setting, {key: other[key] for key in replaced}, other


def _ends(name: str, chip: Chip) -> Iterator[tuple[str, Mapping[str, float], Chip]]:
    """A number, and the ends of the range that its sources leave open, whatever it is set to."""
    low, high = read_chip(chip.name).parameters[name].range
    for setting, value in zip(ENDS, (low, chip[name], high), strict=True):
        yield setting, {name: value}, chip.changed({name: value})


def _setting(
    setting: str, numbers: Mapping[str, float], chip: Chip, asked: Sequence[tuple[Candidate, bool]]
) -> WhatIfSetting:
    times: list[WhatIfTime] = []
    for one, planned in asked:
        cycles = one.kernel.on(chip).cycles
        times.append(
            WhatIfTime(
                layer=one.layer,
                schedule=one.schedule,
                planned=planned,
                cycles=cycles,
                microseconds=cycles / chip["chip.clock"] / 1e3,
            )
        )
    return WhatIfSetting(setting=setting, numbers=numbers, times=tuple(times))
