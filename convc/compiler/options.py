"""The choices that a caller may take from the planner; the rest is for the planner to choose."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """A user's choices about the schedule; None leaves one to the planner.

    Attributes:
        schedule: a name in `convc.compiler.schedules.all.SCHEDULES`; ``auto`` estimates every legal one and takes the
            best.
        shift: variant of the schedule: chain, ashift or windows.
        border: how lanes whose pixel is padding get their zero: mask or zero.
        rows: whether a stream of output pixels is one output row (outer) or all of them (merged).
        target: a name in `convc.ir.arch.ARCHS`.
        store: how results leave: direct, from registers, or tma, through shared memory and tensor copies; auto is as
            good as None.
        timed: write down the best few candidates, and let a timer that the caller gives decide among them
            (`convc.compiler.compile.compile_timed`).
        columns: whether filter columns become channels (`convc.layout.columns`): off, overlap or host. Left open, it is
            chosen where the schedule is, and off where that is named.
        persistent: whether one CTA for each SM walks over tiles, with its epilogues behind the next K loops: on, off,
            or auto, where that is faster by the estimate.
        pairs: whether the tensor cores of two CTAs multiply as one, each with half of the filter tile: on, off, or
            auto, where that is faster by the estimate.
        ctas: how many CTAs walk, with persistent on; by default as many as the target has SMs.
        work: how persistent CTAs get their next tile, with persistent on: static, by their number, or fetched, where
            they ask for tiles whose CTAs have not begun (``clusterlaunchcontrol``).
        filters: whether short filter tiles come in the stages of the activations that they meet (together), or every
            filter tile has a stage of its own (apart).
        residual_load: how a residual arrives: direct, read by the threads that add it, or tma, brought by tensor copies
            while the K loop runs, where results leave in them; auto is as good as None.
        dependent_launch: whether kernels set themselves up while the one in front of them runs.
        split_k: how many CTAs of a cluster share the K loop of a tile: 2, 4 or 8, off for one, or auto, where that is
            faster by the estimate. Left open, it is auto, but off for sm_90a.
        multicast: tiles of pixels x tiles of channels of a cluster whose CTAs load operand tiles for each other: 2x1,
            1x2 or 2x2, off for none, or auto, where that is faster by the estimate.
        tile_order: in which order tiles are made: rows (along M first), columns, grouped, boustrophedon or hilbert
            (`convc.compiler.index.tile_order`); auto: where L2 does not hold all, the one that moves fewest bytes.
        cache_hints: whether copies say what L2 should keep and what it may lose: off, on, or auto, where L2 does not
            hold the launch (`convc.compiler.plan.cache_hints`). Left open, it is off, but auto for sm_90a.
        registers: whether the warps that load hand registers over to those that multiply (``setmaxnreg``, sm_90a): on,
            off, or auto, where an even share is too little for these.
    """

    schedule: str = "auto"
    shift: str | None = None
    border: str | None = None
    rows: str | None = None
    target: str = "sm_100a"
    store: str | None = None
    timed: bool = False
    columns: str | None = None
    persistent: str = "auto"
    pairs: str = "auto"
    ctas: int | None = None
    work: str = "static"
    filters: str | None = None
    dependent_launch: bool = False
    residual_load: str | None = None
    split_k: str | None = None
    multicast: str = "off"
    tile_order: str = "auto"
    cache_hints: str | None = None
    registers: str = "auto"
