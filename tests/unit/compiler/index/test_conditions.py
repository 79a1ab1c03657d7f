"""The conditions of theorems on numbers: what meets them, what breaks one is refused by name with the numbers."""

from __future__ import annotations

import pytest
from support.records import replace

from convc.compiler.index.conditions import conditions
from convc.compiler.index.geometry import EXCHANGED, form_of, geometry_of
from convc.compiler.index.maps import Counterexample, Proof
from convc.compiler.index.reuse import shared_instance
from convc.compiler.plan.results import met_conditions
from convc.errors import PlanError
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(
    batch=3, in_channels=64, out_channels=96, in_extent=(12, 12), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
)
TILE = {
    "BN": 48, "BK": 64, "BLOCKS": 1, "TILES_N": 2, "GROUP_TILES": 2, "C_PITCH": 64, "K_PITCH": 96, "ELEMENT": 2,
    "PIECE": 48,
}  # fmt: skip


def outcomes(geometry, problem=PROBLEM, reading="", **sizes):
    return list(
        conditions(
            shared_instance(problem, geometry, reading and form_of(geometry, reading), TILE | sizes), geometry.walk
        )
    )


@pytest.mark.parametrize("border", ["mask", "zero"])
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("windowed", [False, True])
def test_what_the_walk_chooses_meets_all_of_them(border, merged, windowed):
    geometry = geometry_of(PROBLEM, border=border, merged=merged, windowed=windowed)
    found = outcomes(geometry)
    assert len(found) > 8
    assert all(isinstance(outcome, Proof) for outcome in found)


def broken(geometry, **changes):
    return replace(geometry, walk=replace(geometry.walk, **changes))


MASKED = geometry_of(PROBLEM, border="mask", merged=True)
ZERO = geometry_of(PROBLEM, border="zero", merged=False)
REFUSED = {
    "period T >= Q: 9 < 12": (broken(MASKED, period=9), {}),
    "what the walk leaves out is padding for buffer 0: 0 < 2 and 1 <= 1": (broken(MASKED, lead=2), {}),
    "the walk leaves nothing out: 0 < 1": (broken(ZERO, lead=1), {}),
    "behind T pixels a row has padding alone for buffer 0: 12 < 14 and 12 < 13": (broken(ZERO, period=12), {}),
    "TILES tiles of BM reach the last t": (replace(MASKED, tiles=3), {}),
    "TILES_M tiles or more": (replace(ZERO, spare=-1), {}),
    "TILES_N tiles of BN reach the last k: 48 < 96": (MASKED, {"TILES_N": 1}),
    "BLOCKS tiles of BK reach the last c: 32 < 64": (MASKED, {"BK": 32}),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_condition_that_is_broken_is_refused_with_its_numbers(why):
    geometry, sizes = REFUSED[why]
    with pytest.raises(PlanError) as refused:
        met_conditions("slide", PROBLEM, shared_instance(PROBLEM, geometry, "", TILE | sizes), geometry.walk)
    assert refused.value.message.startswith(f"slide needs {why}")


def test_tiles_that_do_not_divide_a_group_are_refused():
    grouped = replace(PROBLEM, groups=2)
    geometry = geometry_of(grouped, border="mask", merged=False)
    assert all(isinstance(each, Proof) for each in outcomes(geometry, grouped, GROUP_TILES=1))
    found = [each for each in outcomes(geometry, grouped, GROUP_TILES=2) if isinstance(each, Counterexample)]
    name = "channel BN*tile_n + column is in group tile_n // GROUP_TILES, where a group has GROUP_TILES tiles"
    assert [str(each) for each in found] == [
        f'REFUTED: tiles of output channels divide a group, or there is one [48 < 96 and 48 < 96, theorem "{name}"]'
    ]


def test_operands_exchanged_have_no_masks_by_rows():
    """Zero-column masks go by columns of the image, so rows of the filter must stay inside of it."""
    found = [each.claim for each in outcomes(MASKED, reading=EXCHANGED) if isinstance(each, Counterexample)]
    assert found == ["no row above an image, or one image", "no row below an image, or one image"]
    inside = replace(PROBLEM, pad_lo=(0, 1), pad_hi=(0, 1))
    geometry = geometry_of(inside, border="mask", merged=True)
    assert all(isinstance(each, Proof) for each in outcomes(geometry, inside, EXCHANGED))
