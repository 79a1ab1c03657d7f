"""The maps of a convolution: a convolution computed through them, their claims, and claims that must fail."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import strategies as st

from convc.compiler.index.conv import all_maps, tiled
from convc.compiler.index.limits import (
    prove_limits,
)
from convc.compiler.index.maps import IndexMap, Proof
from convc.errors import PlanError, ProblemError
from convc.ir.problem import ConvProblem

strides = st.integers(1, 4)
pads = st.integers(0, 3)


@st.composite
def problems(draw, side=9, taps=7, channels=6):
    def pair(values):
        return draw(values), draw(values)

    fields = {
        "batch": draw(st.integers(1, 3)),
        "in_channels": draw(st.integers(1, channels)),
        "out_channels": draw(st.integers(1, channels)),
        "in_extent": pair(st.integers(1, side)),
        "kernel": pair(st.integers(1, taps)),
        "stride": pair(strides),
        "dilation": pair(st.integers(1, 3)),
        "pad_lo": pair(pads),
        "pad_hi": pair(pads),
    }
    try:
        return ConvProblem(**fields)
    except ProblemError:
        return ConvProblem(**{**fields, "kernel": (1, 1)})


def _maps(problem=None, **sizes):
    problem = problem or ConvProblem(
        batch=2, in_channels=5, out_channels=10, in_extent=(6, 7), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    defaults = {"block_m": 16, "block_n": 16, "channels_per_step": 8, "c_pitch": 8, "k_pitch": 16}
    return tiled(problem, **{**defaults, **sizes})


def test_no_edge_means_no_guard():
    even = ConvProblem(in_channels=8, out_channels=16, in_extent=(8, 8), kernel=(1, 1))
    maps = _maps(even)
    assert all(each.guard == () for each in all_maps(maps) if each.name != "activation")
    for name in ("row", "store"):
        assert ("tile_m*16 + lane < 64", "the left side is at most 63") in maps.map(name).dropped
    edge = _maps()
    assert [str(condition) for condition in edge.map("store").conditions] == ["tile_m*16 + lane < 84"]


def test_output_channels_behind_the_pitch_are_not_stored():
    maps = _maps(block_n=16, k_pitch=12)
    assert [str(condition) for condition in maps.map("store").conditions] == [
        "column < 12",
        "tile_m*16 + lane < 84",
    ]
    (operand_b,) = (each for each in all_maps(maps) if each.name == "operand_b")
    assert [str(condition) for condition in operand_b.conditions] == [
        "column < 10",
    ]


@pytest.mark.parametrize(("groups", "packed"), [(1, False), (2, True)])
def test_the_channels_of_a_group_have_a_map_where_there_is_more_than_one(groups, packed):
    problem = ConvProblem(in_channels=16, out_channels=16, in_extent=(8, 8), kernel=(1, 1), groups=groups)
    names = [each.name for each in all_maps(_maps(problem, block_n=8, c_pitch=16))]
    assert len(names) == len(set(names))
    assert ("pack" in names) == packed


def test_a_map_is_shown_with_its_conditions():
    problem = ConvProblem(
        in_channels=20, out_channels=24, in_extent=(9, 10), kernel=(3, 3), stride=(2, 2), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    maps = _maps(problem, channels_per_step=16, c_pitch=24, k_pitch=24)
    assert maps.map("row").lines() == [
        "row(tile_m < 2, lane < 16) -> m",
        "    m = tile_m*16 + lane",
        "    where tile_m*16 + lane < 25",
    ]
    assert maps.map("store").lines() == [
        "store(tile_m < 2, lane < 16, tile_n < 2, column < 16) -> offset",
        "    offset = tile_m*384 + lane*24 + tile_n*16 + column",
        "    where tile_n*16 + column < 24",
        "    where tile_m*16 + lane < 25",
    ]


def test_start_is_what_the_kernel_computes():
    stem = ConvProblem(
        in_channels=3,
        out_channels=64,
        in_extent=(224, 224),
        kernel=(7, 7),
        stride=(2, 2),
        pad_lo=(3, 3),
        pad_hi=(3, 3),
    )
    start = _maps(stem, block_m=128, k_pitch=64).map("start")
    assert {name: str(expr) for name, expr in start.results} == {
        "w": "((tile_m*8) % 7)*32 - 3",
        "h": "((tile_m*8) // 7)*2 - 3",
        "n": "0",
    }
    assert start.ranges == {"tile_m": (0, 97)}
    with pytest.raises(KeyError):
        start["q"]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"block_m": 0}, "block_m must be at least 1, got 0"),
        ({"c_pitch": 4}, "c_pitch must be at least 5, got 4"),
        ({"k_pitch": 9}, "k_pitch must be at least 10, got 9"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes, message):
    with pytest.raises(PlanError, match=message):
        _maps(**sizes)


def test_other_ranks_are_refused():
    problem = ConvProblem(
        in_channels=8, out_channels=8, in_extent=(9,), kernel=(3,), stride=(1,), dilation=(1,), pad_lo=(0,), pad_hi=(0,)
    )
    with pytest.raises(PlanError, match=r"two spatial axes \(H, W\), got in_extent \(9,\)"):
        _maps(problem)


# --- claims that must be refuted ---------------------------------------------------------------------------------


def _box(problem, off=0):
    """What the tensor map over activations says of its box; `off`: by how much it begins too late along W."""
    (top, left), (bottom, right) = problem.pad_lo, problem.pad_hi
    height, width = problem.in_extent
    return SimpleNamespace(
        dims=(8, width, height, problem.batch),
        lower=(-left + off, -top),
        upper=(right - problem.span[1] + 1, bottom - problem.span[0] + 1),
        element_strides=(1, *problem.stride[::-1], 1),
        element_bytes=2,
    )


def test_a_start_outside_the_box_is_refuted():
    problem = ConvProblem(
        batch=2, in_channels=5, out_channels=10, in_extent=(6, 7), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    outcomes = prove_limits(_maps(problem), _box(problem, off=1))
    assert [str(outcome) for outcome in outcomes if not isinstance(outcome, Proof)] == [
        "REFUTED: every copy starts inside the im2col box and inside the batch [at tile_m = 0: w = -1]"
    ]


def test_a_map_is_a_plain_record():
    maps = _maps()
    store = maps.map("store")
    assert isinstance(store, IndexMap)
    assert hash(store) == hash(_maps().map("store"))
    assert store == _maps().map("store")


@pytest.mark.parametrize(
    ("change", "sizes", "value"),
    [
        ({"pad_lo": (1, 129)}, {}, "lower corner along W is -129, allowed are -128 to 127"),
        ({"kernel": (1, 45), "dilation": (1, 3), "in_extent": (6, 140)}, {}, "upper corner along W is -131, allowed"),
        ({"stride": (9, 1), "in_extent": (30, 7)}, {}, "stride along H is 9, allowed are 1 to 8"),
        ({"kernel": (1, 2), "dilation": (1, 256), "pad_lo": (0, 128), "pad_hi": (0, 128)}, {}, "off_w = 256"),
        ({}, {"block_m": 1025}, "block_m is 1025, allowed are 1 to 1024"),
        ({}, {"channels_per_step": 257}, "channels is 257, allowed are 1 to 256"),
        ({}, {"channels_per_step": 4}, "the copy starts at byte 8"),
    ],
)
def test_limits_of_the_tensor_map(change, sizes, value):
    problem = ConvProblem(
        **{
            "in_channels": 5,
            "out_channels": 10,
            "in_extent": (6, 7),
            "kernel": (3, 3),
            "pad_lo": (1, 1),
            "pad_hi": (1, 1),
            **change,
        }
    )
    failures = [each for each in prove_limits(_maps(problem, **sizes), _box(problem)) if not isinstance(each, Proof)]
    assert len(failures) == 1
    assert failures[0].value.startswith(value)
