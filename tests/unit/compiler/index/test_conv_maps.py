"""The maps of a convolution: a convolution computed through them, their claims, and claims that must fail."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some
from support.records import replace

from convc.compiler.index.claims import (
    prove,
    prove_agreement,
    prove_box,
    prove_limits,
    prove_reads,
    prove_steps,
    prove_store,
    prove_taps,
)
from convc.compiler.index.conv import conv_maps
from convc.compiler.index.lower import translate
from convc.compiler.index.maps import Counterexample, IndexMap, Proof, less
from convc.compiler.index.symbols import Mod
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


def _direct(problem, x, w):
    """The definition: y[n, p, q, k] = sum of x[n, p*u + r*d - pad, ..., c] * w[k, r, s, c]; x in NHWC, w in KRSC."""
    (out_h, out_w), (in_h, in_w) = problem.out_extent, problem.in_extent
    y = np.zeros((problem.batch, out_h, out_w, problem.out_channels), dtype=np.int64)
    for p in range(out_h):
        for q in range(out_w):
            for r in range(problem.kernel[0]):
                for s in range(problem.kernel[1]):
                    h = p * problem.stride[0] + r * problem.dilation[0] - problem.pad_lo[0]
                    v = q * problem.stride[1] + s * problem.dilation[1] - problem.pad_lo[1]
                    if 0 <= h < in_h and 0 <= v < in_w:
                        y[:, p, q] += x[:, h, v] @ w[:, r, s].T
    return y


def _grid(index_map):
    """All points of a domain, as sparse arrays, one axis each."""
    runs = [np.arange(axis.extent) for axis in index_map.domain]
    names = [axis.name for axis in index_map.domain]
    return dict(zip(names, np.meshgrid(*runs, indexing="ij", sparse=True), strict=True)), [len(run) for run in runs]


def _fetch(index_map, tensor, names):
    """The operand that a map reads from a tensor, zero where the guard fails."""
    points, shape = _grid(index_map)
    held = np.broadcast_to(index_map.holds(points), shape)
    values = index_map.evaluate(points)
    at = [np.broadcast_to(values[name], shape)[held] for name in names]
    assert all((index >= 0).all() and (index < size).all() for index, size in zip(at, tensor.shape, strict=True))
    operand = np.zeros(shape, dtype=np.int64)
    operand[held] = tensor[tuple(at)]
    return operand


@given(problems(), st.data())
@settings(max_examples=some(60), deadline=None)
def test_a_convolution_through_the_maps_is_the_convolution(problem, data):
    c_pitch = problem.in_channels + data.draw(st.integers(0, 3))
    k_pitch = problem.out_channels + data.draw(st.integers(0, 3))
    maps = conv_maps(
        problem,
        block_m=data.draw(st.integers(1, 12)),
        block_n=data.draw(st.integers(1, 8)),
        channels_per_step=data.draw(st.integers(1, 6)),
        c_pitch=c_pitch,
        k_pitch=k_pitch,
    )
    rng = np.random.default_rng(problem.macs)
    x = rng.integers(-9, 10, (problem.batch, *problem.in_extent, c_pitch))
    w = rng.integers(-9, 10, (problem.out_channels, *problem.kernel, c_pitch))
    x[..., problem.in_channels :] = w[..., problem.in_channels :] = 0
    a = _fetch(maps.operand_a, x, ("n", "h", "w", "c"))
    b = _fetch(maps.operand_b, w.reshape(problem.out_channels, -1, c_pitch), ("k", "tap", "c"))
    acc = np.einsum("mlrsbe,njrsbe->mlnj", a, b)

    points, shape = _grid(maps.store)
    held = np.broadcast_to(maps.store.holds(points), shape)
    offsets = np.broadcast_to(maps.store.evaluate(points)["offset"], shape)[held]
    assert len(set(offsets.tolist())) == offsets.size
    out = np.full(problem.gemm_m * k_pitch, 10**9)
    out[offsets] = acc[held]
    y = out.reshape(problem.batch, *problem.out_extent, k_pitch)[..., : problem.out_channels]
    assert np.array_equal(y, _direct(problem, x, w))
    assert [outcome for outcome in _failures(maps) if "16 bytes" not in outcome.claim] == []


def _failures(maps):
    return [outcome for outcome in prove(maps) if not isinstance(outcome, Proof)]


@given(problems(side=3000, taps=9, channels=4096), st.sampled_from([64, 128, 256]))
@settings(max_examples=some(80), deadline=None)
def test_claims_about_large_convolutions_are_proved(problem, block_m):
    problem = replace(problem, batch=problem.batch * 17)
    c_pitch, k_pitch = -(-problem.in_channels // 8) * 8, -(-problem.out_channels // 8) * 8
    maps = conv_maps(problem, block_m=block_m, block_n=48, channels_per_step=64, c_pitch=c_pitch, k_pitch=k_pitch)
    assert _failures(maps) == []


def _maps(problem=None, **sizes):
    problem = problem or ConvProblem(
        batch=2, in_channels=5, out_channels=10, in_extent=(6, 7), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    defaults = {"block_m": 16, "block_n": 16, "channels_per_step": 8, "c_pitch": 8, "k_pitch": 16}
    return conv_maps(problem, **{**defaults, **sizes})


def test_no_edge_means_no_guard():
    even = ConvProblem(in_channels=8, out_channels=16, in_extent=(8, 8), kernel=(1, 1))
    maps = _maps(even)
    assert maps.row.guard == maps.store.guard == maps.operand_a.guard == maps.operand_b.guard == ()
    assert ("row, pixel, window, operand_a, store", "tile_m*16 + lane < 64", "the left side is at most 63") in (
        maps.dropped
    )
    edge = _maps()
    assert [str(condition) for condition in edge.store.conditions] == ["tile_m*16 + lane < 84"]


def test_channel_tails_are_guarded_in_both_operands():
    maps = _maps(channels_per_step=6, c_pitch=8)
    for operand in (maps.operand_a, maps.operand_b):
        assert "block*6 + e < 8" in [str(condition) for condition in operand.conditions]
    assert prove_steps(maps).how == "k_step and c are mixed-radix numbers; channels 8..11 read zero"


def test_output_channels_behind_the_pitch_are_not_stored():
    maps = _maps(block_n=16, k_pitch=12)
    assert [str(condition) for condition in maps.store.conditions] == [
        "column < 12",
        "tile_m*16 + lane < 84",
    ]
    assert [str(condition) for condition in maps.operand_b.conditions] == [
        "column < 10",
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
    start = _maps(stem, block_m=128, k_pitch=64).start
    assert {name: str(translate(expr)) for name, expr in start.results} == {
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


def _with(index_map, **changes):
    """A map with some results replaced."""
    return replace(index_map, results=tuple((name, changes.get(name, expr)) for name, expr in index_map.results))


def test_the_maps_as_they_are_pass():
    assert all(isinstance(outcome, Proof) for outcome in prove(_maps()))


def test_a_box_of_another_size_is_refuted():
    maps = _maps()
    outcome = prove_box(replace(maps.box, upper=(0, -1)), maps.problem)
    assert outcome.value == (
        "8 positions along w, not 7; corners (-1, -1), (0, -1), size (7, 6), stride (1, 1) in order W, H"
    )


def test_a_store_without_its_row_guard_is_refuted():
    maps = _maps()
    outcome = prove_store(replace(maps, store=replace(maps.store, guard=())))
    assert isinstance(outcome, Counterexample)
    assert outcome.point == (("tile_m", 5), ("lane", 4), ("tile_n", 0), ("column", 0))
    assert outcome.value == "element 1344 is outside the buffer of 1344"


def test_a_store_without_its_channel_guard_is_refuted():
    maps = _maps(k_pitch=12)
    outcome = prove_store(replace(maps, store=replace(maps.store, guard=maps.store.guard[:1])))
    assert isinstance(outcome, Counterexample)
    assert outcome.value == "element 1008 is outside the buffer of 1008"


def test_a_store_with_a_pitch_too_small_is_refuted():
    maps = _maps()
    row, column = maps.row["m"], maps.column["k"]
    outcome = prove_store(replace(maps, store=_with(maps.store, offset=row * 15 + column)))
    assert outcome.value == "element 15 is written at tile_m = 0, lane = 0, tile_n = 0, column = 15 too"
    assert outcome.point == (("tile_m", 0), ("lane", 1), ("tile_n", 0), ("column", 0))


def test_tiles_that_overlap_are_refuted():
    maps = _maps()
    tile, lane, *_ = (axis.symbol for axis in maps.store.domain)
    row = tile * 15 + lane
    store = replace(_with(maps.store, offset=row * 16 + maps.column["k"]), guard=(less(row, 84),))
    outcome = prove_store(replace(maps, store=store, row=_with(maps.row, m=row)))
    assert outcome.value == "element 240 is written at tile_m = 0, lane = 15, tile_n = 0, column = 0 too"
    assert outcome.point == (("tile_m", 1), ("lane", 0), ("tile_n", 0), ("column", 0))


def test_columns_that_write_the_same_element_are_refuted():
    maps = _maps(ConvProblem(in_channels=8, out_channels=1, in_extent=(4, 4), kernel=(1, 1)), block_n=2, k_pitch=1)
    store = replace(_with(maps.store, offset=maps.row["m"]), guard=())
    outcome = prove_store(replace(maps, store=store, column=_with(maps.column, k=0 * maps.row["m"])))
    assert outcome.value == "element 0 is written at tile_m = 0, lane = 0, tile_n = 0, column = 0 too"
    assert outcome.point == (("tile_m", 0), ("lane", 0), ("tile_n", 0), ("column", 1))


def test_a_store_that_leaves_something_out_is_refuted():
    maps = _maps()
    guard = (less(maps.row["m"], 83), *maps.store.guard[1:])
    outcome = prove_store(replace(maps, store=replace(maps.store, guard=guard)))
    assert outcome == Counterexample(outcome.claim, (("m", 83), ("k", 0)), "nobody writes this element")
    guard = (*maps.store.guard, less(maps.column["k"], 9))
    outcome = prove_store(replace(maps, store=replace(maps.store, guard=guard)))
    assert outcome == Counterexample(outcome.claim, (("m", 0), ("k", 9)), "nobody writes this element")


def test_a_store_in_another_order_is_proved():
    maps = _maps()
    m, k = maps.row["m"], maps.column["k"]
    swapped = m * 16 + k - 2 * Mod(k, 2) + 1  # neighbours change places
    assert prove_store(replace(maps, store=_with(maps.store, offset=swapped))).how == (
        "each of 84*10 elements is the offset of one point, and none is outside of 1344"
    )


def test_a_store_that_is_moved_is_refuted_in_a_buffer_of_any_size():
    maps = _maps(ConvProblem(batch=3, in_channels=5, out_channels=10, in_extent=(40000, 40000), kernel=(1, 1)))
    outcome = prove_store(replace(maps, store=_with(maps.store, offset=maps.store["offset"] + 1)))
    assert outcome.value == "element 76800000000 is outside the buffer of 76800000000"


def test_operands_with_different_channels_are_refuted():
    maps = _maps(channels_per_step=4)
    b = maps.operand_b
    outcome = prove_agreement(replace(maps, operand_b=_with(b, c=b["c"] + Mod(b["c"], 2))))
    assert isinstance(outcome, Counterexample)
    assert outcome.point == (("e", 1),)
    assert outcome.value == "difference = -1"


def test_operands_with_different_taps_are_refuted():
    maps = _maps()
    r, s, _ = (axis.symbol for axis in maps.step.domain)
    outcome = prove_agreement(replace(maps, operand_b=_with(maps.operand_b, tap=s * 3 + r)))
    assert isinstance(outcome, Counterexample)
    assert dict(outcome.point) == {"r": 0, "s": 1}


def test_taps_that_do_not_lead_to_the_pixel_are_refuted():
    maps = _maps()
    step = _with(maps.step, off_w=maps.step["off_w"] * 2)
    outcome = prove_taps(replace(maps, step=step))
    assert isinstance(outcome, Counterexample)
    assert dict(outcome.point)["s"] == 1


def test_steps_that_repeat_are_refuted():
    maps = _maps(channels_per_step=4)
    r, s, block = (axis.symbol for axis in maps.step.domain)
    outcome = prove_steps(replace(maps, step=_with(maps.step, k_step=(r * 2 + s) * 2 + block)))
    assert outcome.point == (("r", 1), ("s", 0), ("block", 0))
    assert outcome.value == "k_step = 4, as at r = 0, s = 2, block = 0"


def test_steps_in_another_order_are_proved():
    maps = _maps(channels_per_step=4)
    outcome = prove_steps(replace(maps, step=_with(maps.step, k_step=17 - maps.step["k_step"])))
    assert outcome.how == "k_step takes each of 0..17 once, and c each of 0..7"
    outcome = prove_steps(replace(maps, step=_with(maps.step, k_step=18 - maps.step["k_step"])))
    assert outcome == Counterexample(outcome.claim, (("k_step", 0),), "no step has it")


def test_blocks_that_leave_channels_out_are_refuted():
    maps = _maps(channels_per_step=4)
    outcome = prove_steps(replace(maps, tiles=replace(maps.tiles, c_pitch=9)))
    assert outcome.value == "channels from 8 on are in no block"


def test_reads_past_the_image_are_refuted():
    maps = _maps()
    outcome = prove_reads(replace(maps, operand_a=replace(maps.operand_a, guard=maps.operand_a.guard[:-1])))
    assert isinstance(outcome, Counterexample)
    assert outcome.value == "w = 7"
    wide = replace(maps.operand_b, guard=())
    assert prove_reads(replace(maps, operand_b=wide)).value == "k = 10"


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
    failures = _failures(_maps(problem, **sizes))
    assert len(failures) == 1
    assert failures[0].value.startswith(value)


def test_a_start_outside_the_box_is_refuted():
    maps = _maps()
    outcomes = prove_limits(replace(maps, start=_with(maps.start, w=maps.start["w"] - 1)))
    assert [str(outcome) for outcome in outcomes if not isinstance(outcome, Proof)] == [
        "REFUTED: every copy starts inside the im2col box and inside the batch [at tile_m = 0: w = -2]"
    ]


def test_a_map_is_a_plain_record():
    maps = _maps()
    assert isinstance(maps.store, IndexMap)
    assert hash(maps.store) == hash(_maps().store)
    assert maps.store == _maps().store
