"""The options that exclude each other, as rows, and the schedules that options leave.

Each row has two options with the values that do not go together, why, and what to do. The page ``options.md`` shows
the rows. Those that follow from a schedule or a target are made from their records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from convc.compiler.options import AUTO, ESTIMATE, MOST_CTAS, ScheduleOptions, options
from convc.compiler.schedules.all import SCHEDULES, names, variants
from convc.compiler.schedules.base import DIRECT, DYNAMIC, TMA, Schedule
from convc.errors import InputError
from convc.ir.arch import ARCHS, Arch
from convc.support.guessing import nearest

GIVEN = "given"
"""Stands for every value of an option but ``auto``."""

ONE = "leave one of them out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A row: values of one option that exclude those of another.

    Attributes:
        option, values: the one, and which of its values; `GIVEN` for all but ``auto``.
        other, excluded: the other, and which of its values.
        why: the reason, as a sentence without a full stop.
        hint: what to do.
        needs: the option that the one cannot do without, where the other lacks it.
    """

    option: str
    values: tuple[str, ...]
    other: str
    excluded: tuple[str, ...]
    why: str
    hint: str = ONE
    needs: str = ""

    def holds(self, chosen: ScheduleOptions) -> bool:
        """Whether options have values that exclude each other."""
        pairs = ((self.option, self.values), (self.other, self.excluded))
        return all(_among(getattr(chosen, name), values) for name, values in pairs)

    def error(self, chosen: ScheduleOptions) -> InputError:
        """The error for options that have them."""
        one = f"{self.option} {getattr(chosen, self.option)}"
        two = getattr(chosen, self.other)
        if self.needs:
            return InputError(f"{one} needs {self.needs}, and {self.other} is {two}: {self.why}")
        return InputError(f"{one} and {self.other} {two} exclude each other: {self.why}", hint=self.hint)


def _among(value: object, values: tuple[str, ...]) -> bool:
    return value != AUTO if values == (GIVEN,) else value in values


_SPLIT = ("2", "4", "8")
_CLUSTERS = ("2x1", "1x2", "2x2")

CONFLICTS: tuple[Conflict, ...] = (
    Conflict(
        option="ctas",
        values=(GIVEN,),
        other="persistent",
        excluded=(AUTO, "off"),
        why="it is the number of persistent CTAs",
        needs="persistent on",
    ),
    Conflict(
        option="tile_scheduler",
        values=(DYNAMIC,),
        other="persistent",
        excluded=(AUTO, "off"),
        why="it is the tile scheduler of persistent CTAs",
        needs="persistent on",
    ),
    Conflict(
        option="tile_scheduler",
        values=(DYNAMIC,),
        other="ctas",
        excluded=(GIVEN,),
        why="the grid has one CTA per tile, and the GPU runs as many as fit",
        hint="leave ctas out",
    ),
    Conflict(
        option="tile_scheduler",
        values=(DYNAMIC,),
        other="cta_group",
        excluded=("2",),
        why="a request is for one tile and one CTA",
    ),
    Conflict(
        option="tile_scheduler",
        values=(DYNAMIC,),
        other="multicast",
        excluded=_CLUSTERS,
        why="a request is for one tile and one CTA",
    ),
    Conflict(
        option="split_k",
        values=_SPLIT,
        other="persistent",
        excluded=("on",),
        why="split-K gives each tile its own cluster",
    ),
    Conflict(
        option="split_k",
        values=_SPLIT,
        other="cta_group",
        excluded=("2",),
        why="split-K gives the CTAs of a cluster different parts of K, a 2-CTA MMA the same",
    ),
    Conflict(
        option="multicast",
        values=_CLUSTERS,
        other="cta_group",
        excluded=("2",),
        why="multicast sends whole filter tiles, and a 2-CTA MMA takes one half per CTA",
    ),
    Conflict(
        option="multicast",
        values=_CLUSTERS,
        other="split_k",
        excluded=_SPLIT,
        why="a multicast cluster computes several tiles, a split-K cluster one",
    ),
    Conflict(
        option="multicast",
        values=("1x2", "2x2"),
        other="persistent",
        excluded=("on",),
        why="persistent clusters advance along M, and this one has several tiles along N",
        hint="ask for multicast 2x1, or leave one of them out",
    ),
    Conflict(
        option="registers",
        values=("on",),
        other="split_k",
        excluded=(ESTIMATE, *_SPLIT),
        why="ptxas gives no warp more registers than the load warps have where partial sums are added",
    ),
    Conflict(
        option="residual_load",
        values=(TMA,),
        other="store",
        excluded=(DIRECT,),
        why="the residual is loaded to where results are staged, and store direct stages none",
    ),
)
"""The rows that do not depend on the schedules and the targets."""


def conflicts() -> tuple[Conflict, ...]:
    """All rows, with those that follow from the targets and from the schedules."""
    return (*CONFLICTS, *_of_targets(), *_of_schedules())


def _of_targets() -> Iterator[Conflict]:
    """The rows of options that one kind of tensor core has."""

    def targets(lack: Callable[[Arch], bool]) -> tuple[str, ...]:
        return tuple(name for name, arch in ARCHS.items() if lack(arch))

    fragments = targets(lambda arch: not arch.limits.tmem_columns)
    yield Conflict(
        option="tile_scheduler",
        values=(DYNAMIC,),
        other="target",
        excluded=fragments,
        why="it needs two accumulators in tensor memory",
    )
    yield Conflict(
        option="residual_load",
        values=(TMA,),
        other="target",
        excluded=targets(lambda a: a.tensor_core != "tcgen05"),
        why="each lane must hold a row of the accumulator, and wgmma's lanes hold fragments",
    )
    yield Conflict(
        option="registers",
        values=("on",),
        other="target",
        excluded=targets(lambda arch: arch.registers is None),
        why="its accumulator is in tensor memory",
        hint="leave registers out, or ask for target sm_90a",
    )


def _of_schedules() -> Iterator[Conflict]:
    """The rows of options that some schedules have no use for."""

    def lacking(has: Callable[[Schedule], bool]) -> tuple[str, ...]:
        able = {schedule.name for schedule in SCHEDULES if has(schedule)}
        return tuple(name for name in names() if name not in able)

    for name in ("border", "rows", "filters"):
        yield Conflict(
            option=name,
            values=(GIVEN,),
            other="schedule",
            excluded=lacking(lambda one: one.shares),
            why="the option is about activations that filter columns share, and this schedule shares none",
        )
    yield Conflict(
        option="store",
        values=(TMA,),
        other="schedule",
        excluded=lacking(lambda one: TMA in one.stores),
        why="its lanes are output channels, and tensor copies store rows of output pixels",
    )
    of: dict[tuple[str, ...], list[str]] = {}
    for variant in variants():
        of.setdefault(lacking(lambda one, variant=variant: one.variant == variant), []).append(variant)
    for others, found in of.items():
        owners = " or ".join(name for name in names() if name not in others)
        yield Conflict(
            option="shift",
            values=(*found,),
            other="schedule",
            excluded=(AUTO, *others),
            why=f"it is a variant of {owners}",
            needs=f"schedule {owners}",
        )


def schedules_for(chosen: ScheduleOptions) -> tuple[Schedule, ...]:
    """The schedules that options leave to choose from.

    Raises:
        InputError: an option has a value that does not exist, or two exclude each other.
    """
    for name, values in choices().items():
        _check_value(name, getattr(chosen, name), values)
    _check_ctas(chosen)
    for row in conflicts():
        if row.holds(chosen):
            raise row.error(chosen)
    return tuple(
        schedule
        for schedule in SCHEDULES
        if chosen.schedule in (AUTO, schedule.name)
        and chosen.shift in (AUTO, schedule.variant)
        and chosen.store in (AUTO, *schedule.stores)
    )


def choices() -> dict[str, tuple[str, ...]]:
    """The values of each option that has a list of them; new schedules and their variants are among them."""
    values = {name: (*option.values,) for name, option in options().items() if option.values and option.most is None}
    more = {"schedule": names(), "shift": variants()}
    return values | {name: (*dict.fromkeys((*values[name], *others)),) for name, others in more.items()}


def _check_value(name: str, value: object, known: tuple[str, ...]) -> None:
    """InputError for a value that an option does not have."""
    if value in known:
        return
    near = nearest(str(value), known)
    hint = "" if near is None else f"did you mean {near!r}?"
    if value is None:
        hint = f"{AUTO!r} leaves it open" if AUTO in known else ""
    raise InputError(f"{name} must be one of {', '.join(known)}, got {value!r}", hint=hint)


def _check_ctas(chosen: ScheduleOptions) -> None:
    """InputError for a number of CTAs that no grid has."""
    ctas = chosen.ctas
    if ctas != AUTO and not (type(ctas) is int and 1 <= ctas <= MOST_CTAS):
        raise InputError(f"ctas must be auto or in 1..{MOST_CTAS}, as many as a grid has, got {ctas!r}")
