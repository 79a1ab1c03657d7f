"""The kernel is the derived record: whoever changes the record changes the kernel, and a wrong change is refused."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace
from support.mutants import put_record

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.derive import symbols as z
from convc.derive.symbols import FloorDiv, Mod
from convc.derive.theorem import Refused, below, proved
from convc.derived import record
from convc.errors import DerivationError
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(
    batch=1, in_channels=64, out_channels=32, in_extent=(9, 9), kernel=(2, 3), pad_lo=(1, 1), pad_hi=(0, 1)
)


def compiled(schedule):
    return compile_problem(PROBLEM, options=ScheduleOptions(schedule=schedule))


@pytest.fixture
def changed(monkeypatch):
    """Put a changed record in the place of the derived one."""
    found = msgspec.json.decode(record.FILE.read_bytes(), type=record.Derived)

    def change(**parts):
        put_record(monkeypatch, replace(found, **parts))

    change.record = found
    return change


def swapped(loops, one, two):
    """Loops of which two have changed places."""
    places = {loop[0]: loop for loop in loops}
    other = {one: places[two], two: places[one]}
    return [other.get(loop[0], loop) for loop in loops]


def trips(artifact, role="load"):
    """The loops of a role, outermost first."""
    return [line for line in artifact.ptx.splitlines() if f"step={role}.rows" in line or f"step={role}.columns" in line]


def test_loops_that_change_places_in_the_record_do_so_in_the_kernel(changed):
    before = compiled("reload").artifact
    last = changed.record.forms["reload"].algorithms[-1][1]
    nests = [
        replace(nest, loops=swapped(nest.loops, "r", "s")) if number == last else nest
        for number, nest in enumerate(changed.record.nests)
    ]
    changed(nests=nests)
    after = compiled("reload").artifact
    assert after.ptx != before.ptx
    assert [line.split("step=")[1].split()[0] for line in trips(before)] == ["load.rows", "load.columns"]
    assert [line.split("step=")[1].split()[0] for line in trips(after)] == ["load.columns", "load.rows"]


@pytest.mark.parametrize("schedule", ["reload", "slide", "shift", "stationary"])
def test_a_tap_whose_axes_change_places_is_refused(changed, schedule):
    expressions = list(changed.record.expressions)
    number = dict(changed.record.forms["reload"].maps["tap"].results)["tap"]
    tap = expressions[number]
    rows, column = tap.terms
    expressions[number] = replace(tap, terms=[replace(rows, atom="s"), replace(column, atom="r")])
    changed(expressions=expressions)
    with pytest.raises(DerivationError) as error:
        compiled(schedule)
    assert "tap numbers the weights w[k, r, s, ...] of a filter once" in error.value.message


def test_no_theorem_says_that_such_a_tap_numbers_weights_in_their_order():
    tap = z.s * z.S + z.r
    with pytest.raises(Refused, match="fails at"):
        proved("tap", [(FloorDiv(tap, z.S), z.r), (Mod(tap, z.S), z.s)], [below(z.s, z.S)])
