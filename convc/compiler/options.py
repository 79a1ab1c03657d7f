"""The options of a schedule, in one table: what each may be, what it means, and what it applies to.

The fields of `ScheduleOptions` are the rows. The command line, the JSON schema of a build, the checks
(`convc.compiler.planner.conflicts`) and the page ``options.md`` are made from them. ``auto`` means the same
everywhere: the option is left open, and the planner decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Literal, cast, get_type_hints

from convc.errors import InputError

AUTO = "auto"
ESTIMATE = "estimate"
"""What an option is called that the planner decides by its estimate where ``auto`` would be something fixed."""

MOST_CTAS = (1 << 31) - 1
"""CTAs of a grid along x (CUDA programming guide, technical specifications)."""


@dataclass(frozen=True, slots=True)
class Option:
    """A row of the table.

    Attributes:
        help: a sentence for the help and the page.
        values: the texts that the option may be, each with its meaning; of a switch or a number none but ``auto``.
        applies: kernels that the option is about; empty: all.
        most: of a number, the largest one; the smallest is 1.
    """

    help: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    applies: str = ""
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed:
    """The name that an option has now.

    Attributes:
        name: the field.
        values: what old values are called now, where they have other names too.
    """

    name: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])

    def value(self, old: str) -> str:
        """Give the name that an old value has now."""
        return self.values.get(old, old)


RENAMED: Mapping[str, Renamed] = {
    "work": Renamed(name="tile_scheduler", values={"fetched": "dynamic"}),
    "pairs": Renamed(name="cta_group", values={"on": "2", "off": "1"}),
    "tile_order": Renamed(name="rasterization_order"),
    "order": Renamed(name="rasterization_order"),
    "dependent_launch": Renamed(name="pdl"),
}
"""Options that had another name, by that: who says it is told the new one."""

_SHARING = "schedules that share activations between filter columns: slide, shift, stationary"
_BLACKWELL = "sm_100a"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """A user's choices about the schedule.

    Each field is a row of the table of options: its annotation holds its values, its meaning and what it applies to
    (`options`), and ``convc/docs/options.md`` shows all of them. ``auto`` leaves a choice to the planner.
    """

    schedule: Annotated[
        str,
        Option(
            "How activations reach the tensor core: loaded for every filter tap, or shared between filter columns.",
            {
                AUTO: "the schedule with the best estimate",
                "reload": "every filter tap loads its activations",
                "slide": "one load for all taps of a filter row; each tap's descriptor starts one row later",
                "shift": "one load for all taps of a filter row; rows are shifted in tensor memory",
                "stationary": "one load for all taps of a filter row; filters are operand A, activations operand B",
            },
        ),
    ] = AUTO
    shift: Annotated[
        str,
        Option(
            "How schedule shift moves rows.",
            {
                AUTO: "the variant with the best estimate",
                "chain": "by tcgen05.shift, from tap to tap",
                "ashift": "by the MMA itself (.ashift)",
                "windows": "by the MMA itself, in windows of 32 lanes",
            },
            "schedule shift, which must be named",
        ),
    ] = AUTO
    border: Annotated[
        str,
        Option(
            "How lanes whose pixel is padding get zeros.",
            {
                AUTO: "by the estimate",
                "mask": "the MMA's lane mask leaves them out",
                "zero": "they read a row of zeros",
            },
            _SHARING,
        ),
    ] = AUTO
    rows: Annotated[
        str,
        Option(
            "The output pixels of a tile: of one output row after the other, or consecutive across rows.",
            {AUTO: "by the estimate", "outer": "one output row after the other", "merged": "across rows"},
            _SHARING,
        ),
    ] = AUTO
    store: Annotated[
        str,
        Option(
            "How the epilogue stores results.",
            {
                AUTO: "by the estimate",
                "direct": "threads store them from registers",
                "tma": "through shared memory and TMA",
            },
            "tma: schedules whose lanes are output pixels, that is all but stationary",
        ),
    ] = AUTO
    residual_load: Annotated[
        str,
        Option(
            "How a residual reaches the epilogue.",
            {
                AUTO: "by the estimate",
                "direct": "read by the threads that add it",
                "tma": "copied to shared memory through TMA during the K loop",
            },
            "layers with a residual; tma: sm_100a with store tma",
        ),
    ] = AUTO
    filters: Annotated[
        str,
        Option(
            "The stages of filter tiles in shared memory.",
            {
                AUTO: "together for short tiles, else apart",
                "apart": "each filter tile has its own stage",
                "together": "filter tiles share the stage of their activations",
            },
            _SHARING,
        ),
    ] = AUTO
    columns: Annotated[
        str,
        Option(
            "Fold filter columns into K, so that layers with few channels fill an MMA.",
            {
                AUTO: "by the estimate; off where a schedule is named",
                "off": "no",
                "overlap": "rows of the input tensor map overlap",
                "host": "the host copies the pixels of a filter row next to each other",
                "summed": "for gradients by weights: sum over pixels without a copy, with MN-major operands",
            },
        ),
    ] = AUTO
    persistent: Annotated[
        str,
        Option(
            "Persistent CTAs: each computes several tiles, and the epilogue overlaps the next mainloop.",
            {AUTO: "by the estimate", "on": "yes", "off": "one CTA per tile"},
        ),
    ] = AUTO
    ctas: Annotated[
        int | Literal["auto"],
        Option(
            "The number of persistent CTAs.",
            {AUTO: "as many as the GPU has SMs"},
            "persistent on, tile scheduler static",
            most=MOST_CTAS,
        ),
    ] = AUTO
    tile_scheduler: Annotated[
        str,
        Option(
            "The tile scheduler of persistent CTAs.",
            {
                "static": "tiles by CTA index",
                "dynamic": "tiles of CTAs that are not launched yet, by clusterlaunchcontrol (CLC)",
            },
            f"persistent on; dynamic: {_BLACKWELL}",
        ),
    ] = "static"
    cta_group: Annotated[
        str,
        Option(
            "The number of CTAs of an MMA (tcgen05.mma, cta_group::1 or ::2).",
            {
                AUTO: "by the estimate",
                "1": "each CTA computes its own tile",
                "2": "2-CTA MMA: two CTAs compute one tile, each with half of the filter tile",
            },
            _BLACKWELL,
        ),
    ] = AUTO
    split_k: Annotated[
        str,
        Option(
            "The number of CTAs that share the K loop of a tile.",
            {
                AUTO: "estimate; for sm_90a only where it halves the estimated time",
                ESTIMATE: "where SMs are idle otherwise and the estimate is better",
                "off": "one CTA",
                "2": "two",
                "4": "four",
                "8": "eight, one cluster",
                "16": "two clusters of eight, which add their sums through global memory",
                "24": "three clusters",
                "32": "four clusters",
                "48": "six clusters",
                "64": "eight clusters",
                "96": "twelve clusters",
                "128": "sixteen clusters",
            },
            "schedules reload, slide and shift",
        ),
    ] = AUTO
    multicast: Annotated[
        str,
        Option(
            "TMA multicast in clusters of MxN tiles (M: output pixels, N: output channels).",
            {
                AUTO: "Hopper: persistent clusters, where the estimate is 1.27 times better; Blackwell: off",
                ESTIMATE: "where the estimate is better",
                "off": "no",
                "2x1": "two tiles along M share filters",
                "1x2": "two tiles along N share activations",
                "2x2": "both",
            },
            "schedules reload, slide and shift",
        ),
    ] = AUTO
    rasterization_order: Annotated[
        str,
        Option(
            "The order in which the tiles of the output are computed.",
            {
                AUTO: "along M first; where L2 does not hold all buffers, the order with the least traffic",
                "rows": "along M first",
                "columns": "along N first",
                "grouped": "groups of a few tiles along N",
                "boustrophedon": "serpentine along M: every other column backwards",
                "hilbert": "along a Hilbert curve",
            },
        ),
    ] = AUTO
    cache_hints: Annotated[
        str,
        Option(
            "L2 eviction priorities of the loads (evict_first, evict_last).",
            {
                AUTO: "estimate for sm_90a, off for sm_100a",
                ESTIMATE: "where L2 does not hold all buffers of a launch",
                "off": "none",
                "on": "for all loads with a priority",
            },
        ),
    ] = AUTO
    registers: Annotated[
        str,
        Option(
            "Move registers from the load warps to the MMA warps (setmaxnreg).",
            {AUTO: "where an equal share is too small for the MMA warps", "on": "yes", "off": "no"},
            "sm_90a, where the accumulator is in registers",
        ),
    ] = AUTO
    pdl: Annotated[
        bool, Option("Programmatic dependent launch (PDL): the setup of a kernel overlaps the preceding kernel.")
    ] = False
    timed: Annotated[bool, Option("Let the timing engine choose among the candidates with the best estimates.")] = False
    tuned: Annotated[
        str,
        Option(
            "Use the kernel that `convc tune` recorded for the problem and these options.",
            {AUTO: "where there is a record", "off": "no"},
        ),
    ] = AUTO
    target: Annotated[
        str,
        Option("The target of the kernels.", {"sm_100a": "Blackwell (B200, B300)", "sm_90a": "Hopper (H100, H200)"}),
    ] = "sm_100a"

    def __new__(cls, **chosen: object) -> ScheduleOptions:
        """Refuse a field by its old name: InputError says what it is called."""
        for old in RENAMED.keys() & chosen.keys():
            new = RENAMED[old]
            value = chosen[old]
            value = new.value(value) if isinstance(value, str) else value
            raise InputError(f"ScheduleOptions has no {old}: it is called {new.name}", hint=f"{new.name}={value!r}")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        """Numbers of choices are texts: 2 and "2" are the same kernel."""
        for name, option in options().items():
            value = getattr(self, name)
            if option.values and option.most is None and type(value) is int:
                object.__setattr__(self, name, str(value))


@cache
def options() -> Mapping[str, Option]:
    """The table: the row of each field of `ScheduleOptions`, in the order of the help."""
    hints = get_type_hints(ScheduleOptions, include_extras=True)
    return {name: cast("Option", hint.__metadata__[0]) for name, hint in hints.items()}
