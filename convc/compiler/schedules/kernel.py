"""What all schedules have in common: the set-up of a CTA, its end, its launch, and its epilogue.

Warps 0 to 3 store, since a warp reads only the 32 lanes of tensor memory that belong to its number; one warp loads and
one multiplies.
"""

from __future__ import annotations

from typing import Literal

from convc.compiler.plan.records import SLAB, Plan
from convc.compiler.schedules.epilogue import RESIDUAL, epilogue_steps
from convc.compiler.schedules.epilogue_types import convert, requantise
from convc.compiler.tile.steps.base import (
    AddBias,
    Compute,
    CtaSync,
    GlobalStore,
    InitRings,
    Loop,
    PrefetchMaps,
    RingWait,
    Role,
    Step,
    TmemAlloc,
    TmemBase,
    TmemFree,
    TmemLoad,
)
from convc.compiler.tile.steps.quantise import Requantise
from convc.ir.expr import IntExpr, Var, substitute
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, TensorMapParam

LOAD_WARP = 4
MMA_WARP = 5
WARPS = 6
MAPS = ("map_a", "map_b", "map_scales_a", "map_scales_b")
"""Parameters for the tensor maps of `Loads.all`."""
BUFFER_OF = {"out": "output"}
"""Buffers that parameters point at, where the names differ."""
CHUNKS = (32, 16)
"""Columns that the epilogue reads at a time: the first that divides the tile (``tcgen05.ld`` takes powers of two)."""


def compute(
    plan: Plan,
    role: str,
    name: str,
    bits: Literal[32, 64] = 32,
    *,
    dst: str = "",
    id: str = "",
    **values: IntExpr,
) -> Compute:
    """The step that computes one of the plan's coordinates; `values` stand in for variables of its expression."""
    coordinate = next(c for c in plan.coordinates if c.name == name)
    return Compute(
        id=f"{role}.{id or dst or name}",
        note=coordinate.meaning,
        dst=dst or name,
        bits=bits,
        expr=substitute(coordinate.value, values) if values else coordinate.value,
    )


def channels_of(plan: Plan) -> str:
    """The number with the first activation channel of a block: with groups, another than the filter's."""
    return SLAB if plan.problem.groups > 1 else "c"


def block_channels(plan: Plan) -> tuple[Compute, ...]:
    """The steps that compute a block's first channel, of the filter and of the activations."""
    return tuple(compute(plan, "load", name) for name in dict.fromkeys(("c", channels_of(plan))))


def setup(plan: Plan, before: tuple[Role, ...] = (), after: tuple[Role, ...] = ()) -> tuple[Role, ...]:
    """Barriers and tensor memory, and whatever else comes `before` everyone meets, or `after` that."""
    rings = tuple(ring.name for ring in plan.storage.rings)
    arrivals = "one arrival" if all(ring.arrivals == 1 for ring in plan.storage.rings) else "its arrivals"
    return (
        Role(
            name="init",
            first_warp=LOAD_WARP,
            last_warp=LOAD_WARP,
            elected=True,
            note="make the barriers ready",
            steps=(
                PrefetchMaps(id="init.maps", note="fetch the tensor maps early", maps=maps_of(plan)),
                InitRings(id="init.rings", note=f"every barrier waits for {arrivals} a phase", rings=rings),
            ),
        ),
        Role(
            name="alloc",
            first_warp=MMA_WARP,
            last_warp=MMA_WARP,
            elected=False,
            note="get tensor memory",
            steps=(
                TmemAlloc(id="alloc.tmem", note="the address goes to shared memory", columns=plan.storage.tmem_columns),
            ),
        ),
        *before,
        Role(
            name="start",
            first_warp=0,
            last_warp=WARPS - 1,
            elected=False,
            note="all roles begin together",
            steps=(
                CtaSync(id="start.sync", note="barriers and tensor memory are ready"),
                TmemBase(id="start.tmem", note="where the tensor memory begins"),
            ),
        ),
        *after,
    )


def main(load: tuple[Step, ...], multiply: tuple[Step, ...], store: tuple[Step, ...]) -> tuple[Role, Role, Role]:
    """The three roles that run side by side."""
    return (
        Role(
            name="load",
            first_warp=LOAD_WARP,
            last_warp=LOAD_WARP,
            elected=True,
            note="copies operand tiles into shared memory",
            steps=load,
        ),
        Role(
            name="mma",
            first_warp=MMA_WARP,
            last_warp=MMA_WARP,
            elected=True,
            note="multiplies them into the accumulator",
            steps=multiply,
        ),
        Role(
            name="store",
            first_warp=0,
            last_warp=3,
            elected=False,
            note="carries the accumulator to global memory",
            steps=store,
        ),
    )


def teardown(plan: Plan) -> tuple[Role, ...]:
    """Everyone meets, then the tensor memory goes back."""
    return (
        Role(
            name="end",
            first_warp=0,
            last_warp=WARPS - 1,
            elected=False,
            note="nobody leaves before the work is done",
            steps=(CtaSync(id="end.sync", note="the accumulator has been read"),),
        ),
        Role(
            name="free",
            first_warp=MMA_WARP,
            last_warp=MMA_WARP,
            elected=False,
            note="give tensor memory back",
            steps=(TmemFree(id="free.tmem", note="all of it", columns=plan.storage.tmem_columns),),
        ),
    )


def maps_of(plan: Plan) -> tuple[str, ...]:
    """Names of the parameters that are tensor maps, in order."""
    return MAPS[: len(plan.loads.all)]


def pointers(plan: Plan) -> tuple[str, ...]:
    """Names of the parameters that point at buffers, in order."""
    return ("bias", *([RESIDUAL] if plan.problem.residual else []), "out")


def launch(plan: Plan) -> LaunchSpec:
    """The launch file: buffers as the host packs them, parameters as the kernel takes them."""
    layout = plan.layout
    buffers = {"activation": layout.activation, "filter": layout.filter, "bias": layout.bias, "output": layout.output}
    if layout.residual is not None:
        buffers[RESIDUAL] = layout.residual
    return LaunchSpec(
        entry=plan.launch.entry,
        grid=plan.launch.grid,
        block=(plan.launch.threads, 1, 1),
        shared_bytes=plan.storage.smem_bytes,
        buffers={name: BufferSpec(dtype=buffer.dtype, shape=buffer.shape) for name, buffer in buffers.items()},
        params=(
            *(TensorMapParam(map=tensor_map) for tensor_map in plan.loads.all),
            *(PointerParam(buffer=BUFFER_OF.get(name, name)) for name in pointers(plan)),
        ),
    )


def chunk_of(plan: Plan) -> int:
    """Columns that the epilogue reads at a time."""
    return next(chunk for chunk in CHUNKS if plan.tiling.block_n % chunk == 0)


def store(plan: Plan, before: tuple[Step, ...] = (), scaled: tuple[Step, ...] = ()) -> tuple[Step, ...]:
    """Every lane carries one row of the accumulator, some columns at a time.

    Args:
        before: what the role does until the accumulator is complete.
        scaled: steps on the sums before the bias is added.
    """
    columns = chunk_of(plan)
    out = plan.problem.out
    write = GlobalStore(
        id="store.write",
        note="16 bytes at a time",
        buffer="out",
        at="out_byte",
        out=out,
        columns=columns,
        row="m",
        row_limit=plan.row_limit,
        channel="k",
        channel_limit=plan.channel_limit,
    )
    rounded = list(convert(plan, columns))
    place = [compute(plan, "store", "out_byte", 64)]
    epilogue = list(epilogue_steps(plan.problem.epilogue, write))
    body = [
        Compute(id="store.column", note="first column of the chunk", dst="column", expr=Var("chunk") * columns),
        compute(plan, "store", "k"),
        TmemLoad(id="store.read", note="one row a lane", acc="acc", first="column", columns=columns),
        *scaled,
        AddBias(
            id="store.bias",
            note="one number a channel",
            buffer="bias",
            channel="k",
            columns=columns,
            dtype=plan.problem.sum_dtype.name,
        ),
        *requantise(plan, columns, Requantise),
        *(place + epilogue + rounded if plan.problem.residual else epilogue + rounded + place),
        write,
    ]
    count = plan.tiling.block_n // columns
    return (
        Compute(id="store.lane", note="warp w reads lanes 32*w to 32*w + 31", dst="lane", expr=Var("thread")),
        compute(plan, "store", "m"),
        *before,
        RingWait(id="store.wait", note="until the accumulator is complete", ring="done", fresh=False),
        Loop(id="store.chunks", note=f"{columns} columns at a time", var="chunk", count=count, body=tuple(body)),
    )
