"""From a plan to a tile program: the schedule ``reload`` of a convolution, written down step by step.

    load   for every filter tap and channel block: wait for a free stage, copy an activation tile and a filter tile
    mma    for every stage that has landed: multiply it into the accumulator, give the stage back
    store  when the accumulator is complete: read it, add the bias, round, write rows of channels

This is "Algorithm 2" of implicit GEMM: every tap loads its own activation tile, and the copy engine does the im2col.
"""

from __future__ import annotations

from typing import Literal

from convc.artifact import BufferSpec, LaunchSpec, PointerParam, TensorMapParam
from convc.intexpr import Var
from convc.plan.records import Plan
from convc.tile.steps import (
    AddBias,
    Advance,
    Commit,
    Compute,
    Convert,
    CtaSync,
    ExpectBytes,
    GlobalStore,
    InitRings,
    Loop,
    Mma,
    PrefetchMaps,
    Range,
    RingWait,
    Role,
    Step,
    TileProgram,
    TmaLoad,
    TmemAlloc,
    TmemBase,
    TmemFree,
    TmemLoad,
)

LOAD_WARP = 4
MMA_WARP = 5
WARPS = 6
MAPS = ("map_a", "map_b")
CHUNKS = (32, 16)
"""Columns that the epilogue reads at a time: the first that divides the tile (``tcgen05.ld`` takes powers of two)."""


def build(plan: Plan) -> TileProgram:
    """The program of a plan."""
    grid = plan.launch.grid
    return TileProgram(
        name=plan.problem.name,
        title=plan.problem.describe(),
        schedule=plan.schedule,
        arch=plan.arch.name,
        ptx_version=plan.arch.ptx_version,
        warps=WARPS,
        params=(*MAPS, "bias", "out"),
        inputs=(
            Range(name="tile_m", low=0, high=grid[0] - 1),
            Range(name="tile_n", low=0, high=grid[1] - 1),
            Range(name="warp", low=0, high=WARPS - 1),
            Range(name="thread", low=0, high=32 * WARPS - 1),
        ),
        setup=_setup(plan),
        roles=(
            Role(
                name="load", first_warp=LOAD_WARP, last_warp=LOAD_WARP, elected=True,
                note="copies operand tiles into shared memory", steps=_load(plan),
            ),
            Role(
                name="mma", first_warp=MMA_WARP, last_warp=MMA_WARP, elected=True,
                note="multiplies them into the accumulator", steps=_mma(plan),
            ),
            Role(
                name="store", first_warp=0, last_warp=3, elected=False,
                note="carries the accumulator to global memory", steps=_store(plan),
            ),
        ),
        teardown=_teardown(plan),
        storage=plan.storage,
        launch=_launch(plan),
    )  # fmt: skip


def _setup(plan: Plan) -> tuple[Role, ...]:
    """Barriers and tensor memory, then everyone meets."""
    rings = tuple(ring.name for ring in plan.storage.rings)
    return (
        Role(
            name="init", first_warp=LOAD_WARP, last_warp=LOAD_WARP, elected=True, note="make the barriers ready",
            steps=(
                PrefetchMaps(id="init.maps", note="fetch the tensor maps early", maps=MAPS),
                InitRings(id="init.rings", note="every barrier waits for one arrival a phase", rings=rings),
            ),
        ),
        Role(
            name="alloc", first_warp=MMA_WARP, last_warp=MMA_WARP, elected=False, note="get tensor memory",
            steps=(
                TmemAlloc(
                    id="alloc.tmem", note="the address goes to shared memory", columns=plan.storage.tmem_columns
                ),
            ),
        ),
        Role(
            name="start", first_warp=0, last_warp=WARPS - 1, elected=False, note="all roles begin together",
            steps=(
                CtaSync(id="start.sync", note="barriers and tensor memory are ready"),
                TmemBase(id="start.tmem", note="where the tensor memory begins"),
            ),
        ),
    )  # fmt: skip


def _teardown(plan: Plan) -> tuple[Role, ...]:
    """Everyone meets, then the tensor memory goes back."""
    return (
        Role(
            name="end", first_warp=0, last_warp=WARPS - 1, elected=False, note="nobody leaves before the work is done",
            steps=(CtaSync(id="end.sync", note="the accumulator has been read"),),
        ),
        Role(
            name="free", first_warp=MMA_WARP, last_warp=MMA_WARP, elected=False, note="give tensor memory back",
            steps=(TmemFree(id="free.tmem", note="all of it", columns=plan.storage.tmem_columns),),
        ),
    )  # fmt: skip


def _launch(plan: Plan) -> LaunchSpec:
    """The launch file: buffers as the host packs them, parameters as the kernel takes them."""
    form = plan.form
    buffers = {"activation": form.activation, "filter": form.filter, "bias": form.bias, "output": form.output}
    return LaunchSpec(
        entry=plan.launch.entry,
        grid=plan.launch.grid,
        block=(plan.launch.threads, 1, 1),
        shared_bytes=plan.storage.smem_bytes,
        buffers={name: BufferSpec(dtype=buffer.dtype, shape=buffer.shape) for name, buffer in buffers.items()},
        params=(
            TensorMapParam(map=plan.loads.a),
            TensorMapParam(map=plan.loads.b),
            PointerParam(buffer="bias"),
            PointerParam(buffer="output"),
        ),
    )


def _compute(plan: Plan, role: str, name: str, bits: Literal[32, 64] = 32) -> Compute:
    """The step that computes one of the plan's coordinates."""
    coordinate = next(c for c in plan.coordinates if c.name == name)
    return Compute(id=f"{role}.{name}", note=coordinate.meaning, dst=name, expr=coordinate.value, bits=bits)


def _load(plan: Plan) -> tuple[Step, ...]:
    """Copy an activation tile and a filter tile for every filter tap and channel block."""
    (rows, columns), blocks = plan.pipeline.taps, plan.pipeline.blocks
    stage = (
        _compute(plan, "load", "c"),
        RingWait(id="load.wait", note="until the stage is free", ring="free", fresh=True),
        ExpectBytes(
            id="load.expect", note="both tiles of the stage", ring="full", bytes=plan.pipeline.step_bytes
        ),
        TmaLoad(
            id="load.a", note="this tap's pixels, this block's channels", map="map_a", tile="a", ring="full",
            coords=("c", "start_w", "start_h", "start_n"), offsets=("off_w", "off_h"),
        ),
        TmaLoad(
            id="load.b", note="filter rows of this tap and block", map="map_b", tile="b", ring="full",
            coords=("c", "tap", "first_k"),
        ),
        Advance(id="load.next", note="next stage", stages=plan.tiling.stages),
    )  # fmt: skip
    column = (
        _compute(plan, "load", "off_w"),
        _compute(plan, "load", "tap"),
        Loop(id="load.blocks", note="channel blocks", var="block", count=blocks, body=stage),
    )
    row = (
        _compute(plan, "load", "off_h"),
        Loop(id="load.columns", note="filter columns", var="s", count=columns, body=column),
    )
    starts = (_compute(plan, "load", name) for name in ("start_w", "start_h", "start_n", "first_k"))
    return (*starts, Loop(id="load.rows", note="filter rows", var="r", count=rows, body=row))


def _mma(plan: Plan) -> tuple[Step, ...]:
    """Multiply stage after stage; the last commit says that the accumulator is complete."""
    tiling, pipeline = plan.tiling, plan.pipeline
    body = (
        RingWait(id="mma.wait", note="until both tiles have landed", ring="full", fresh=False),
        Mma(
            id="mma.multiply", note="accumulate activations x filter rows", acc="acc", a="a", b="b",
            operand=plan.problem.operand, m=tiling.block_m, n=tiling.block_n, atoms=pipeline.atoms, counter="k_step",
        ),
        Commit(id="mma.release", note="the stage is free once it has been multiplied", ring="free"),
        Advance(id="mma.next", note="next stage", stages=tiling.stages),
    )  # fmt: skip
    return (
        Loop(id="mma.k", note="every stage that is loaded", var="k_step", count=pipeline.steps, body=body),
        Commit(id="mma.done", note="the accumulator is complete", ring="done"),
    )


def _store(plan: Plan) -> tuple[Step, ...]:
    """Every lane carries one row of the accumulator, some columns at a time."""
    columns = next(chunk for chunk in CHUNKS if plan.tiling.block_n % chunk == 0)
    out = plan.problem.out
    body = [
        Compute(
            id="store.column", note="first column of the chunk", dst="column", expr=Var("chunk") * columns
        ),
        _compute(plan, "store", "k"),
        TmemLoad(id="store.read", note="one row a lane", acc="acc", first="column", columns=columns),
        AddBias(id="store.bias", note="one number a channel", buffer="bias", channel="k", columns=columns),
        _compute(plan, "store", "out_byte", 64),
        GlobalStore(
            id="store.write", note="16 bytes at a time", buffer="out", at="out_byte", out=out, columns=columns,
            row="m", row_limit=plan.row_limit, channel="k", channel_limit=plan.channel_limit,
        ),
    ]  # fmt: skip
    if out != "f32":
        body.insert(4, Convert(id="store.round", note=f"to {out}, two a word", out=out, columns=columns))
    count = plan.tiling.block_n // columns
    return (
        Compute(id="store.lane", note="warp w reads lanes 32*w to 32*w + 31", dst="lane", expr=Var("thread")),
        _compute(plan, "store", "m"),
        RingWait(id="store.wait", note="until the accumulator is complete", ring="done", fresh=False),
        Loop(id="store.chunks", note=f"{columns} columns at a time", var="chunk", count=count, body=tuple(body)),
    )
