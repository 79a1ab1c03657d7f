"""Filter columns folded into K: every claim is proved for the maps of a plan, and refuted where one number is off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from convc.compiler.index.columns import column_layout, layout_maps
from convc.compiler.index.conditions import met
from convc.compiler.index.maps import Counterexample, Proof
from convc.ir.problem import ConvProblem

STEM = ConvProblem(
    batch=2, in_channels=4, out_channels=64, in_extent=(224, 224), kernel=(7, 7), stride=(2, 2), pad_lo=(3, 3),
    pad_hi=(3, 3),
)  # fmt: skip
RIGHT = {"left": 3, "width": 230, "pitch": 0, "strides": (8, 920, 206080), "run": 28}


def outcome(problem: ConvProblem = STEM, **changes: object):
    return met(column_layout(problem, **(RIGHT | changes)))


@pytest.mark.parametrize(
    ("problem", "changes"),
    [
        (STEM, {}),
        (STEM, {"strides": (8, 920)}),  # image rows counted through
        (replace(STEM, in_channels=3), {"width": 0, "pitch": 24, "strides": (24, 112 * 24, 224 * 112 * 24), "run": 21}),
        (
            replace(STEM, in_channels=3, dilation=(1, 2), in_extent=(224, 230)),
            {"width": 0, "pitch": 24, "strides": (24, 112 * 24, 224 * 112 * 24), "run": 21},
        ),
    ],
)
def test_every_claim_is_proved(problem, changes):
    assert isinstance(outcome(problem, **changes), Proof)


@pytest.mark.parametrize(
    ("problem", "changes", "broken"),
    [
        (STEM, {"strides": (4, 920, 206080)}, "strides of the tensor map are those of the buffer: 4 < 8"),
        (STEM, {"strides": (8, 928, 206080)}, "strides of the tensor map are those of the buffer: 920 < 928"),
        (STEM, {"strides": (8, 920, 206000)}, "strides of the tensor map are those of the buffer: 206000 < 206080"),
        (STEM, {"left": 2}, "the padding in front of an image row is that of the problem: 2 < 3"),
        (STEM, {"width": 228, "strides": (8, 912, 204288)}, "no row reaches past the pixels of its image row: 228 <="),
        (STEM, {"run": 32}, "a run is the channels of all filter columns: 28 < 32"),
        (STEM, {"run": 27}, "a run is the channels of all filter columns: 27 < 28"),
        (replace(STEM, dilation=(1, 2), in_extent=(224, 230)), {}, "filter columns are neighbours: 1 < 2"),
        (STEM, {"width": 0, "pitch": 24, "strides": (24, 2688, 602112)}, "a run fits its row: 24 < 28"),
    ],
)
def test_a_number_that_is_off_is_found(problem, changes, broken):
    found = outcome(problem, **changes)
    assert isinstance(found, Counterexample)
    assert broken in str(found)


@pytest.mark.parametrize("width", [0, 7])
def test_what_the_map_finds_is_what_the_host_stored(width):
    """At every point, of a small problem; and not with a stride that is off."""
    small = replace(
        STEM, batch=2, in_channels=3, in_extent=(4, 5), kernel=(3, 3), stride=(1, 2), pad_lo=(0, 1), pad_hi=(0, 1)
    )
    q = small.out_extent[1]
    steps = (6, 21, 84) if width else (10, q * 10, 4 * q * 10)
    for strides, right in ((steps, True), ((steps[0], steps[1] + 1, steps[2]), False)):
        layout = column_layout(small, left=1, width=width, pitch=10, strides=strides, run=9)
        assert isinstance(met(layout), Proof) == right
        *_, mapped, stored = layout_maps(layout)
        points = dict(zip("nhqsc", np.ogrid[:2, :4, :q, :3, :3], strict=True))
        assert np.array_equal(mapped.evaluate(points)["element"], stored.evaluate(points)["element"]) == right
