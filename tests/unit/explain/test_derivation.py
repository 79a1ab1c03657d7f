"""Algorithms derived from the definition: every schedule is the convolution, whatever its size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.cut_maps import cut_maps
from support.examples import some
from support.nests import MMA, PROBLEM, computed
from support.records import replace

from convc.compiler.index import geometry
from convc.compiler.index.conv import conv_maps
from convc.compiler.index.maps import Counterexample
from convc.compiler.schedules.all import CHAIN, RELOAD, SCHEDULES, SLIDE, STATIONARY
from convc.errors import PlanError, ProblemError
from convc.explain.algorithms import MmaTile
from convc.explain.derivation import derive, derive_reload, smaller
from convc.explain.nest_claims import fetched_map
from convc.explain.show_nests import derivation_lines
from convc.ir.problem import ConvProblem
from convc.verification import reference

LARGE = ConvProblem(
    batch=16,
    in_channels=64,
    out_channels=200,
    in_extent=(56, 57),
    kernel=(3, 3),
    stride=(1, 2),
    pad_lo=(1, 1),
    pad_hi=(1, 1),
)


@pytest.fixture(scope="module")
def maps():
    return cut_maps(PROBLEM, merged=False, border="mask", lanes=16)


@settings(max_examples=some(80), deadline=None)
@given(
    batch=st.integers(1, 3),
    extent=st.tuples(st.integers(1, 5), st.integers(1, 12)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 5)),
    stride=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    pads=st.tuples(*[st.integers(0, 4)] * 4),
    channels=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    merged=st.booleans(),
    windowed=st.booleans(),
    border=st.sampled_from(("mask", "zero")),
    lanes=st.sampled_from((16, 64)),
    schedule=st.sampled_from(SCHEDULES),
)
def test_every_schedule_is_the_convolution(
    batch, extent, kernel, stride, dilation, pads, channels, merged, windowed, border, lanes, schedule
):
    try:
        problem = ConvProblem(
            batch=batch,
            in_channels=channels[0],
            out_channels=channels[1],
            in_extent=extent,
            kernel=kernel,
            stride=stride,
            dilation=dilation,
            pad_lo=pads[:2],
            pad_hi=pads[2:],
        )
        windowed = windowed and lanes > 16 and (schedule.activations == "tensor memory" or not schedule.shares)
        maps = cut_maps(problem, merged=merged, border=border, lanes=lanes, windowed=windowed)
    except (ProblemError, PlanError):
        assume(False)
    found = derive(maps, schedule, MmaTile(columns=2, channels=2))
    assert found.failures == ()
    assert found.tried == problem
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, problem.x_shape).astype(np.float64)
    w = rng.integers(-3, 4, problem.w_shape).astype(np.float64)
    y = computed(found.algorithms[-1].nest, x, w)
    np.testing.assert_array_equal(y, reference.conv_problem(problem, x, w))


def test_the_steps_of_algorithm_3b(maps):
    found = derive(maps, CHAIN, MMA)
    assert [each.title for each in found.algorithms] == [
        "Algorithm 1: the definition",
        "Algorithm 2: reload",
        "row addresses: slide",
        "Algorithm 3.b: shift",
    ]
    assert [step.name.split()[0].rstrip(":") for each in found.algorithms for step in each.steps] == [
        "interchange",
        "flatten",
        "tile",
        "tile",
        "tile",
        "interchange",
        "accumulate",
        "stage",
        "split_taps",
        "mask_lanes",
        "hoist",
        "shift_instead_of_load",
    ]
    assert all(step.ok and step.ran for each in found.algorithms for step in each.steps)


def test_without_masks_where_the_border_is_zero():
    maps = cut_maps(PROBLEM, merged=False, border="zero", lanes=16)
    found = derive(maps, SLIDE, MMA)
    assert found.failures == ()
    assert not any("mask_lanes" in step.name for each in found.algorithms for step in each.steps)


def test_the_loops_of_a_reload_kernel():
    maps = conv_maps(PROBLEM, block_m=16, block_n=4, channels_per_step=2, c_pitch=4, k_pitch=6)
    found = derive_reload(maps)
    assert found.failures == ()
    assert found.algorithms[-1].nest.names == ("tile_m", "tile_n", "r", "s", "block", "lane", "column", "e")


@pytest.mark.parametrize("shorter", [{"period": 4}, {"lead": 1, "period": 4}])
def test_a_walk_with_too_short_a_period_is_refused(shorter, monkeypatch):
    """Stride 2, even width: Q = 4 but P = 5. With P = Q the last tap of a row would read the next row."""
    problem = replace(PROBLEM, in_extent=(4, 8), stride=(1, 2), pad_hi=(0, 1))
    proper = geometry.row_walk
    assert derive(cut_maps(problem, merged=False, border="mask", lanes=16), SLIDE, MMA).failures == ()
    monkeypatch.setattr(geometry, "row_walk", lambda *given: replace(proper(*given), **shorter))
    found = derive(cut_maps(problem, merged=False, border="mask", lanes=16), SLIDE, MMA)
    (failure,) = found.failures
    assert isinstance(failure, Counterexample)
    assert found.algorithms[-1].title == "row addresses: slide"


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("schedule", [RELOAD, SLIDE, CHAIN, STATIONARY], ids=lambda schedule: schedule.name)
def test_a_large_problem_is_proved_and_a_smaller_one_is_run(schedule, merged):
    found = derive(cut_maps(LARGE, merged=merged, border="mask"), schedule, MmaTile(columns=128, channels=64))
    assert found.failures == ()
    assert found.tried != LARGE
    assert found.algorithms[-1].nest.problem == LARGE
    steps = [step for each in found.algorithms for step in each.steps]
    assert all(step.ran.endswith("on a smaller problem") for step in steps)


def test_the_smaller_problem_keeps_what_matters():
    small, mma = smaller(LARGE, 128, MmaTile(columns=128, channels=64))
    assert (small.kernel, small.stride, small.pad_lo, small.pad_hi) == ((3, 3), (1, 2), (1, 1), (1, 1))
    assert small.in_extent == (4, 57)
    assert small.batch * small.out_extent[1] > 128
    assert small.out_channels > mma.columns
    assert small.out_channels % mma.columns  # 200 channels end inside a tile of 128
    assert (small.in_channels, mma.channels) == (1, 1)  # 64 channels are one whole tile
    wide, _ = smaller(replace(LARGE, in_extent=(56, 5000)), 128, MmaTile(columns=128, channels=64))
    assert wide.in_extent[1] < 1000
    assert wide.in_extent[1] % 256 == 5000 % 256


def test_what_fails_on_the_smaller_problem_fails(monkeypatch):
    """A copy that begins one pixel late: the claims do not look at it, running the smaller problem does."""

    def late(nest, maps, rows):
        found, put = fetched_map(nest, maps, rows), {rows.symbol: rows.symbol + 1}
        results = tuple((name, expr.xreplace(put)) for name, expr in found.results)
        guard = tuple(each.xreplace(put) for each in found.guard)
        return replace(found, results=results, guard=guard)

    monkeypatch.setattr("convc.explain.reuse_rewrites.fetched_map", late)
    maps = cut_maps(LARGE, merged=False, border="mask")
    (failure,) = derive(maps, SLIDE, MmaTile(columns=128, channels=64)).failures
    assert isinstance(failure, Counterexample)
    assert failure.value.startswith("out[")


def test_a_derivation_as_text(maps):
    lines = derivation_lines(derive(maps, CHAIN, MMA))
    assert lines[:10] == [
        "-- Algorithm 1: the definition --",
        "for n in 0..1:              # images",
        "  for p in 0..1:            # output rows",
        "    for q in 0..8:          # output columns",
        "      for k in 0..5:        # output channels",
        "        for c in 0..3:      # input channels",
        "          for r in 0..2:    # filter rows",
        "            for s in 0..2:  # filter columns",
        "              out[n, p, q, k] += x[n, p + r, q + s - 1, c] * w[k, r, s, c]",
        "",
    ]
    step = lines.index("2. flatten (n, q) into t, with periods 9")
    assert lines[step + 1] == "   proved: every (n, q) is one (t) [t = n*9 + q]"
    assert lines[step + 2].startswith("   ran: ")
    last = lines[lines.index("-- Algorithm 3.b: shift --") :]
    assert "      acc[...] = 0" in last
    assert (
        "              if tap < 2: A[lane, e] = A[lane + 1, e] in each group g of 16 lanes, "
        "A[16*g + 15, e] = next of halo g  # tcgen05.shift or .ashift, tcgen05.cp.4x256b"
    ) in last
    assert (
        "      out[(tile*16 + lane) // 9, p, (tile*16 + lane) % 9, tile_n*4 + column] = acc[lane, column] "
        "+ bias[tile_n*4 + column] where tile_n*4 + column < 6 and tile*16 + lane < 18"
    ) in last
    other = derivation_lines(derive(maps, STATIONARY, MMA), since=3)
    assert other[0] == "1. swap_operands"
    assert any(line.endswith("# zero-column mask") for line in other)


def test_a_large_derivation_names_the_problem_that_was_run():
    derivation = derive(cut_maps(LARGE, merged=False, border="mask"), RELOAD, MmaTile(columns=128, channels=64))
    assert derivation_lines(derivation)[-1].startswith("the smaller problem: conv: ")
