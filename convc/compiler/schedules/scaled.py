"""The schedule ``reload`` where operands have scale factors: what it does besides.

load   brings the factors of both tiles of a stage as well
store  carries them to tensor memory, stage by stage, before it waits for the accumulator
mma    waits for these too
"""

from __future__ import annotations

from convc.compiler.plan.records import Plan
from convc.compiler.plan.scale_factors import FACTOR_A, FACTOR_B, FACTOR_BYTE, GROUP, columns_of, step_factors
from convc.compiler.schedules.kernel import compute
from convc.compiler.tile.steps.base import Advance, Compute, ExpectBytes, Loop, RingWait, Step, TmaLoad
from convc.compiler.tile.steps.scaled import Arrive, CarryFactors, MmaScaled, ScaleSums
from convc.ir.expr import Var
from convc.layout.device_layout import has_tensor_scale

TILES = ("scales_a", "scales_b")
MAPS = ("map_scales_a", "map_scales_b")


def load_factors(plan: Plan) -> tuple[Step, ...]:
    """Copies of the factors of a stage."""
    if plan.layout.blocks is None:
        return ()
    tiles = {tile.name: tile for tile in plan.storage.smem}
    a, b = MAPS
    return (
        compute(plan, "load", FACTOR_A),
        compute(plan, "load", FACTOR_B),
        ExpectBytes(
            id="load.expect_factors",
            note="the factors of both tiles",
            ring="landed",
            bytes=sum(tiles[name].bytes for name in TILES),
        ),
        TmaLoad(
            id="load.factors_a",
            note="behind the channels of the same pixels",
            map=a,
            tile=TILES[0],
            ring="landed",
            coords=(FACTOR_A, "start_w", "start_h", "start_n"),
            offsets=("off_w", "off_h"),
        ),
        TmaLoad(
            id="load.factors_b",
            note="behind the channels of the same tap",
            map=b,
            tile=TILES[1],
            ring="landed",
            coords=(FACTOR_B, "tap", "first_k"),
        ),
    )


def carry_factors(plan: Plan) -> tuple[Step, ...]:
    """What the warps that store do while the accumulator grows."""
    if plan.layout.blocks is None:
        return ()
    factors = step_factors(plan.layout, plan.tiling, plan.arch)
    carries = tuple(
        CarryFactors(
            id=f"store.{tile}",
            note=note,
            source=source,
            tile=tile,
            lane="own_row",
            first=FACTOR_BYTE,
            rows=rows,
            words=factors.words,
            spacing=columns_of(rows),
        )
        for source, tile, rows, note in (
            (TILES[0], "factors_a", plan.tiling.block_m, "of output pixels"),
            (TILES[1], "factors_b", plan.tiling.block_n, "of output channels"),
        )
    )
    body = (
        compute(plan, "store", FACTOR_BYTE),
        RingWait(id="store.landed", note="until the factors have landed", ring="landed", fresh=False),
        *carries,
        Arrive(id="store.ready", note="the factors are in tensor memory", ring="ready"),
        Advance(id="store.next", note="next stage", stages=plan.tiling.stages),
    )
    return (
        Compute(id="store.own_row", note="row of each group", dst="own_row", expr=Var("thread") % GROUP),
        Loop(id="store.carry", note="every stage that is loaded", var="k_step", count=plan.pipeline.steps, body=body),
    )


def wait_for_factors(plan: Plan) -> tuple[Step, ...]:
    """What the role that multiplies waits for besides the tiles."""
    if plan.layout.blocks is None:
        return ()
    return (RingWait(id="mma.ready", note="until the factors are in tensor memory", ring="ready", fresh=False),)


def multiply_scaled(plan: Plan) -> MmaScaled:
    """The multiplication of a stage."""
    tiling = plan.tiling
    return MmaScaled(
        id="mma.multiply",
        note="accumulate activations x filter rows, both times their factors",
        acc="acc",
        a="a",
        b="b",
        operand=plan.problem.operand,
        m=tiling.block_m,
        n=tiling.block_n,
        atoms=plan.pipeline.atoms,
        counter="k_step",
        factors_a="factors_a",
        factors_b="factors_b",
        spacing_a=columns_of(tiling.block_m),
        spacing_b=columns_of(tiling.block_n),
        each=step_factors(plan.layout, tiling, plan.arch).each,
    )


def scale_sums(plan: Plan, columns: int) -> tuple[ScaleSums, ...]:
    """The step that multiplies sums by the scales of whole tensors; the multipliers lie behind the bias."""
    if not has_tensor_scale(plan.layout):
        return ()
    return (
        ScaleSums(
            id="store.scale",
            note="the scales of both tensors",
            buffer="bias",
            first=plan.layout.bias.shape[-1],
            channel="k",
            columns=columns,
        ),
    )
