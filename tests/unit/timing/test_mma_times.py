"""The tensor core's times: 216 published rows, of which those of f16 set the numbers; and its steps, added up."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import pytest

import convc
from convc.errors import InputError
from convc.timing.parameters import read_chip
from convc.timing.passes import steps
from convc.timing.tensor_core import MmaShape, interval, latency

ROWS = Path(__file__).resolve().parents[2] / "recordings" / "timing" / "published_mma.csv"
B200 = read_chip("b200")
MODEL = {"mma_initiation_interval": interval, "mma_issue_to_mbarrier_latency": latency}

SHAPES = [
    MmaShape(m=m, n=n, pair=pair, a_in_tensor=tensor)
    for pair, rows in ((False, (64, 128)), (True, (128, 256)))
    for m in rows
    for n in (16, 64, 80, 96, 112, 128, 192, 256)
    for tensor in (False, True)
]


def published() -> dict[tuple[str, str], list[tuple[float, MmaShape]]]:
    """Relative errors by quantity and use of the rows."""
    found = defaultdict(list)
    for row in csv.DictReader(ROWS.read_text(encoding="utf-8").splitlines()):
        pair = row["pair"] == "1"
        shape = MmaShape(m=int(row["m"]), n=int(row["n"]), pair=pair, a_in_tensor=row["a"] == "tensor")
        error = abs(MODEL[row["quantity"]](shape, B200) / float(row["cycles"]) - 1)
        found[row["quantity"], row["use"]].append((error, shape))
    return found


@pytest.mark.parametrize("quantity", MODEL)
def test_published_rows_are_met_to_one_percent_and_none_is_off_by_four(quantity):
    rows = published()
    assert len(rows[quantity, "calibrate"]) == 48
    assert len(rows[quantity, "held-out"]) == 60
    for use in ("calibrate", "held-out"):
        errors = [error for error, _ in rows[quantity, use]]
        assert sum(errors) / len(errors) <= 0.01
        assert max(errors) <= 0.04, max(rows[quantity, use], key=lambda row: row[0])


PAGE = (Path(convc.__file__).parent / "docs" / "timing_measurements.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("line", "quantity", "use"),
    [
        ("B200, interval of an MMA, kind::f16", "mma_initiation_interval", "calibrate"),
        ("B200, interval of an MMA, other kinds", "mma_initiation_interval", "held-out"),
        ("B200, latency of an MMA, kind::f16", "mma_issue_to_mbarrier_latency", "calibrate"),
        ("B200, latency of an MMA, other kinds", "mma_issue_to_mbarrier_latency", "held-out"),
    ],
)
def test_the_page_says_how_right_it_is(line, quantity, use):
    errors = [error for error, _ in published()[quantity, use]]
    said = f"| {line} | {len(errors)} | {100 * sum(errors) / len(errors):.1f} % | {100 * max(errors):.1f} % |"
    assert said in PAGE, said


@pytest.mark.one_of(3)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_interval_follows_from_the_steps(shape):
    firsts = {}
    for step in steps(shape, B200, count=40):
        if step.unit == "multiply":
            firsts.setdefault(step.mma, step.cycle)
    assert firsts[39] - firsts[38] == pytest.approx(interval(shape, B200))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_steps_of_one_mma_cover_its_operands_and_its_product_once(shape):
    taken = list(steps(shape, B200))
    port = sum(step.port_bytes for step in taken)
    a = 0 if shape.a_in_tensor else shape.rows * 32
    assert port == a + shape.b_rows * 32
    cells = [
        (lane, column)
        for step in taken
        if step.unit == "multiply"
        for lane in range(step.lanes[0], step.lanes[1] + 1)
        for column in range(step.columns[0], step.columns[1] + 1)
    ]
    assert len(cells) == len(set(cells)) == shape.rows * shape.n
    if not shape.a_in_tensor:
        assert taken[0].unit == "read A"
    firsts = [step.columns[0] for step in taken if step.unit == "read B"]
    assert firsts == sorted(firsts)


def test_accumulators_take_1024_bytes_a_cycle_each_way():
    busy = defaultdict(int)
    for step in steps(MmaShape(m=128, n=256), B200):
        if step.unit == "multiply":
            busy[step.cycle] += step.accumulator_bytes
    assert set(busy.values()) == {1024}
    assert len(busy) == 128


def test_a_pair_of_64_rows_an_sm_takes_both_halves_of_n_at_once():
    first = [
        step for step in steps(MmaShape(m=128, n=64, pair=True, a_in_tensor=True), B200) if step.unit == "multiply"
    ]
    assert {(step.sub_core, step.columns) for step in first[:4]} == {
        (0, (0, 7)), (1, (0, 7)), (2, (32, 39)), (3, (32, 39))
    }  # fmt: skip


def test_no_more_than_the_array_can_do():
    for shape in SHAPES:
        flops = 2 * shape.m * shape.n * 16 / (2 if shape.pair else 1)
        assert flops / interval(shape, B200) <= 8192


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"m": 32, "n": 64}, "M must be one of 64, 128 for cta_group::1, got 32"),
        ({"m": 64, "n": 64, "pair": True}, "M must be one of 128, 256 for cta_group::2"),
        ({"m": 128, "n": 12}, "N must be a multiple of 8 in 8..256, got 12"),
    ],
)
def test_a_shape_that_is_none_is_refused(shape, said):
    with pytest.raises(InputError, match=said):
        MmaShape(**shape)


def test_what_nobody_has_measured_is_not_opened_up():
    with pytest.raises(InputError, match="it was never measured"):
        next(steps(MmaShape(m=32, n=64, ws=True), B200))
