"""The schedule ``reload`` where operands have scale factors: what it does besides.

load   brings the factors of both tiles of a stage as well
epilogue  carries them to tensor memory, stage by stage, before it waits for the accumulator
mma    waits for these too
"""

from __future__ import annotations

from convc.compiler.index.kernel_nest import KernelNest
from convc.compiler.index.shares import share
from convc.compiler.plan.coordinates import TapCoordinates
from convc.compiler.plan.names import ACC, A, B, NewNumber
from convc.compiler.plan.records import Plan
from convc.compiler.plan.scale_factors import (
    FACTORS_A,
    FACTORS_B,
    GROUP,
    LANDED,
    READY,
    SCALES_A,
    SCALES_B,
    columns_of,
    step_factors,
)
from convc.compiler.schedules.skeleton import MAP_SCALES_A, MAP_SCALES_B, compute, number
from convc.compiler.tile.steps.base import Compute, Loop, Step
from convc.compiler.tile.steps.copies import TmaLoad
from convc.compiler.tile.steps.lanes import CarryFactors
from convc.compiler.tile.steps.mma import MmaScaled
from convc.compiler.tile.steps.rings import Advance, Arrive, ExpectBytes, RingWait
from convc.host_layout.block_scaled import BlockFormat


def load_factors(plan: Plan, coordinates: TapCoordinates) -> tuple[Step, ...]:
    """Copies of the factors of a stage."""
    factors = coordinates.factors
    if factors is None:
        return ()
    start = coordinates.start_w, coordinates.start_h, coordinates.start_n
    return (
        compute(factors.factor_a, "load"),
        compute(factors.factor_b, "load"),
        ExpectBytes(
            id="load.expect_factors",
            note="the factors of both tiles",
            ring=LANDED,
            bytes=sum(plan.storage.smem_tile(name).bytes for name in (SCALES_A, SCALES_B)),
        ),
        TmaLoad(
            id="load.factors_a",
            note="scale factors of the same pixels",
            map=MAP_SCALES_A,
            tile=SCALES_A,
            ring=LANDED,
            coords=(factors.factor_a.name, *(each.name for each in start)),
            offsets=(coordinates.off_w.name, coordinates.off_h.name),
        ),
        TmaLoad(
            id="load.factors_b",
            note="scale factors of the same tap",
            map=MAP_SCALES_B,
            tile=SCALES_B,
            ring=LANDED,
            coords=(factors.factor_b.name, coordinates.tap.name, coordinates.first_k.name),
        ),
    )


def carry_factors(plan: Plan, nest: KernelNest, coordinates: TapCoordinates) -> tuple[Step, ...]:
    """Carry factors to tensor memory while the accumulator grows."""
    factors = coordinates.factors
    blocks = plan.layout.blocks
    if factors is None or blocks is None:
        return ()
    words = step_factors(blocks, plan.tiling, plan.arch).words
    own_row = number("own_row")
    own = share("row of a group", "row", GROUP_ROWS=GROUP)
    carries = tuple(
        CarryFactors(
            id=f"epilogue.{tile}",
            note=note,
            source=source,
            tile=tile,
            lane=own_row,
            first=factors.factor_byte.name,
            rows=rows,
            words=words,
            spacing=columns_of(rows),
        )
        for source, tile, rows, note in (
            (SCALES_A, FACTORS_A, plan.tiling.block_m, "of output pixels"),
            (SCALES_B, FACTORS_B, plan.tiling.block_n, "of output channels"),
        )
    )
    body = (
        compute(factors.factor_byte, "epilogue"),
        RingWait(id="epilogue.landed", note="until the factors have landed", ring=LANDED, starts_open=False),
        *carries,
        Arrive(id="epilogue.ready", note="the factors are in tensor memory", ring=READY),
        Advance(id="epilogue.next", note="next stage", stages=plan.tiling.b_stages),
    )
    stages = "every stage that is loaded"
    return (
        Compute(id="epilogue.own_row", note="row of each group", dst=own_row, expr=own),
        Loop(id="epilogue.carry", note=stages, var=number("k_step"), count=nest.turns, body=body),
    )


def wait_for_factors(plan: Plan) -> tuple[Step, ...]:
    """Wait for the factors besides the tiles."""
    if plan.layout.blocks is None:
        return ()
    return (RingWait(id="mma.ready", note="until the factors are in tensor memory", ring=READY, starts_open=False),)


def multiply_scaled(plan: Plan, blocks: BlockFormat, counter: NewNumber) -> MmaScaled:
    """The multiplication of a stage."""
    tiling = plan.tiling
    return MmaScaled(
        id="mma.multiply",
        note="accumulate activations x filter rows, both times their factors",
        acc=ACC,
        a=A,
        b=B,
        operand=plan.problem.operand,
        m=tiling.block_m,
        n=tiling.block_n,
        atoms=plan.pipeline.atoms,
        counter=counter,
        factors_a=FACTORS_A,
        factors_b=FACTORS_B,
        spacing_a=columns_of(tiling.block_m),
        spacing_b=columns_of(tiling.block_n),
        each=step_factors(blocks, tiling, plan.arch).each,
    )
