"""The numbers that a schedule chooses are limits of what its nest asks for: they are legal, and one less is not."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.derived_loops import computes
from support.examples import some

from convc.compiler.index.conditions import conditions
from convc.compiler.index.geometry import ADDRESSED, EXCHANGED, MOVED, geometry_of, read_so
from convc.compiler.index.maps import Proof
from convc.compiler.index.reuse import shared_instance
from convc.compiler.index.row_stream import WINDOW
from convc.compiler.index.row_walk import BORDERS, OUTER, RowProblem, row_walk
from convc.compiler.schedules.sharing.storage import copied_rows, mask_entries, masks_read, row_moves
from convc.derive import symbols as z
from convc.derive.forms import forms
from convc.derive.solve import GREATEST, limit, solved
from convc.derive.streams import reads
from convc.derive.theorem import Refused, at_most, below, value
from convc.derived.record import derived
from convc.derived.solved import Limits, limits, reached
from convc.derived.solved import solved as solved_of
from convc.errors import PlanError, ProblemError
from convc.ir.problem import ConvProblem
from tests.unit.derive.test_loops import FORMS, channels, off

BY_TAPS = ("reload", "pixels summed")
SHARING = [form for form in forms() if form.name not in BY_TAPS]
OF_WALK = ("BUFFERS", "TAPS", "LAST", "HALO", "FIRST_Q", "LAST_Q", "lead", "T")
OF_CUT = ("WINDOWS", "USEFUL", "Y", "TILES", "TILES_M")


@pytest.mark.parametrize("form", SHARING, ids=lambda form: form.name)
def test_every_number_of_a_form_is_solved_for_with_theorems(form):
    found = {each.symbol.name: each for each in solved(form.nest)}
    assert set(OF_WALK) <= set(found) <= {*OF_WALK, *OF_CUT}
    assert {"TILES"} <= set(found)
    for name, each in found.items():
        assert each.theorems, name
        assert each.greatest == (each.symbol in GREATEST)
        assert any(demand.least != each.greatest for demand in each.demands)
    needed = {"BUFFERS", "LAST", "HALO", "LAST_Q", "T", "TILES", "TAPS"}
    needed |= {"lead"} if "border mask" in form.name else set()
    needed |= {name for name in OF_CUT if name in found}
    assert {name for name, each in found.items() if each.needed} == needed


@pytest.mark.parametrize("name", BY_TAPS)
def test_a_form_that_loads_for_every_tap_chooses_nothing(name):
    by_taps = next(form for form in forms() if form.name == name)
    assert solved(by_taps.nest) == ()
    assert derived().forms[name].solved == {}


def demands(record):
    return [(each.least, each.limits, each.bounds) for each in record.demands]


@pytest.mark.parametrize("name", OF_WALK)
def test_a_walk_is_the_same_in_every_order_of_rows_lanes_and_operands(name):
    """Whatever cuts the output: a walk may be solved for by one form, and each form's own numbers are these."""
    for border in BORDERS:
        one = solved_of(OUTER.format(border=border), name)
        forms_of = [form for form in derived().forms if f"border {border}" in form]
        assert len(forms_of) >= 8
        for form in forms_of:
            assert demands(solved_of(form, name)) == demands(one), (form, name)
            assert solved_of(form, name).greatest == one.greatest


@pytest.mark.parametrize("name", OF_CUT)
def test_a_cut_is_the_same_however_lanes_come_to_their_pixels(name):
    compared = 0
    for form, record in derived().forms.items():
        for reading in (ADDRESSED, EXCHANGED, MOVED):
            other = derived().forms.get(read_so(form, reading)) if "," in form else None
            if other is not None:
                assert (name in other.solved) == (name in record.solved)
                if name in record.solved:
                    compared += form != read_so(form, reading)
                    assert demands(solved_of(form, name)) == demands(solved_of(read_so(form, reading), name))
    assert compared or name in ("WINDOWS", "USEFUL")  # windows move their rows


# ---- one bound -------------------------------------------------------------------------------------------------------

SIZES = (z.T, z.Q, z.BM, z.u, z.g)


@settings(max_examples=some(300), deadline=None)
@given(data=st.data())
def test_a_limit_is_the_least_or_the_greatest_that_meets_its_bound(data):
    drawn = random.Random(data.draw(st.integers(0, 10**6)))
    slope = drawn.choice((1, 1, z.BM, z.g * z.u, 2 * z.u))
    rest = sum(drawn.randint(-3, 3) * size for size in SIZES) + drawn.randint(-5, 5)
    bound = drawn.choice((at_most, below))(*drawn.sample([slope * z.TILES + rest, rest * 0 + drawn.choice(SIZES)], 2))
    found = limit(bound, z.TILES)
    at = {size.name: drawn.randint(1, 6) for size in SIZES}
    number = value(found.value, at)
    assert bound.holds({**at, "TILES": number}), (bound, number)
    assert not bound.holds({**at, "TILES": number - 1 if found.least else number + 1}), (bound, number)


def test_a_bound_that_is_no_multiple_is_refused():
    assert limit(at_most(z.Q, z.T), z.TILES) is None
    with pytest.raises(Refused, match=r"solve Q <= TILES\*\*2 for TILES: it is not TILES times a product of sizes"):
        limit(at_most(z.Q, z.TILES**2), z.TILES)
    with pytest.raises(Refused, match="it is not T times a product of sizes"):
        limit(at_most(z.Q, z.T * (z.g + z.u)), z.T)
    with pytest.raises(Refused, match="it is not T times a product of sizes"):
        limit(at_most(z.Q, z.T * z.pad_w), z.T)


def test_columns_of_a_buffer_that_need_two_pixels_are_refused():
    slide = next(form for form in SHARING if form.name.startswith(ADDRESSED)).nest
    other = slide.__class__(**{**{name: getattr(slide, name) for name in slide.__slots__}, "read": z.lane + 2 * z.tap})
    with pytest.raises(Refused, match="another for each column of a buffer"):
        reads(other, "a test")


# ---- with numbers ----------------------------------------------------------------------------------------------------

TURNS = {"T": -1, "Y": -1, "TILES": -1, "TILES_M": -1, "BUFFERS": -1, "TAPS": -1, "USEFUL": 1, "lead": 1}


def windows():
    """Windows of 32 lanes on a row of 40 outputs, of which a lane reads two further."""
    problem = ConvProblem(in_channels=2, out_channels=2, in_extent=(1, 42), kernel=(1, 3))
    cut = geometry_of(problem, merged=True, border="mask", lanes=64, windowed=True)
    return problem, shared_instance(problem, cut, cut.form, channels(problem)), cut.walk


@pytest.mark.parametrize("name", TURNS)
def test_one_less_breaks_a_condition_and_mostly_a_sum(name):
    """The conditions are those of the theorems; a problem may be lucky, as where no column meets the image."""
    wrong = tried = 0
    for problem, instance, walk in (*FORMS, windows()):
        assert all(isinstance(each, Proof) for each in conditions(instance, walk))
        if name not in derived().forms[instance.form].solved:
            continue
        broken = off(instance, name, TURNS[name])
        if broken is None or (name == "lead" and "border mask" not in instance.form):
            continue
        tried += 1
        assert not all(isinstance(each, Proof) for each in conditions(broken, walk)), (name, instance.form)
        wrong += not computes(problem, broken, instance)
    assert tried
    assert wrong, f"{tried} forms with another {name} make the right sums"


rows = st.builds(
    lambda width, taps, stride, dilation, left, right: (width, taps, stride, dilation, left, right),
    st.integers(1, 24), st.integers(1, 8), st.integers(1, 5), st.integers(1, 4), st.integers(0, 9), st.integers(0, 9),
)  # fmt: skip


def row_problem(width, taps, stride, dilation, left, right):
    outputs = (width + left + right - (taps - 1) * dilation - 1) // stride + 1
    if outputs < 1:
        return None
    return RowProblem(width=width, outputs=outputs, taps=taps, stride=stride, dilation=dilation, pad=left)


@settings(max_examples=some(400), deadline=None)
@given(drawn=rows, border=st.sampled_from(BORDERS))
def test_buffers_halo_and_columns_are_what_counting_finds(drawn, border):
    problem = row_problem(*drawn)
    if problem is None:
        return
    walk = row_walk(problem, border)
    remainders = {}
    for s in range(problem.taps):
        remainders.setdefault(s * problem.dilation % problem.stride, []).append(s)
    assert [[tap.s for tap in buffer.taps] for buffer in walk.buffers] == list(remainders.values())
    for buffer in walk.buffers:
        assert buffer.offset == buffer.taps[0].s * problem.dilation
        assert buffer.halo == max(tap.lanes for tap in buffer.taps)
        for tap in buffer.taps:
            assert buffer.offset + tap.lanes * problem.stride == tap.s * problem.dilation
            inside = [q for q in range(problem.outputs) if 0 <= problem.pixel(q, tap.s) < problem.width]
            assert tap.inside == ((inside[0], inside[-1]) if inside else (0, -1))


@settings(max_examples=some(400), deadline=None)
@given(drawn=rows)
def test_no_lane_reads_two_rows_on_where_borders_are_zero(drawn):
    """What was a condition once follows from the two that a row has padding at its end, and the next at its start."""
    problem = row_problem(*drawn)
    if problem is not None:
        walk = row_walk(problem, "zero")
        assert all(problem.outputs + buffer.halo <= 2 * walk.period for buffer in walk.buffers)


@settings(max_examples=some(300), deadline=None)
@given(
    batch=st.integers(1, 4),
    extent=st.tuples(st.integers(1, 12), st.integers(1, 14)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 7)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    pads=st.tuples(*[st.integers(0, 4)] * 4),
    merged=st.booleans(),
    border=st.sampled_from(BORDERS),
    windowed=st.booleans(),
)
def test_tiles_rows_and_masks_are_what_counting_finds(
    batch, extent, kernel, stride, dilation, pads, merged, border, windowed
):
    try:
        problem = ConvProblem(
            batch=batch, in_channels=8, out_channels=8, in_extent=extent, kernel=kernel, stride=stride,
            dilation=dilation, pad_lo=pads[:2], pad_hi=pads[2:],
        )  # fmt: skip
        cut = geometry_of(problem, merged=merged, border=border, windowed=windowed)
    except (ProblemError, PlanError):
        return
    outputs, width = problem.out_extent
    streams = 1 if merged else outputs
    images = batch * cut.stream.image_rows if merged else batch
    last = (images - cut.stream.image_rows + cut.stream.outputs - 1) * cut.walk.period + width - 1
    assert cut.tiles == last // cut.tile.outputs + 1
    assert cut.grid == cut.all_tiles == streams * cut.tiles
    down = [u * stride[0] + r * dilation[0] - pads[0] for u in range(outputs) for r in range(kernel[0])]
    leaves = any(not 0 <= h < extent[0] for h in down)
    assert cut.stream.masked == (merged and batch > 1 and leaves)
    if merged:
        assert cut.stream.image_rows == (outputs if batch == 1 else extent[0] // stride[0])
    halo = max(buffer.halo for buffer in cut.walk.buffers)
    assert cut.tile.useful == (WINDOW - halo if windowed else 128)
    assert copied_rows(MOVED, cut.form, 128, cut.tile.windows, halo) == (128 if windowed else 128 + 4 * halo)
    if not windowed:
        assert copied_rows(ADDRESSED, cut.form, 64, 1, halo) == copied_rows(EXCHANGED, cut.form, 64, 1, halo)
        assert copied_rows(ADDRESSED, cut.form, 64, 1, halo) == 64 + halo
    assert mask_entries(problem, cut) == kernel[1] * (border == "mask") + kernel[0] * cut.stream.masked
    assert masks_read(cut) == (border == "mask") + cut.stream.masked
    for taps, apart in itertools.product((1, 2, 4), (1, 2, 3)):
        assert row_moves(cut.form, taps - 1, apart) == (taps - 1, (taps - 1) * apart)


def test_what_is_impossible_has_no_number():
    form = next(form for form in derived().forms if "rows merged" in form)
    found = solved_of(form, "Y")
    assert limits(found, {"N": 2, "P": 5, "H": 10, "u_h": 2}) == Limits(5, 5)
    assert limits(found, {"N": 2, "P": 5, "H": 11, "u_h": 2}) == Limits(6, 5)
    assert limits(found, {"N": 2, "P": 6, "H": 10, "u_h": 2}) == Limits(6, 5)
    assert limits(found, {"N": 1, "P": 6, "H": 10, "u_h": 2}) == Limits(6, None)
    tiles = solved_of(form, "TILES")
    assert reached(tiles, {"N": 2, "Y": 5, "P": 4, "T": 7, "Q": 6}) == (5 + 3) * 7 + 6
