"""The numbers of a kernel are held against what they mean: each of them that is off is refused, with its theorem."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest
from support.records import replace

from convc.compiler.compile import compile_problem
from convc.compiler.index.presburger import apart
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan import meanings, validation
from convc.compiler.schedules.base import Schedule
from convc.derive import mainloop, symbols
from convc.derived.record import derived
from convc.errors import DerivationError
from convc.ir.expr import And, Const, Less, Select, Var
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(
    batch=3, in_channels=32, out_channels=256, groups=2, in_extent=(12, 13), kernel=(3, 5), dilation=(1, 1),
    pad_lo=(1, 3), pad_hi=(1, 3),
)  # fmt: skip
KINDS = {
    "reload": ScheduleOptions(schedule="reload"),
    "rows outer": ScheduleOptions(schedule="slide", rows="outer", border="mask"),
    "rows merged": ScheduleOptions(schedule="slide", rows="merged", border="mask"),
    "windows": ScheduleOptions(schedule="shift", shift="windows", rows="merged", border="mask"),
    "exchanged": ScheduleOptions(schedule="stationary"),
    "boxed": ScheduleOptions(schedule="slide", target="sm_90a"),
}
TAPS = ["start_w", "start_h", "start_n", "off_w", "off_h", "m"]
ROWS = {
    "rows outer": ["start_w", "start_h", "start_n", "m", "column_mask"],
    "rows merged": ["start_w", "start_row", "m", "column_mask", "line_mask"],
    "windows": ["start_w", "start_row", "m", "column_mask", "line_mask"],
    "exchanged": ["start_w", "m"],
    "boxed": ["start_w", "start_h", "start_n", "off_h", "m"],
}
COMMON = ["tap", "c", "pack_c", "k", "first_k", "out_byte"]
NUMBERS = [("reload", name) for name in TAPS + COMMON] + [(kind, x) for kind in ROWS for x in ROWS[kind] + COMMON]


@pytest.fixture(scope="module")
def kernels():
    """Of each kind: a schedule, a candidate, and its numbers as they are before they are validated."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        real = validation.validated

        def kept(candidate, indexing, *, transposed):
            seen.append((candidate, indexing, transposed))
            return real(candidate, indexing, transposed=transposed)

        patch.setattr(validation, "validated", kept)
        for kind, options in KINDS.items():
            seen = []
            compile_problem(PROBLEM, options=options)
            found[kind] = seen[-1]
    return found


@pytest.mark.parametrize(
    ("extent", "kernel", "pad", "leaves"),
    [((4, 9), 1, 0, False), ((9, 4), 1, 0, False), ((4, 9), 3, 0, False), ((4, 9), 3, 1, True), ((9, 4), 3, 1, True)],
)
def test_rows_of_other_images_are_read_by_filters_that_leave_their_own(extent, kernel, pad, leaves):
    geometry = SimpleNamespace(stream=SimpleNamespace(merged=True, boxed=False))
    problem = ConvProblem(
        batch=2, in_channels=8, out_channels=8, in_extent=extent, kernel=(kernel, 1), pad_lo=(0, 0), pad_hi=(pad, 0)
    )
    assert validation._leaves_images(problem, geometry) == leaves
    assert not validation._leaves_images(replace(problem, batch=1), geometry)


def validated(kernel, **changes):
    candidate, indexing, transposed = kernel
    coordinates = indexing.coordinates
    for name, change in changes.items():
        number = getattr(coordinates, name)
        coordinates = replace(coordinates, **{name: replace(number, value=change(number.value))})
    return validation.validated(candidate, replace(indexing, coordinates=coordinates), transposed=transposed)


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_rests_on_a_theorem(kernels, kind):
    _, indexing, _ = kernels[kind]
    before = len(indexing.derivation)
    said = validated(kernels[kind]).derivation[before:]
    assert len(said) >= 8
    known = {theorem.name for theorem in theorems()}
    assert all(line.startswith("proved: ") and line.split('[theorem "')[1].removesuffix('"]') in known for line in said)


class Named(msgspec.Struct):
    name: str


def theorems():
    return msgspec.json.decode(derived().theorems, type=list[Named])


@pytest.mark.parametrize(("kind", "name"), NUMBERS)
def test_a_number_that_is_off_is_refused_with_its_theorem(kernels, kind, name):
    def off(value):
        """Another number in the first branch of one that selects."""
        return Select(value.cond, value.a + 1, value.b) if isinstance(value, Select) else value + 1

    with pytest.raises(DerivationError, match=rf'\(theorem ".*"\): {name} = -?\d+ at ') as refused:
        validated(kernels[kind], **{name: off})
    assert "is a mistake of convc" in refused.value.hint


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_that_is_off_at_one_tile_is_refused_there(kernels, kind):
    tiles = kernels[kind][0].tiled.grid[0]
    last = Less(Const(tiles - 2), Var("tile_m"))
    with pytest.raises(DerivationError, match=rf"start_w = -?\d+ at tile_m = {tiles - 1}"):
        validated(kernels[kind], start_w=lambda value: Select(And((last,)), value + 1, value))


def test_a_number_that_is_missing_is_refused(kernels):
    candidate, indexing, transposed = kernels["rows merged"]
    without = replace(indexing, coordinates=replace(indexing.coordinates, line_mask=None))
    with pytest.raises(DerivationError, match="the kernel has no line_mask"):
        validation.validated(candidate, without, transposed=transposed)


@pytest.mark.parametrize("kind", ["reload", "rows merged"])
@pytest.mark.parametrize("name", ["lower", "upper", "element_strides"])
def test_a_box_of_activations_that_is_off_is_refused(kernels, kind, name):
    candidate, indexing, transposed = kernels[kind]
    a = indexing.loads.a
    first, *others = getattr(a, name)[name == "element_strides" :]
    changed = (*getattr(a, name)[: name == "element_strides"], first + 1, *others)
    loads = replace(indexing.loads, a=replace(a, **{name: changed}))
    with pytest.raises(DerivationError, match="along W of the box of activations"):
        validation.validated(candidate, replace(indexing, loads=loads), transposed=transposed)


@pytest.mark.parametrize(("name", "why"), [("row_limit", "output pixels"), ("channel_limit", "output channels")])
def test_an_end_that_is_off_is_refused(kernels, name, why):
    candidate, indexing, transposed = kernels["reload"]
    with pytest.raises(DerivationError, match=f"end of the {why} is"):
        validation.validated(candidate, replace(indexing, **{name: 7}), transposed=transposed)


def test_a_size_without_a_meaning_is_refused(kernels):
    candidate, _, _ = kernels["rows merged"]
    tiled = candidate.tiled
    meant = meanings.sizes_meant(tiled.layout, tiled.tiling, candidate.pipeline, tiled.grid[0], candidate.geometry)
    names = {
        each.name for each in (*vars(symbols).values(), *vars(mainloop).values()) if getattr(each, "is_Symbol", False)
    } - set(symbols.AXES)
    assert meant.keys() <= names
    with pytest.raises(DerivationError, match="size X = 3 has no meaning"):
        validation.check_sizes(PROBLEM, {"X": 3}, meant)


def test_no_other_schedule_is_tried(monkeypatch):
    """A mistake of convc is not hidden by a kernel of another schedule."""
    real = Schedule.indexing

    def off(schedule, candidate):
        found = real(schedule, candidate)
        tap = found.coordinates.tap
        wrong = replace(found.coordinates, tap=replace(tap, value=Var("s") * 3 + Var("r")))
        return validation.validated(candidate, replace(found, coordinates=wrong), transposed=schedule.transposed)

    monkeypatch.setattr(Schedule, "indexing", off)
    why = r'\(theorem "tap numbers the weights .* once"\): tap = 3 at r = 0, s = 1, and its meaning is 1: r\*5 \+ s'
    with pytest.raises(DerivationError, match=why) as refused:
        compile_problem(PROBLEM)
    assert refused.value.exit_code == 1


def test_selections_are_compared_as_numbers():
    """By parts where they look alike, and whole where they do not."""
    x = Var("x")
    below = Select(And((Less(x, Const(5)),)), x, Const(0))
    turned = Select(And((Less(Const(4), x),)), Const(0), x)
    ranges = {"x": (0, 9)}
    assert apart(ranges, [(below, turned)]) is None
    assert apart(ranges, [(below, below), (below, Select(And((Less(x, Const(6)),)), x, Const(0)))]) == (1, {"x": 5})
    assert apart(ranges, [(Select(And((Less(x, Const(10)),)), x, Const(0)), x)]) is None
    assert apart({"x": (0, 10)}, [(Select(And((Less(x, Const(10)),)), x, Const(0)), x)]) == (0, {"x": 10})
