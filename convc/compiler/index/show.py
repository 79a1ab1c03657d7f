"""Index maps as text, for ``inspect``: plain lines, no markup."""

from __future__ import annotations

from convc.compiler.index.conv import ConvMaps
from convc.compiler.index.lower import translate
from convc.compiler.index.maps import IndexMap, guard_text
from convc.compiler.index.symbols import Axis
from convc.ir.epilogue import describe


def map_lines(index_map: IndexMap) -> list[str]:
    """One map: name, axes with extents, results, and the conditions under which it holds."""
    names = ", ".join(name for name, _ in index_map.results)
    lines = [f"{index_map.name}({', '.join(map(_axis, index_map.domain))}) -> {names}"]
    lines += [f"    {name} = {translate(expr)}" for name, expr in index_map.results]
    lines += [f"    where {guard_text(condition)}" for condition in index_map.guard]
    return lines


def loop_nest(maps: ConvMaps, own_ctas: bool = True) -> list[str]:
    """The loops around one multiply-add, outermost first, with their extents and what runs them.

    Args:
        maps: of the convolution.
        own_ctas: whether the tiles are the grid; else CTAs walk over them, or find their place by a number.
    """
    problem = maps.problem
    tiles = maps.tiles
    taps_h, taps_w = problem.kernel
    rows = problem.gemm_m
    channels = problem.group_channels
    across, down = ("grid x", "grid y") if own_ctas else ("tiles along M", "tiles along N")
    groups = f" in {problem.groups} groups" if problem.groups > 1 else ""
    loops = (
        ("tile_m", tiles.m_tiles, f"{across}: {tiles.block_m} output pixels each, M = {rows}"),
        (
            "tile_n",
            tiles.n_tiles,
            f"{down}: {tiles.block_n} output channels each, K = {problem.out_channels}{groups}",
        ),
        ("r", taps_h, "filter rows"),
        ("s", taps_w, "filter columns"),
        (
            "block",
            tiles.blocks,
            f"{tiles.channels_per_step} channels each, C = {channels}, pitch {tiles.c_pitch}",
        ),
        ("lane", tiles.block_m, "tensor core: rows"),
        ("column", tiles.block_n, "tensor core: columns"),
        ("e", tiles.channels_per_step, "tensor core: sum"),
    )
    heads = ["  " * depth + f"for {name} in 0..{extent - 1}:" for depth, (name, extent, _) in enumerate(loops)]
    width = max(map(len, heads)) + 2
    lines = [f"{head:<{width}}# {note}" for head, (_, _, note) in zip(heads, loops, strict=True)]
    a, b = (", ".join(axis.name for axis in each.domain) for each in (maps.operand_a, maps.operand_b))
    lines.append("  " * len(loops) + f"acc[lane, column] += A[operand_a({a})] * B[operand_b({b})]")
    result = "acc[lane, column] + bias[column(tile_n, column)]"
    note = f"  # then {describe(problem.epilogue)}" if problem.epilogue else ""
    lines.append(f"    out[store(tile_m, lane, tile_n, column)] = {result}{note}")
    return lines


def _axis(axis: Axis) -> str:
    first, last = axis.range
    return f"{axis.name} < {last + 1}" if first == 0 else f"{first} <= {axis.name} < {last + 1}"
