"""The changes of a schedule's loops that a plan makes (`convc.derive.changes`), with its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.index.changes import Change
from convc.compiler.index.tile_order import order_of
from convc.compiler.plan.records import Plan
from convc.compiler.plan.split import shared_units, summed_columns
from convc.compiler.schedules.skeleton import shares_blocks


def changes_of(plan: Plan) -> Iterator[Change]:
    """Every change, in the order in which they are made."""
    if plan.launch.parts > 1:
        yield split_of(plan)
    order = plan.launch.order
    if order.places is not None or plan.launch.persistent:
        together = plan.tiling.ctas if order.places is not None else 1
        yield order_of(order.name, plan.launch.tiles, together=together, groups=order.groups).change
    if plan.launch.persistent:
        yield persistent_change(plan)


def persistent_change(plan: Plan) -> Change:
    """CTAs that make several tiles each."""
    rows, columns = plan.launch.tiles
    ctas = plan.launch.grid[0]
    tiles = {"TILES_M": rows, "TILES_N": columns, "GRID": rows * columns}
    if plan.launch.dynamic:
        return Change("fetch", tiles)
    return Change("walk", {**tiles, "CTAS": ctas, "TURNS": -(-rows * columns // ctas)})


def split_of(plan: Plan) -> Change:
    """CTAs that share the K loop of a tile."""
    parts = plan.launch.parts
    ranks = plan.launch.cluster[2]
    rows, columns = plan.pipeline.taps
    blocks = plan.pipeline.blocks
    whole = shares_blocks(plan)
    units = blocks if whole else shared_units(plan.pipeline, rows=plan.reuse is not None)
    some, chunks = summed_columns(plan.tiling, ranks, plan.problem.out_dtype)
    sizes = {
        "R": rows,
        "S": columns,
        "BLOCKS": blocks,
        "PARTS": parts,
        "TURNS": -(-units // parts),
        "CLUSTERS": plan.launch.clusters,
        "RANKS": ranks,
        "TILES_M": plan.launch.tiles[0],
        "TILES_N": plan.launch.tiles[1],
        "BM": plan.tiling.block_m,
        "WARPS": plan.tiling.block_m // 32,
        "BN": plan.tiling.block_n,
        "OWN": some * chunks,
        "SOME": some,
        "CHUNKS": chunks,
    }
    axes = "r, s, block" if plan.reuse is None else "r, block"
    axes = "block" if plan.layout.summed else axes
    return Change(f"split K by {'blocks' if whole else 'steps'} {axes}", sizes)
