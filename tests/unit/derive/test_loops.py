"""The loops of every form, with the numbers of drawn problems, are the convolution; what is off is noticed."""

from __future__ import annotations

import random

import pytest
from support.derived_loops import computes

from convc.compiler.index.conditions import conditions
from convc.compiler.index.conv import tiled
from convc.compiler.index.formulas import Instance
from convc.compiler.index.geometry import ADDRESSED, EXCHANGED, MOVED, form_of, geometry_of
from convc.compiler.index.maps import Proof
from convc.compiler.index.reuse import shared_instance
from convc.errors import PlanError, ProblemError
from convc.ir.problem import ConvProblem

DRAWN = 40


def problem_of(drawn):
    while True:
        try:
            return ConvProblem(
                batch=drawn.randint(1, 2),
                in_channels=2,
                out_channels=drawn.choice((2, 4)),
                groups=drawn.choice((1, 1, 2)),
                in_extent=(drawn.randint(1, 5), drawn.randint(1, 7)),
                kernel=(drawn.randint(1, 3), drawn.randint(1, 4)),
                stride=(drawn.randint(1, 2), drawn.randint(1, 3)),
                dilation=(drawn.randint(1, 2), drawn.randint(1, 3)),
                pad_lo=(drawn.randint(0, 2), drawn.randint(0, 3)),
                pad_hi=(drawn.randint(0, 2), drawn.randint(0, 3)),
            )
        except ProblemError:
            continue


def channels(problem):
    """The numbers of tiles of two output channels and one input channel."""
    groups = problem.groups
    tiles = problem.out_channels // (2 if problem.out_channels // groups > 1 else 1)
    return {
        "BN": problem.out_channels // tiles,
        "BK": 1,
        "BLOCKS": problem.group_channels,
        "TILES_N": tiles,
        "GROUP_TILES": tiles // groups,
        "C_PITCH": problem.group_channels,
        "K_PITCH": problem.out_channels,
    }


def tap_form(problem):
    sizes = channels(problem)
    form = tiled(
        problem, block_m=8, block_n=sizes["BN"], channels_per_step=1, c_pitch=sizes["C_PITCH"], k_pitch=sizes["K_PITCH"]
    )
    return form, None


def shared_form(problem, drawn):
    reading = drawn.choice((ADDRESSED, MOVED, EXCHANGED))
    windowed = reading == MOVED and drawn.random() < 0.5
    geometry = geometry_of(
        problem,
        merged=drawn.random() < 0.5,
        border=drawn.choice(("mask", "zero")),
        lanes=64 if windowed else 8,
        windowed=windowed,
    )
    return shared_instance(problem, geometry, form_of(geometry, reading), channels(problem)), geometry.walk


def drawn_form(seed):
    """A problem, the form of a schedule that meets its conditions, and the walk."""
    drawn = random.Random(seed)
    while True:
        problem = problem_of(drawn)
        try:
            instance, walk = tap_form(problem) if drawn.random() < 0.2 else shared_form(problem, drawn)
        except PlanError:
            continue
        if all(isinstance(each, Proof) for each in conditions(instance, walk)):
            return problem, instance, walk


@pytest.mark.parametrize("seed", range(DRAWN))
def test_every_algorithm_of_a_chain_is_the_convolution(seed):
    problem, instance, _ = drawn_form(seed)
    assert computes(problem, instance), (instance.form, problem.describe())


CHOSEN = ("T", "Y", "lead", "TILES", "TILES_M", "TILES_N", "GROUP_TILES", "BLOCKS", "TAPS", "BUFFERS", "USEFUL")
"""Numbers that somebody chooses."""
GIVEN = ("P", "Q", "u_h", "d_h", "g", "u", "d", "pad_h", "pad_w", "W", "H", "N", "K", "R", "S", "BM", "BN", "BK")
"""Numbers of the problem, and of the tile."""
AS_GOOD = ("T", "TILES_N", "TAPS", "BM", "BK", "W", "H", "HALO")
"""Numbers of which a larger one makes the same sums."""
FORMS = [drawn_form(seed) for seed in range(24)]


def off(instance, name, by):
    """The numbers with one that is off; None where that is none."""
    least = 0 if name in ("lead", "pad_h", "pad_w") else 1
    if name not in instance.sizes or instance.sizes[name] + by < least:
        return None
    return Instance(instance.form, {**instance.sizes, name: instance.sizes[name] + by}, instance.axes)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("by", [-2, -1, 1, 2])
@pytest.mark.parametrize("name", CHOSEN)
def test_the_conditions_are_enough_for_what_is_chosen(name, by):
    """Whatever they let through makes the right sums: longer periods, more tiles."""
    for problem, instance, walk in FORMS:
        broken = off(instance, name, by)
        if broken is not None and all(isinstance(each, Proof) for each in conditions(broken, walk)):
            assert computes(problem, broken, instance), (name, by, instance.form, problem.describe())


@pytest.mark.one_of(2)
@pytest.mark.parametrize("by", [-1, 1])
@pytest.mark.parametrize("name", [*GIVEN, "TILES_N", "TAPS", "T", "GROUP_TILES", "HALO"])
def test_a_number_that_is_off_is_noticed(name, by):
    """By a condition, or by the loops."""
    noticed = tried = 0
    for problem, instance, walk in FORMS:
        broken = off(instance, name, by)
        if broken is not None:
            tried += 1
            met = all(isinstance(each, Proof) for each in conditions(broken, walk))
            noticed += not met or not computes(problem, broken, instance)
    assert noticed or (by > 0 and name in AS_GOOD) or not tried
