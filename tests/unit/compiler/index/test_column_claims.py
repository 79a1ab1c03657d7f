"""Filter columns as channels: every claim is proved for the maps of a plan, and refuted where one number is off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convc.compiler.index.columns import column_maps, prove_columns
from convc.compiler.index.maps import Proof
from convc.ir.problem import ConvProblem

STEM = ConvProblem(
    batch=2, in_channels=4, out_channels=64, in_extent=(224, 224), kernel=(7, 7), stride=(2, 2), pad_lo=(3, 3),
    pad_hi=(3, 3),
)  # fmt: skip
RIGHT = {"left": 3, "width": 230, "pitch": 0, "strides": (8, 920, 206080)}
RUN = 28


def outcomes(problem: ConvProblem = STEM, run: int = RUN, **changes: object):
    numbers = RIGHT | changes
    return prove_columns(column_maps(problem, **numbers), left=numbers["left"], run=run)


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
    assert all(isinstance(outcome, Proof) for outcome in outcomes(problem, **changes))


@pytest.mark.parametrize(
    ("changes", "refuted"),
    [
        ({"strides": (4, 920, 206080)}, "REFUTED: element e of row (n, h, q) is channel c of pixel w"),
        ({"strides": (8, 928, 206080)}, "REFUTED: element e of row (n, h, q) is channel c of pixel w"),
        ({"left": 2}, "REFUTED: no row reaches past the 230 pixels of its image row"),
        ({"width": 228, "strides": (8, 912, 204288)}, "REFUTED: no row reaches past the 228 pixels of its image row"),
        ({"run": 32}, "REFUTED: each of the 32 elements of a run is one (s, c)"),
        ({"run": 27}, "REFUTED: each of the 27 elements of a run is one (s, c)"),
    ],
)
def test_a_number_that_is_off_is_found(changes, refuted):
    wrong = [str(outcome) for outcome in outcomes(**changes) if not isinstance(outcome, Proof)]
    assert wrong
    assert wrong[0].startswith(refuted)
