"""Index maps on the page are those of the kernel's coordinates, with the padding of its tiles to clusters."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.coordinates import in_order
from convc.compiler.plan.tap_maps import filter_start_of, start_of
from convc.explain.inspect import SECTIONS
from convc.explain.tiles import plan_maps
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(in_channels=64, out_channels=128, in_extent=(16, 24), kernel=(1, 1))
"""Three tiles of 128 pixels: clusters of two have one more."""


@pytest.mark.parametrize(
    ("options", "tiles"),
    [({}, 3), ({"multicast": "2x1"}, 4), ({"multicast": "1x2"}, 3), ({"cta_group": "2"}, 4), ({"persistent": "on"}, 3)],
)
def test_what_is_shown_is_what_the_kernel_computes(options, tiles):
    compiled = compile_problem(PROBLEM, options=ScheduleOptions(schedule="reload", split_k="off", **options))
    plan = compiled.plan
    assert plan.launch.tiles[0] == tiles
    said: dict[str, list[str]] = {}
    for name in ("loops", "maps"):
        paper = io.StringIO()
        SECTIONS[name][1](Console(file=paper, width=1 << 19, markup=False, highlight=False), compiled, "")
        said[name] = paper.getvalue().splitlines()
    walks = "persistent" in options
    first = f"for cta in 0..{plan.launch.grid[0] - 1}:" if walks else f"for tile_m in 0..{tiles - 1}:"
    assert said["loops"][0].startswith(first)
    assert f"row(tile_m < {tiles}, lane < 128) -> m" in said["maps"]
    maps = plan_maps(plan)
    coordinates = {each.name: each.value for each in in_order(plan.indexing.coordinates)}
    shown = [start_of(maps, plan.tiling), filter_start_of(maps, plan.tiling)]
    for index_map in filter(None, shown):
        assert "\n".join(index_map.lines()) in "\n".join(said["maps"])
    if "multicast" not in options:
        start = maps.map("start")
        assert {coordinates[f"start_{axis}"] for axis in "whn"} == {start[axis] for axis in "whn"}
    assert str(coordinates["m"]) == str(maps.map("row")["m"])
    assert [line for line in said["maps"] if line.startswith("proved: ")] == [
        line for line in plan.indexing.derivation if line.startswith("proved: ")
    ]
