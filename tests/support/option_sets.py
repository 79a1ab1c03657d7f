"""Choices of the schedule that are audited: every schedule, and every option with each other one that it goes with.

Each is a problem of a few tiles, so that rings come round and CTAs have peers; residual, bias and Relu behind it where
its type has an epilogue.
"""

from __future__ import annotations

from dataclasses import dataclass

from convc.compiler.options import ScheduleOptions
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.gradients import weight_gradient
from convc.ir.problem import ConvProblem

ENDING = (AddResidual(), Relu())


@dataclass(frozen=True, kw_only=True)
class OptionSet:
    """A problem with choices, and the tile where it is not left to the planner."""

    problem: ConvProblem
    options: ScheduleOptions
    block_n: int | None = None
    stages: int | None = None


def _pointwise(**more) -> ConvProblem:
    """A 1x1 layer of several tiles of pixels and of channels."""
    fields = {
        "name": "pointwise", "batch": 7, "in_channels": 128, "out_channels": 160, "in_extent": (9, 9),
        "kernel": (1, 1), "bias": True, "epilogue": ENDING,
    }  # fmt: skip
    return ConvProblem(**(fields | more))


def _shared(**more) -> ConvProblem:
    """A 3x3 layer whose filter columns meet the same pixels."""
    fields = {
        "name": "shared", "batch": 9, "in_channels": 72, "out_channels": 40, "in_extent": (4, 14), "kernel": (3, 3),
        "pad_lo": (1, 1), "pad_hi": (1, 1), "bias": True,
    }  # fmt: skip
    return ConvProblem(**(fields | more))


def _stem(**more) -> ConvProblem:
    """A layer of few channels, with a stride."""
    fields = {
        "name": "stem", "batch": 2, "in_channels": 3, "out_channels": 64, "in_extent": (30, 30), "kernel": (7, 7),
        "stride": (2, 2), "pad_lo": (3, 3), "pad_hi": (3, 3), "bias": True,
    }  # fmt: skip
    return ConvProblem(**(fields | more))


def _typed(operand: str, **more) -> ConvProblem:
    """A 3x3 layer of another type."""
    out = {"s8": "s32", "tf32": "f32"}.get(operand, "bf16" if operand not in ("e4m3", "e5m2") else "f16")
    return _shared(in_channels=288, out_channels=88, in_extent=(9, 9), batch=2, operand=operand, out=out, **more)


RELOAD = {"schedule": "reload"}
SLIDE = {"schedule": "slide"}
STATIONARY = {"schedule": "stationary"}
WALK = {"schedule": "reload", "persistent": "on", "ctas": 2}
CHAIN = {"schedule": "shift", "shift": "chain"}
ASHIFT = {"schedule": "shift", "shift": "ashift"}
WINDOWS = {"schedule": "shift", "shift": "windows"}
HOPPER = {"target": "sm_90a"}
ALONE = {"cta_group": "1", "split_k": "off", "multicast": "off"}


def _set(problem: ConvProblem, options: dict, *, block_n: int | None = None, stages: int | None = None) -> OptionSet:
    return OptionSet(problem=problem, options=ScheduleOptions(**options), block_n=block_n, stages=stages)


OPTION_SETS: dict[str, OptionSet] = {
    # reload
    "reload": _set(_pointwise(), RELOAD | ALONE | {"persistent": "off", "store": "direct"}, block_n=80, stages=1),
    "reload stored": _set(
        _pointwise(),
        RELOAD | ALONE | {"persistent": "off", "store": "tma", "residual_load": "direct"},
        block_n=80,
        stages=2,
    ),
    "reload residual": _set(
        _pointwise(), RELOAD | ALONE | {"persistent": "off", "store": "tma", "residual_load": "tma"}, block_n=160
    ),
    "reload dependent": _set(_pointwise(), RELOAD | ALONE | {"persistent": "off", "store": "direct", "pdl": True}),
    "reload pairs": _set(
        _pointwise(), RELOAD | {"cta_group": "2", "persistent": "off", "store": "direct"}, block_n=96, stages=1
    ),
    "reload pairs residual": _set(
        _pointwise(), RELOAD | {"cta_group": "2", "persistent": "off", "store": "tma", "residual_load": "tma"}
    ),
    "reload pairs dependent": _set(
        _pointwise(), RELOAD | {"cta_group": "2", "pdl": True, "store": "tma", "residual_load": "direct"}
    ),
    "reload pairs walk": _set(
        _pointwise(), WALK | {"cta_group": "2", "store": "tma", "residual_load": "tma"}, block_n=96, stages=2
    ),
    "reload multicast 2x1": _set(
        _pointwise(),
        RELOAD | {"multicast": "2x1", "cta_group": "1", "persistent": "off", "store": "direct"},
        block_n=80,
        stages=1,
    ),
    "reload multicast 1x2": _set(
        _pointwise(), RELOAD | {"multicast": "1x2", "cta_group": "1", "store": "tma", "residual_load": "tma"}
    ),
    "reload multicast 2x2": _set(
        _pointwise(),
        RELOAD | {"multicast": "2x2", "cta_group": "1", "pdl": True, "store": "direct"},
        block_n=80,
        stages=1,
    ),
    "reload multicast walk": _set(
        _pointwise(), WALK | {"multicast": "2x1", "cta_group": "1", "ctas": 4}, block_n=80, stages=2
    ),
    "reload multicast 2x2 wide": _set(
        _pointwise(in_channels=16, out_channels=512, batch=16),
        RELOAD | {"multicast": "2x2", "cta_group": "1"},
        block_n=256,
    ),
    "reload split 2": _set(
        _pointwise(in_channels=256), RELOAD | {"split_k": "2", "cta_group": "1", "rasterization_order": "columns"}
    ),
    "reload split 4": _set(
        _pointwise(in_channels=512),
        RELOAD | {"split_k": "4", "cta_group": "1", "pdl": True},
    ),
    "reload split 8": _set(_pointwise(in_channels=1024), RELOAD | {"split_k": "8"}),
    **{
        f"reload split {parts}": _set(
            _pointwise(in_channels=16 * parts, out_channels=64, batch=1, in_extent=(5, 5), kernel=(2, 2)),
            RELOAD | {"split_k": str(parts), "cta_group": "1"},
            block_n=64,
        )
        for parts in (16, 24, 32, 48, 64, 96, 128)
    },
    "reload walk": _set(_pointwise(), WALK | ALONE | {"store": "direct", "rasterization_order": "boustrophedon"}),
    "reload walk stored": _set(
        _pointwise(),
        WALK | ALONE | {"store": "tma", "residual_load": "direct", "rasterization_order": "rows", "cache_hints": "off"},
        block_n=48,
        stages=2,
    ),
    "reload walk residual": _set(_pointwise(), WALK | ALONE | {"store": "tma", "residual_load": "tma", "pdl": True}),
    "reload dynamic tiles": _set(
        _pointwise(),
        RELOAD | ALONE | {"persistent": "on", "tile_scheduler": "dynamic", "store": "tma", "residual_load": "tma"},
        block_n=80,
        stages=2,
    ),
    "reload dynamic dependent": _set(
        _pointwise(), RELOAD | ALONE | {"persistent": "on", "tile_scheduler": "dynamic", "pdl": True}
    ),
    "reload hilbert": _set(_pointwise(), RELOAD | ALONE | {"rasterization_order": "hilbert", "store": "direct"}),
    "reload hilbert walk": _set(_pointwise(), WALK | ALONE | {"rasterization_order": "hilbert"}),
    "reload grouped hints": _set(
        _pointwise(), RELOAD | ALONE | {"rasterization_order": "grouped", "cache_hints": "on"}
    ),
    "reload columns": _set(_stem(), RELOAD | ALONE | {"columns": "overlap"}),
    "reload columns walk": _set(_stem(), WALK | ALONE | {"columns": "overlap"}),
    "reload columns host": _set(_stem(), RELOAD | {"columns": "host", "cta_group": "2"}),
    "reload stem": _set(_stem(), RELOAD | {"columns": "off", "multicast": "1x2"}),
    "reload columns multicast": _set(
        _stem(out_channels=128), RELOAD | {"columns": "overlap", "multicast": "2x1", "cta_group": "1"}
    ),
    # slide
    "slide": _set(_shared(), SLIDE | ALONE | {"border": "mask", "rows": "merged", "store": "direct"}, stages=2),
    "slide zero": _set(_shared(), SLIDE | ALONE | {"border": "zero", "rows": "outer", "store": "direct"}),
    "slide residual": _set(_shared(epilogue=ENDING), SLIDE | ALONE | {"store": "tma", "residual_load": "tma"}),
    "slide together": _set(_shared(), SLIDE | ALONE | {"filters": "together", "rows": "outer", "border": "mask"}),
    "slide apart": _set(
        _shared(), SLIDE | ALONE | {"filters": "apart", "rows": "outer", "border": "mask", "pdl": True}
    ),
    "slide pairs": _set(_shared(epilogue=ENDING), SLIDE | {"cta_group": "2"}, stages=2),
    "slide pairs mask": _set(
        _shared(epilogue=ENDING),
        SLIDE | {"cta_group": "2", "border": "mask", "store": "tma", "residual_load": "tma", "pdl": True},
    ),
    "slide walk": _set(_shared(epilogue=ENDING), SLIDE | ALONE | {"persistent": "on", "ctas": 2}, stages=2),
    "slide dynamic": _set(_shared(epilogue=ENDING), SLIDE | ALONE | {"persistent": "on", "tile_scheduler": "dynamic"}),
    "slide split": _set(_shared(in_channels=144), SLIDE | {"split_k": "2", "cta_group": "1"}),
    "slide multicast 2x1": _set(_shared(out_channels=96), SLIDE | {"multicast": "2x1", "cta_group": "1"}),
    "slide pairs walk": _set(_shared(epilogue=ENDING), SLIDE | {"cta_group": "2", "persistent": "on", "ctas": 2}),
    "slide pairs walk mask": _set(
        _shared(), SLIDE | {"cta_group": "2", "border": "mask", "rows": "merged", "persistent": "on", "ctas": 2}
    ),
    # shift
    "chain": _set(_shared(), CHAIN | ALONE | {"border": "zero", "rows": "outer", "store": "direct"}),
    "chain mask": _set(
        _shared(epilogue=ENDING), CHAIN | ALONE | {"border": "mask", "store": "tma", "residual_load": "tma"}
    ),
    "chain pairs": _set(_shared(epilogue=ENDING), CHAIN | {"cta_group": "2"}, stages=2),
    "chain dependent": _set(_shared(epilogue=ENDING), CHAIN | ALONE | {"pdl": True, "rows": "merged"}),
    "chain walk": _set(_shared(epilogue=ENDING), CHAIN | ALONE | {"persistent": "on", "ctas": 2}),
    "chain split": _set(_shared(in_channels=144), CHAIN | {"split_k": "2"}),
    "ashift": _set(_shared(), ASHIFT | ALONE | {"border": "mask", "rows": "outer"}),
    "ashift pairs": _set(_shared(epilogue=ENDING), ASHIFT | {"cta_group": "2"}),
    "ashift dependent": _set(_shared(epilogue=ENDING), ASHIFT | ALONE | {"pdl": True, "border": "zero"}),
    "windows": _set(_shared(), WINDOWS | ALONE | {"border": "mask", "rows": "outer"}),
    "windows lines": _set(
        _shared(epilogue=ENDING),
        WINDOWS | ALONE | {"border": "zero", "rows": "outer", "residual_load": "tma"},
        stages=3,
    ),
    "windows pairs": _set(_shared(epilogue=ENDING), WINDOWS | {"cta_group": "2"}),
    "windows dependent": _set(_shared(epilogue=ENDING), WINDOWS | ALONE | {"pdl": True}),
    "stationary": _set(_shared(), STATIONARY | {"border": "mask", "rows": "outer"}, stages=3),
    "stationary zero": _set(_shared(epilogue=ENDING), STATIONARY | {"border": "zero"}),
    "stationary dependent": _set(_shared(epilogue=ENDING), STATIONARY | {"pdl": True}),
    "stationary walk": _set(_shared(epilogue=ENDING), STATIONARY | {"persistent": "on", "ctas": 2}),
    "pixels summed": _set(weight_gradient(_shared(operand="bf16", bias=False)), RELOAD | ALONE | {"columns": "summed"}),
    # types
    "tf32": _set(_typed("tf32"), RELOAD | {"cta_group": "2"}),
    "bf16 slide": _set(_typed("bf16"), SLIDE | {"cta_group": "1"}),
    "e4m3 pairs": _set(_typed("e4m3"), RELOAD | {"cta_group": "2"}),
    "s8": _set(_typed("s8", bias=False), RELOAD | {"multicast": "1x2"}),
    "mxfp8": _set(_typed("mxfp8"), RELOAD | ALONE),
    "mxfp4": _set(_typed("mxfp4"), RELOAD | ALONE | {"store": "tma"}),
    "nvfp4": _set(_typed("nvfp4"), RELOAD | ALONE | {"pdl": True}),
    # hopper
    "hopper": _set(_pointwise(), RELOAD | HOPPER | ALONE | {"store": "direct"}, block_n=80, stages=2),
    "hopper walk": _set(_pointwise(), WALK | HOPPER | ALONE | {"store": "tma", "registers": "off"}),
    "hopper split": _set(_pointwise(in_channels=256), RELOAD | HOPPER | {"split_k": "2"}),
    "hopper multicast": _set(_pointwise(), RELOAD | HOPPER | {"multicast": "2x2"}, block_n=80, stages=2),
    "hopper multicast walk": _set(_pointwise(), WALK | HOPPER | {"multicast": "2x1", "ctas": 4}),
    "hopper registers": _set(
        _pointwise(in_channels=256, out_channels=256), RELOAD | HOPPER | ALONE | {"registers": "on"}
    ),
    "hopper slide": _set(_shared(epilogue=ENDING), SLIDE | HOPPER | {"pdl": True}),
    "hopper slide walk": _set(_shared(epilogue=ENDING), SLIDE | HOPPER | {"persistent": "on", "ctas": 2}),
    "hopper columns": _set(_stem(), RELOAD | HOPPER | {"columns": "overlap"}),
    "hopper dependent": _set(_pointwise(), RELOAD | HOPPER | ALONE | {"pdl": True, "store": "direct"}),
}
"""By name; what cannot be had together is left out, and `ScheduleOptions` says why where one asks for it."""
