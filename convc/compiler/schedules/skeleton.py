"""The common part of all schedules: the set-up of a CTA, its end, its parameters and its launch.

Warps 0 to 3 are the epilogue, since a warp reads only the 32 lanes of tensor memory that belong to its number; one warp
loads and one multiplies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeVar

from convc.compiler.plan.coordinates import Coordinate, Coordinates
from convc.compiler.plan.names import MapName, NewNumber, Number, PointerName, RingName
from convc.compiler.plan.records import Plan
from convc.compiler.schedules.base import Roles
from convc.compiler.tile.program import Role
from convc.compiler.tile.steps.base import (
    Compute,
    CtaSync,
    InitRings,
    PrefetchMaps,
    Step,
    TmemAlloc,
    TmemBase,
    TmemDealloc,
)
from convc.ir.expr import IntExpr, bounds, substitute
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, TensorMapParam

LOAD_WARP = 4
MMA_WARP = 5
WARPS = 6
THREADS = 32 * WARPS
EPILOGUE_THREADS = 128

MAP_A = MapName("map_a")
MAP_B = MapName("map_b")
MAP_SCALES_A = MapName("map_scales_a")
MAP_SCALES_B = MapName("map_scales_b")
MAPS = (MAP_A, MAP_B, MAP_SCALES_A, MAP_SCALES_B)
"""Parameters for the tensor maps over operands, in the order of `Loads.all`."""
MAP_OUT = MapName("map_out")

BIAS = PointerName("bias")
RESIDUAL = PointerName("residual")
OUT = PointerName("out")
BUFFER_OF = {OUT: "output"}
"""Buffers that parameters point at, where the names differ."""

DONE = RingName("done")
"""The ring that says that the accumulator is complete."""

T = TypeVar("T", bound=Step)


def compute(
    coordinate: Coordinate, role: str, bits: Literal[32, 64] = 32, *, dst: Number | None = None, **values: IntExpr
) -> Compute:
    """Make the step that computes a coordinate.

    Args:
        coordinate: what to compute.
        role: which role does it; the step's id begins with its name.
        bits: width of the number.
        dst: what the number is called, where that is not the coordinate's name.
        values: what stands in for variables of its expression.
    """
    name = dst or coordinate.name
    return Compute(
        id=f"{role}.{name}",
        note=coordinate.meaning,
        dst=NewNumber(name),
        bits=bits,
        expr=substitute(coordinate.value, values) if values else coordinate.value,
    )


def pixel_bits(plan: Plan) -> Literal[32, 64]:
    """Width of the number of a lane's output pixel: 64 where its arithmetic may leave a signed 32-bit register."""
    ranges = {
        "tile_m": (0, plan.launch.grid[0] - 1),
        "lane": (0, max(plan.tiling.block_m, plan.arch.limits.tmem_lanes) - 1),
    }
    low, high = bounds(plan.indexing.coordinates.m.value, ranges)
    return 32 if low >= -(2**31) and high < 2**31 else 64


def number(name: str) -> NewNumber:
    """A number of that name, for the step that makes it and for those that read it."""
    return NewNumber(Number(name))


def about(column: IntExpr | None, *steps: Step) -> tuple[Step, ...]:
    """Say of steps which filter column they are about."""
    return tuple(replace(step, column=column) for step in steps)


def channels_of(coordinates: Coordinates) -> Coordinate:
    """The first activation channel of a block: with groups, another number than the filter's."""
    return coordinates.c if coordinates.pack_c is None else coordinates.pack_c


def block_channels(coordinates: Coordinates) -> tuple[Compute, ...]:
    """The steps that compute a block's first channel, of the filter and of the activations."""
    filters = compute(coordinates.c, "load")
    return (filters,) if coordinates.pack_c is None else (filters, compute(coordinates.pack_c, "load"))


def setup(plan: Plan, roles: Roles) -> tuple[Role, ...]:
    """Barriers and tensor memory, and whatever else the schedule needs before the roles begin."""
    rings = tuple(ring.name for ring in plan.storage.rings)
    arrivals = "one arrival" if all(ring.arrivals == 1 for ring in plan.storage.rings) else "its arrivals"
    init = Role(
        name="init",
        first_warp=LOAD_WARP,
        last_warp=LOAD_WARP,
        elected=True,
        note="make the barriers ready",
        steps=(
            PrefetchMaps(id="init.maps", note="fetch the tensor maps early", maps=maps_of(plan)),
            InitRings(id="init.rings", note=f"every barrier waits for {arrivals} a phase", rings=rings),
        ),
    )
    alloc = Role(
        name="alloc",
        first_warp=MMA_WARP,
        last_warp=MMA_WARP,
        elected=False,
        note="get tensor memory",
        steps=(
            TmemAlloc(id="alloc.tmem", note="the address goes to shared memory", columns=plan.storage.tmem_columns),
        ),
    )
    start = Role(
        name="start",
        first_warp=0,
        last_warp=WARPS - 1,
        elected=False,
        note="all roles begin together",
        steps=(
            CtaSync(id="start.sync", note="barriers and tensor memory are ready"),
            TmemBase(id="start.tmem", note="where the tensor memory begins"),
        ),
    )
    return (init, alloc, *roles.before, start, *roles.after)


def main(roles: Roles) -> tuple[Role, ...]:
    """The three roles that run side by side."""
    load = Role(
        name="load",
        first_warp=LOAD_WARP,
        last_warp=LOAD_WARP,
        elected=True,
        note="copies operand tiles into shared memory",
        steps=roles.load,
    )
    multiply = Role(
        name="mma",
        first_warp=MMA_WARP,
        last_warp=MMA_WARP,
        elected=True,
        note="multiplies them into the accumulator",
        steps=roles.multiply,
    )
    epilogue = Role(
        name="epilogue",
        first_warp=0,
        last_warp=3,
        elected=False,
        note="carries the accumulator to global memory",
        steps=roles.epilogue,
    )
    return (load, multiply, epilogue)


def teardown(plan: Plan) -> tuple[Role, ...]:
    """Everyone meets, then the tensor memory goes back."""
    end = Role(
        name="end",
        first_warp=0,
        last_warp=WARPS - 1,
        elected=False,
        note="nobody leaves before the work is done",
        steps=(CtaSync(id="end.sync", note="the accumulator has been read"),),
    )
    dealloc = Role(
        name="dealloc",
        first_warp=MMA_WARP,
        last_warp=MMA_WARP,
        elected=False,
        note="give tensor memory back",
        steps=(TmemDealloc(id="dealloc.tmem", note="all of it", columns=plan.storage.tmem_columns),),
    )
    return (end, dealloc)


def maps_of(plan: Plan) -> tuple[MapName, ...]:
    """Names of the parameters that are tensor maps, in order."""
    loads = plan.indexing.loads
    read = MAPS[: 2 + len(loads.factors)]
    return read if loads.out is None else (*read, MAP_OUT)


def pointers(plan: Plan) -> tuple[PointerName, ...]:
    """Names of the parameters that point at buffers, in order."""
    read = (BIAS, RESIDUAL) if plan.problem.residual else (BIAS,)
    return (*read, OUT) if plan.indexing.loads.out is None else read


def launch(plan: Plan) -> LaunchSpec:
    """The launch file: buffers as the host packs them, parameters as the kernel takes them."""
    layout = plan.layout
    buffers = {
        "activation": layout.activation,
        "filter": layout.filter,
        "bias": layout.bias,
        "output": layout.output,
    }
    if layout.residual is not None:
        buffers[RESIDUAL] = layout.residual
    return LaunchSpec(
        entry=plan.launch.entry,
        grid=plan.launch.grid,
        block=(plan.launch.threads, 1, 1),
        shared_bytes=plan.storage.smem_bytes,
        buffers={name: BufferSpec(dtype=buffer.dtype, shape=buffer.shape) for name, buffer in buffers.items()},
        params=(
            *(TensorMapParam(map=tensor_map) for tensor_map in plan.indexing.loads.all),
            *(PointerParam(buffer=BUFFER_OF.get(name, name)) for name in pointers(plan)),
        ),
    )
