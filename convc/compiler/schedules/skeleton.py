"""The common part of all schedules: numbers, roles, the parameters of a kernel and its launch."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from convc.compiler.plan.coordinates import Coordinate, RowCoordinates, TapCoordinates
from convc.compiler.plan.names import MapName, NewNumber, Number, PointerName
from convc.compiler.plan.records import Plan
from convc.compiler.plan.split import kept_shape
from convc.compiler.tile.program import Role
from convc.compiler.tile.steps.base import Compute, Step
from convc.compiler.tile.steps.setup import AwaitGrid, InitRings, PrefetchMaps, ReleaseGrid
from convc.ir.arch import SM_100A
from convc.ir.expr import IntExpr, bounds, substitute
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, TensorMapParam

EPILOGUE_THREADS = SM_100A.limits.tmem_lanes

MAP_A = MapName("map_a")
MAP_B = MapName("map_b")
MAP_SCALES_A = MapName("map_scales_a")
MAP_SCALES_B = MapName("map_scales_b")
MAPS = (MAP_A, MAP_B, MAP_SCALES_A, MAP_SCALES_B)
"""Parameters for the tensor maps over operands, in the order of `Loads.all`."""
MAP_OUT = MapName("map_out")
MAP_RESIDUAL = MapName("map_residual")

BIAS = PointerName("bias")
RESIDUAL = PointerName("residual")
OUT = PointerName("out")
WORKSPACE = PointerName("workspace")
COUNTERS = PointerName("counters")
IN_FRONT = ("activation", RESIDUAL, "output", WORKSPACE, COUNTERS)
"""Buffers that the preceding kernel may write or, where memory is used again, read; weights are the host's."""
BUFFER_OF = {OUT: "output"}
"""Buffers that parameters point at, where the names differ."""

TURN = NewNumber(Number("turn"))
"""Counts the steps of a CTA's part of the K loop, where several share a tile."""

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
        "tile_m": (0, plan.launch.tiles[0] - 1),
        "lane": (0, max(plan.tiling.block_m, plan.arch.limits.tmem_lanes) - 1),
    }
    low, high = bounds(plan.indexing.coordinates.m.value, ranges)
    return 32 if low >= -(2**31) and high < 2**31 else 64


def shares_blocks(plan: Plan) -> bool:
    """Whether the split-K CTAs have as many channel blocks each, of every filter tap."""
    return plan.launch.parts > 1 and plan.pipeline.blocks % plan.launch.parts == 0


def like(kind: type[T], step: Step, **own: Any) -> T:
    """Make a step of a kind with what it has in common with another one, and fields of its own."""
    common = {name: getattr(step, name) for name in kind.__struct_fields__ if hasattr(step, name)}
    return kind(**(common | own))


def warps_role(name: str, last_warp: int, note: str, steps: tuple[Step, ...]) -> Role:
    """Make a role of whole warps, from the first one on."""
    return Role(name=name, first_warp=0, last_warp=last_warp, elected=False, note=note, steps=steps)


def one_warp(name: str, warp: int, note: str, steps: tuple[Step, ...], *, elected: bool = False) -> Role:
    """Make a role of one warp, or of one lane of it."""
    return Role(name=name, first_warp=warp, last_warp=warp, elected=elected, note=note, steps=steps)


def number(name: str) -> NewNumber:
    """A number of that name, for the step that makes it and for those that read it."""
    return NewNumber(Number(name))


def about(column: IntExpr | None, *steps: Step) -> tuple[Step, ...]:
    """Say of steps which filter column they are about."""
    return tuple(replace(step, column=column) for step in steps)


def channels_of(coordinates: TapCoordinates | RowCoordinates) -> Coordinate:
    """The first activation channel of a block: with groups, another number than the filter's."""
    return coordinates.c if coordinates.pack_c is None else coordinates.pack_c


def start_of(plan: Plan, warp: int) -> tuple[Role, ...]:
    """The roles of a warp that fetch the tensor maps and make the barriers ready, by its lanes or by one of them.

    Where lanes do, the maps come second: the warp meets behind the lane that fetches them, and so behind all barriers,
    of which the lane that copies will use those of others.
    """
    rings = tuple(ring.name for ring in plan.storage.rings)
    arrivals = "one arrival" if all(ring.arrivals == 1 for ring in plan.storage.rings) else "its arrivals"
    lanes = plan.arch.lanes_make_barriers
    maps = PrefetchMaps(id="init.maps", note="fetch the tensor maps early", maps=maps_of(plan))
    barriers = InitRings(id="init.rings", note=f"each mbarrier expects {arrivals} per phase", rings=rings, lanes=lanes)
    note = "initialises the mbarriers"
    if not lanes:
        return (one_warp("init", warp, note, (maps, barriers), elected=True),)
    fetch = one_warp("maps", warp, "fetch the tensor maps early", (replace(maps, id="maps.fetch"),), elected=True)
    return (one_warp("init", warp, note, (barriers,)), fetch)


def enter(plan: Plan, role: str, *, alone: bool = False) -> tuple[Step, ...]:
    """The end of the set-up where the kernel may have begun early: it waits before it reads or writes any buffer.

    Only then may the dependent kernel begin, so that no more than two hold shared and tensor memory at a time. Every
    kernel of a network waits, so all that came before the one in front have ended as well. One thread that lets it
    begin does so for its CTA (PTX manual, "griddepcontrol"), and it may take tensor memory at once and then wait for
    this kernel: so only threads do so that know that this CTA has its own.

    `role`: whose steps they are; every warp has one that does so.
    `alone`: it has not waited for the warps that get tensor memory, and lets no other warp begin.
    """
    if not plan.launch.dependent:
        return ()
    note = "what the kernel in front wrote is there, and nobody reads what we write"
    wait = AwaitGrid(id=f"{role}.await", note=note)
    return (wait,) if alone else (wait, ReleaseGrid(id=f"{role}.release", note="the dependent kernel may start"))


def load_role(warp: int, steps: tuple[Step, ...]) -> Role:
    """The role that copies: one lane of a warp."""
    return one_warp("load", warp, "copies operand tiles into shared memory", steps, elected=True)


def maps_of(plan: Plan) -> tuple[MapName, ...]:
    """Names of the parameters that are tensor maps, in order."""
    loads = plan.indexing.loads
    epilogue = {MAP_OUT: loads.out, MAP_RESIDUAL: loads.residual}
    return (*MAPS[: 2 + len(loads.factors)], *(name for name, over in epilogue.items() if over is not None))


def pointers(plan: Plan) -> tuple[PointerName, ...]:
    """Names of the parameters that point at buffers, in order."""
    loads = plan.indexing.loads
    read = (BIAS, RESIDUAL) if plan.problem.residual and loads.residual is None else (BIAS,)
    kept = (WORKSPACE, COUNTERS) if plan.launch.clusters > 1 else ()
    return (*read, OUT, *kept) if loads.out is None else read


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
    specs = {name: BufferSpec(dtype=buffer.dtype, shape=buffer.shape) for name, buffer in buffers.items()}
    specs |= kept_buffers(plan)
    return LaunchSpec(
        entry=plan.launch.entry,
        grid=plan.launch.grid,
        block=(plan.launch.threads, 1, 1),
        cluster=plan.launch.cluster,
        shared_bytes=plan.storage.smem_bytes,
        buffers=specs,
        params=(
            *(TensorMapParam(map=tensor_map) for tensor_map in plan.indexing.loads.all),
            *(PointerParam(buffer=BUFFER_OF.get(name, name)) for name in pointers(plan)),
        ),
        dependent=tuple(name for name in IN_FRONT if name in specs) if plan.launch.dependent else UNSET,
    )


def kept_buffers(plan: Plan) -> dict[str, BufferSpec]:
    """The workspace of split-K clusters, and its counters, which every launch leaves 0, as it wants them."""
    if plan.launch.clusters == 1:
        return {}
    _, columns, rows, _, lanes, _ = shape = kept_shape(plan.launch.tiles, plan.launch.parts, plan.tiling)
    counters = (columns, rows, plan.launch.cluster[2], lanes // 32)
    return {
        WORKSPACE: BufferSpec(dtype=plan.problem.sum_dtype.name, shape=shape),
        COUNTERS: BufferSpec(dtype="u32", shape=counters, values=(0,) * math.prod(counters)),
    }
