"""The loop nest of a plan's kernel, and steps that are put into its loops.

Every schedule makes its roles so: which loops there are, how often each turns, and in which of them a number of the
kernel becomes known, is read off the nest (`convc.compiler.index.kernel_nest`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from convc.compiler.index.kernel_nest import KernelLoop, KernelNest
from convc.compiler.index.reuse import shared_instance
from convc.compiler.plan.coordinates import Coordinate
from convc.compiler.plan.meanings import sizes_meant
from convc.compiler.plan.records import Pipeline, Plan, Tiling
from convc.compiler.plan.summed import summed_maps, summed_sizes
from convc.compiler.plan.tap_maps import tap_maps
from convc.compiler.plan.validation import check_sizes
from convc.compiler.schedules.skeleton import about, compute, number
from convc.compiler.tile.steps.base import Loop, Step
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.expr import IntExpr, Var

NAMES = {
    "r": ("rows", "filter rows"),
    "s": ("columns", "filter columns"),
    "block": ("blocks", "channel blocks"),
}
"""The loops of a mainloop: what the ids of their steps end with, and what they count, for people."""


def nest_of(plan: Plan) -> KernelNest:
    """The nest of a plan's kernel, with its numbers.

    Raises:
        DerivationError: a number is not that of the problem.
    """
    found = _nest(plan)
    if plan.layout.summed:
        wanted = summed_sizes(plan.layout, plan.tiling, plan.pipeline, plan.launch.tiles)
        check_sizes(plan.problem, found.instance.sizes, wanted)
        return found
    wanted = sizes_meant(plan.layout, plan.tiling, plan.pipeline, plan.launch.tiles[0], plan.reuse)
    parts = plan.launch.parts
    wanted |= {"PARTS": parts, "OWN_BLOCKS": plan.pipeline.blocks // parts, "PARTITIONS": plan.tiling.block_m // 32}
    check_sizes(plan.problem, found.instance.sizes, wanted | {"FIRST": 0 if plan.reuse is None else plan.reuse.first})
    return found


def _nest(plan: Plan) -> KernelNest:
    layout = plan.layout
    tiling = plan.tiling
    if layout.summed:
        return KernelNest(summed_maps(layout, tiling, plan.pipeline, plan.launch.tiles))
    parts = plan.launch.parts
    numbers = tile_numbers(layout, tiling, plan.pipeline)
    numbers |= {"PARTS": parts, "OWN_BLOCKS": plan.pipeline.blocks // parts}
    if plan.reuse is None:
        return KernelNest(tap_maps(layout, tiling, plan.pipeline.channels, plan.launch.tiles[0], numbers))
    numbers |= {"FIRST": plan.reuse.first, "PARTITIONS": tiling.block_m // plan.arch.limits.tmem_part_lanes}
    return KernelNest(shared_instance(layout.problem, plan.reuse, plan.indexing.form, numbers))


def tile_numbers(layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline) -> dict[str, int]:
    """The numbers of a tile's channels and of its stages, by the names of their sizes in `convc.derive`."""
    groups = layout.problem.groups
    tiles = -(-layout.problem.out_channels // tiling.block_n)
    return {
        "BN": tiling.block_n,
        "BK": pipeline.channels,
        "BLOCKS": pipeline.blocks,
        "TILES_N": tiles,
        "GROUP_TILES": max(1, tiles // groups),
        "C_PITCH": layout.c_pitch,
        "K_PITCH": layout.k_pitch,
        "ELEMENT": layout.problem.out_dtype.bytes,
        "PIECE": tiling.b_piece,
        "B_ROWS": tiling.b_rows,
        "ROW_BYTES": tiling.row_bytes,
    }


def levels(nest: KernelNest, role: str, *read: tuple[Coordinate | None, str, str]) -> dict[str, tuple[Step, ...]]:
    """The steps that work out coordinates, by the innermost loop whose number each needs; "": in front of all loops.

    read: coordinates, with the map and its result that each is; those that a kernel does not have are left out.
    """
    found: dict[str, tuple[Step, ...]] = {}
    for coordinate, of, result in read:
        if coordinate is not None:
            axis = nest.innermost(of, result)
            found[axis] = (*found.get(axis, ()), compute(coordinate, role))
    return found


def in_loops(
    role: str, loops: Sequence[KernelLoop], levels: Mapping[str, Iterable[Step]], body: tuple[Step, ...]
) -> tuple[Step, ...]:
    """Steps inside of loops, outermost first, each of which has steps in front of those further in.

    Args:
        role: whose steps they are.
        loops: of the mainloop.
        levels: what each loop does first, by its axis.
        body: the steps inside of all of them.
    """
    return _inside(role, tuple(loops), levels, body, None)


def _inside(
    role: str,
    loops: tuple[KernelLoop, ...],
    levels: Mapping[str, Iterable[Step]],
    body: tuple[Step, ...],
    column: IntExpr | None,
) -> tuple[Step, ...]:
    if not loops:
        return body
    first, *others = loops
    column = Var("s") if first.axis == "s" else column
    steps = (*levels.get(first.axis, ()), *_inside(role, tuple(others), levels, body, column))
    if column is not None:
        steps = about(column, *steps)
    name, note = NAMES[first.axis]
    return (Loop(id=f"{role}.{name}", note=note, var=number(first.axis), count=first.count, body=steps),)
