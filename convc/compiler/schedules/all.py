"""All schedules: ways to run a convolution, one record each (`convc.compiler.schedules.base.Schedule`).

A new one is a class in a file of its own, and a line in `SCHEDULES`. The longest halo is what the field of an
instruction holds: wHalo of im2col::w, the lanes of a window, the column shift of tcgen05.mma.ws with M = 128.

The functions import the classes: the help of ``convc compile`` lists the schedules, and needs no algebra for that.
"""

from __future__ import annotations

from convc.compiler.index.border import BORDERS
from convc.compiler.index.order_names import ORDERS
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.evidence import FOUR_PARTITIONS, LAST_LANES, MOVES_AFTER, ROW_START, SHIFT_THEN_ZERO
from convc.compiler.plan.names import ScheduleName
from convc.compiler.schedules.base import (
    CACHE_HINTS,
    DIRECT,
    FETCHED,
    FILTERS,
    MULTICAST_OF,
    PAIRS,
    PARTS_OF,
    PERSISTENT,
    REGISTERS,
    RESIDUAL_LOADS,
    ROWS,
    STORES,
    TMA,
    WORK,
    Method,
    Schedule,
)
from convc.errors import InputError
from convc.ir.arch import ARCHS, SM_100A
from convc.ir.columns import COLUMNS
from convc.support.guessing import nearest


def _reload(schedule: Schedule) -> Method:
    from convc.compiler.schedules.reload import Reload

    return Reload(schedule)


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
    rests_on=(ROW_START,),
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
    rests_on=(FOUR_PARTITIONS, LAST_LANES, ROW_START),
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
    rests_on=(MOVES_AFTER, LAST_LANES, ROW_START),
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
    rests_on=(MOVES_AFTER,),
    method=_windows,
)
STATIONARY = Schedule(
    name="stationary",
    shares=True,
    transposed=True,
    max_halo=SM_100A.limits.ws_column_shift,
    rests_on=(SHIFT_THEN_ZERO,),
    method=_stationary,
)

SCHEDULES: tuple[Schedule, ...] = (RELOAD, SLIDE, CHAIN, ASHIFT, WINDOWS, STATIONARY)
"""All schedules, in the order of the tables that show them."""

AUTO = "auto"
"""What stands for the best of all."""


def names() -> tuple[str, ...]:
    """The names of the schedules, each once."""
    return tuple(dict.fromkeys(schedule.name for schedule in SCHEDULES))


def variants() -> tuple[str, ...]:
    """The variants that a schedule has, of all schedules."""
    return tuple(schedule.variant for schedule in SCHEDULES if schedule.variant)


def choices() -> dict[str, tuple[str, ...]]:
    """List the values that each field of `ScheduleOptions` may have."""
    return {
        "schedule": (AUTO, *names()),
        "shift": variants(),
        "border": BORDERS,
        "rows": ROWS,
        "store": (AUTO, *STORES),
        "columns": COLUMNS,
        "persistent": PERSISTENT,
        "work": WORK,
        "pairs": PAIRS,
        "filters": FILTERS,
        "residual_load": (AUTO, *RESIDUAL_LOADS),
        "split_k": tuple(PARTS_OF),
        "multicast": tuple(MULTICAST_OF),
        "tile_order": (AUTO, *ORDERS),
        "cache_hints": CACHE_HINTS,
        "registers": REGISTERS,
        "target": tuple(ARCHS),
    }


def asked(options: ScheduleOptions) -> tuple[Schedule, ...]:
    """The schedules that options leave to choose from.

    Raises:
        InputError: an option has a value that does not exist, or none of the schedules named has a use for it.
    """
    for field, known in choices().items():
        value = getattr(options, field)
        if value is not None and value not in known:
            near = nearest(str(value), known)
            hint = "" if near is None else f"did you mean {near!r}?"
            raise InputError(f"{field} must be one of {', '.join(known)}, got {value!r}", hint=hint)
    _check_walk(options)
    _check_work(options)
    _check_split(options)
    _check_multicast(options)
    _check_registers(options)
    named = [schedule for schedule in SCHEDULES if options.schedule in (AUTO, schedule.name)]
    if options.shift is None:
        found = named
    elif options.schedule == AUTO:
        owners = dict.fromkeys(each.name for each in SCHEDULES if each.variant == options.shift)
        raise InputError(f"{options.shift} is a variant of {' and '.join(owners)}: name the schedule too")
    else:
        found = [schedule for schedule in named if schedule.variant == options.shift]
        if not found:
            raise InputError(f"schedule {options.schedule} has no variant {options.shift}")
    for field in ("border", "rows", "filters"):
        if getattr(options, field) is not None and not any(schedule.shares for schedule in found):
            raise InputError(
                f"{field} is about activations that filter columns share, and schedule {options.schedule} shares none"
            )
    if options.residual_load == TMA and options.store == DIRECT:
        raise InputError(
            "residual_load tma brings a residual to where results are staged, and store direct stages none"
        )
    if options.residual_load == TMA and ARCHS[options.target].tensor_core != "tcgen05":
        raise InputError(
            f"residual_load tma needs a row of the accumulator in each lane, and {options.target} has fragments"
        )
    able = [schedule for schedule in found if options.store in (None, AUTO, *schedule.stores)]
    if not able:
        raise InputError(
            f"store {options.store} needs lanes that are output pixels, and those of schedule {options.schedule} are "
            "output channels"
        )
    return tuple(able)


MOST_CTAS = (1 << 31) - 1
"""CTAs of a grid along x (CUDA programming guide, technical specifications)."""


def _check_walk(options: ScheduleOptions) -> None:
    """InputError where CTAs cannot walk over tiles as the options say."""
    if options.ctas is not None and not 1 <= options.ctas <= MOST_CTAS:
        raise InputError(f"ctas must be in 1..{MOST_CTAS}, as many as a grid has, got {options.ctas}")
    if options.ctas is not None and options.persistent != "on":
        raise InputError(
            f"ctas says how many CTAs walk over tiles, which needs persistent on; persistent is {options.persistent}"
        )


def _check_work(options: ScheduleOptions) -> None:
    """InputError where CTAs cannot ask for tiles as the options say."""
    if options.work != FETCHED:
        return
    if options.persistent != "on":
        raise InputError(
            "work fetched is how persistent CTAs get their next tile, which needs persistent on; "
            f"persistent is {options.persistent}"
        )
    if options.ctas is not None:
        raise InputError(
            "work fetched has a CTA for each tile in the grid, of which the GPU runs as many as it can: leave ctas out"
        )
    if options.pairs == "on":
        raise InputError("work fetched asks for one CTA at a time, and pairs on needs two: ask for one of them")
    if not ARCHS[options.target].limits.tmem_columns:
        raise InputError(f"work fetched needs two accumulators in tensor memory, and {options.target} has none")
    if options.multicast not in ("auto", "off"):
        raise InputError(
            f"work fetched asks for one CTA at a time, and multicast {options.multicast} needs several: ask for one of "
            "them"
        )


def _check_split(options: ScheduleOptions) -> None:
    """InputError where CTAs cannot share the K loop of a tile as the options say."""
    if options.split_k in (None, "auto", "off"):
        return
    if options.persistent == "on":
        raise InputError(
            f"split_k {options.split_k} gives each tile a cluster of its own, and persistent on lets CTAs walk over "
            "tiles: ask for one of them"
        )
    if options.pairs == "on":
        raise InputError(
            f"split_k {options.split_k} gives each CTA of a cluster a part of K, and pairs on lets two CTAs multiply "
            "as one: ask for one of them"
        )


def _check_multicast(options: ScheduleOptions) -> None:
    """InputError where the CTAs of a cluster cannot load for each other as the options say."""
    if options.multicast in ("auto", "off"):
        return
    if options.pairs == "on":
        raise InputError(
            f"multicast {options.multicast} gives each CTA of a cluster whole filter tiles, and pairs on halves them: "
            "ask for one of them"
        )
    if options.split_k not in (None, "auto", "off"):
        raise InputError(
            f"multicast {options.multicast} is for clusters of several tiles, and split_k {options.split_k} for those "
            "of one: ask for one of them"
        )
    if options.persistent == "on" and options.multicast != "2x1":
        raise InputError(
            f"multicast {options.multicast} has several tiles of channels in a cluster, and persistent on walks along "
            "tiles of pixels: ask for 2x1, or for one of them"
        )


def _check_registers(options: ScheduleOptions) -> None:
    """InputError where there are no registers to hand over."""
    if options.registers == "on" and ARCHS[options.target].registers is None:
        raise InputError(
            "registers on hands registers to warps that have the accumulator in theirs, and on "
            f"{options.target} it lies in tensor memory: leave it out, or ask for target sm_90a"
        )
    if options.registers == "on" and options.split_k not in (None, "off"):
        raise InputError(
            f"registers on leaves few to warps that load, and with split_k {options.split_k} ptxas gives no warp more "
            "than these when sums are added: ask for one of them"
        )


def schedule_of(name: ScheduleName) -> Schedule:
    """The schedule of that name and variant; KeyError where there is none."""
    for schedule in SCHEDULES:
        if schedule.id == name:
            return schedule
    raise KeyError(name.title)


def sharing() -> tuple[Schedule, ...]:
    """The schedules whose filter columns share activations."""
    return tuple(schedule for schedule in SCHEDULES if schedule.shares)
