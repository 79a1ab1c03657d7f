"""The schedule ``reload`` as roles: a fresh activation tile and a fresh filter tile for every tap and channel block."""

from __future__ import annotations

from convc.compiler.plan.records import Plan
from convc.compiler.schedules.kernel import block_channels, channels_of, compute
from convc.compiler.schedules.scaled import load_factors, multiply_scaled, wait_for_factors
from convc.compiler.tile.steps.base import Advance, Commit, ExpectBytes, Loop, Mma, RingWait, Step, TmaLoad


def load(plan: Plan) -> tuple[Step, ...]:
    """Copy an activation tile and a filter tile for every filter tap and channel block."""
    (rows, columns), blocks = plan.pipeline.taps, plan.pipeline.blocks
    stage = (
        *block_channels(plan),
        RingWait(id="load.wait", note="until the stage is free", ring="free", fresh=True),
        ExpectBytes(
            id="load.expect",
            note="both tiles of the stage",
            ring="full",
            bytes=sum(tile.bytes for tile in plan.storage.smem if tile.name in ("a", "b")),
        ),
        TmaLoad(
            id="load.a",
            note="this tap's pixels, this block's channels",
            map="map_a",
            tile="a",
            ring="full",
            coords=(channels_of(plan), "start_w", "start_h", "start_n"),
            offsets=("off_w", "off_h"),
        ),
        TmaLoad(
            id="load.b",
            note="filter rows of this tap and block",
            map="map_b",
            tile="b",
            ring="full",
            coords=("c", "tap", "first_k"),
        ),
        *load_factors(plan),
        Advance(id="load.next", note="next stage", stages=plan.tiling.stages),
    )
    column = (
        compute(plan, "load", "off_w"),
        compute(plan, "load", "tap"),
        Loop(id="load.blocks", note="channel blocks", var="block", count=blocks, body=stage),
    )
    row = (
        compute(plan, "load", "off_h"),
        Loop(id="load.columns", note="filter columns", var="s", count=columns, body=column),
    )
    starts = (compute(plan, "load", name) for name in ("start_w", "start_h", "start_n", "first_k"))
    return (*starts, Loop(id="load.rows", note="filter rows", var="r", count=rows, body=row))


def multiply(plan: Plan) -> tuple[Step, ...]:
    """Multiply stage after stage; the last commit says that the accumulator is complete."""
    tiling, pipeline = plan.tiling, plan.pipeline
    body = (
        RingWait(id="mma.wait", note="until both tiles have landed", ring="full", fresh=False),
        *wait_for_factors(plan),
        _multiply(plan) if plan.layout.blocks is None else multiply_scaled(plan),
        Commit(id="mma.release", note="the stage is free once it has been multiplied", ring="free"),
        Advance(id="mma.next", note="next stage", stages=tiling.stages),
    )
    return (
        Loop(id="mma.k", note="every stage that is loaded", var="k_step", count=pipeline.steps, body=body),
        Commit(id="mma.done", note="the accumulator is complete", ring="done"),
    )


def _multiply(plan: Plan) -> Mma:
    tiling = plan.tiling
    return Mma(
        id="mma.multiply",
        note="accumulate activations x filter rows",
        acc="acc",
        a="a",
        b="b",
        operand=plan.problem.operand,
        m=tiling.block_m,
        n=tiling.block_n,
        atoms=plan.pipeline.atoms,
        counter="k_step",
        filter_operand=plan.problem.filter_operand,
    )
