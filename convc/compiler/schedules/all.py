"""All schedules: ways to run a convolution, one record each (`convc.compiler.schedules.base.Schedule`).

A new one is a class in a file of its own, and a line in `SCHEDULES`. The longest halo is what the field of an
instruction holds: wHalo of im2col::w, the lanes of a window, the column shift of tcgen05.mma.ws with M = 128.

The functions import the classes: the help of ``convc compile`` lists the schedules, and needs no algebra for that.
"""

from __future__ import annotations

from convc.compiler.plan.evidence import FOUR_PARTITIONS, LAST_LANES, MOVES_AFTER, ROW_START, SHIFT_THEN_ZERO
from convc.compiler.plan.names import ScheduleName
from convc.compiler.schedules.base import STORES, Method, Schedule
from convc.ir.arch import SM_100A


def _reload(schedule: Schedule) -> Method:
    from convc.compiler.schedules.reload import Reload

    return Reload(schedule)


def _summed(schedule: Schedule) -> Method:
    from convc.compiler.schedules.summed import Summed

    return Summed(schedule=schedule)


def _slide(schedule: Schedule) -> Method:
    from convc.compiler.schedules.sharing.slide import Slide

    return Slide(schedule)


def _chain(schedule: Schedule) -> Method:
    from convc.compiler.schedules.sharing.shift import Shift

    return Shift(schedule)


def _ashift(schedule: Schedule) -> Method:
    from convc.compiler.schedules.sharing.shift import Shift

    return Shift(schedule, ashift=True)


def _windows(schedule: Schedule) -> Method:
    from convc.compiler.schedules.sharing.shift import Shift

    return Shift(schedule, ashift=True, windows=True)


def _stationary(schedule: Schedule) -> Method:
    from convc.compiler.schedules.sharing.stationary import Stationary

    return Stationary(schedule)


RELOAD = Schedule(
    name="reload",
    tensor_cores=("tcgen05", "wgmma"),
    stores=STORES,
    pairs=True,
    splits=True,
    multicasts=True,
    method=_reload,
    summed=_summed,
)
SLIDE = Schedule(
    name="slide",
    tensor_cores=("tcgen05", "wgmma"),
    shares=True,
    stores=STORES,
    pairs=True,
    splits=True,
    multicasts=True,
    max_halo=SM_100A.limits.wide_halo,
    assumes=(ROW_START,),
    method=_slide,
)
CHAIN = Schedule(
    name="shift",
    variant="chain",
    activations="tensor memory",
    shares=True,
    stores=STORES,
    pairs=True,
    splits=True,
    multicasts=True,
    max_halo=SM_100A.limits.wide_128_halo,
    assumes=(FOUR_PARTITIONS, LAST_LANES, ROW_START),
    method=_chain,
)
ASHIFT = Schedule(
    name="shift",
    variant="ashift",
    activations="tensor memory",
    shares=True,
    stores=STORES,
    pairs=True,
    splits=True,
    multicasts=True,
    max_halo=SM_100A.limits.wide_128_halo,
    assumes=(MOVES_AFTER, LAST_LANES, ROW_START),
    method=_ashift,
)
WINDOWS = Schedule(
    name="shift",
    variant="windows",
    activations="tensor memory",
    shares=True,
    stores=STORES,
    pairs=True,
    splits=True,
    multicasts=True,
    max_halo=SM_100A.limits.tmem_part_lanes - 1,
    assumes=(MOVES_AFTER,),
    method=_windows,
)
STATIONARY = Schedule(
    name="stationary",
    shares=True,
    transposed=True,
    max_halo=SM_100A.limits.ws_column_shift,
    assumes=(SHIFT_THEN_ZERO,),
    method=_stationary,
)

SCHEDULES: tuple[Schedule, ...] = (RELOAD, SLIDE, CHAIN, ASHIFT, WINDOWS, STATIONARY)
"""All schedules, in the order of the tables that show them."""


def names() -> tuple[str, ...]:
    """The names of the schedules, each once."""
    return tuple(dict.fromkeys(schedule.name for schedule in SCHEDULES))


def variants() -> tuple[str, ...]:
    """The variants that a schedule has, of all schedules."""
    return tuple(schedule.variant for schedule in SCHEDULES if schedule.variant)


def schedule_of(name: ScheduleName) -> Schedule:
    """The schedule of that name and variant; KeyError where there is none."""
    for schedule in SCHEDULES:
        if schedule.id == name:
            return schedule
    raise KeyError(name.title)


def sharing() -> tuple[Schedule, ...]:
    """The schedules whose filter columns share activations."""
    return tuple(schedule for schedule in SCHEDULES if schedule.shares)
