"""What steps cover, against the program's own numbers and against the threads that really store each output."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from support.schedules import RELOAD_ONLY

from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_of
from convc.compiler.options import ScheduleOptions
from convc.compiler.schedules.features.debug_info import debug_info_of
from convc.compiler.tile.steps.base import Compute, Loop, Step
from convc.compiler.tile.steps.copies import TmaLoad
from convc.ir.debug_info import DebugInfo, dump_debug_info, read_debug_info
from convc.ir.expr import evaluate
from convc.ir.problem import ConvProblem
from convc.runtime.layer import last_writer
from convc.verification.data import integer_data

PROBLEM = ConvProblem(
    batch=2, in_channels=144, out_channels=40, in_extent=(9, 11), kernel=(2, 3), pad_lo=(1, 1), pad_hi=(0, 1), bias=True
)
STRIDED = ConvProblem(in_channels=80, out_channels=48, in_extent=(12, 13), kernel=(3, 5), stride=(1, 2), pad_lo=(1, 2))
"""Stride 2: the filter columns fall into two buffers."""

CASES = [
    (PROBLEM, "reload"), (PROBLEM, "slide"), (PROBLEM, "shift"), (PROBLEM, "stationary"), (STRIDED, "slide"),
    (STRIDED, "shift"), (STRIDED, "stationary"),
]  # fmt: skip


@cache
def case(problem: ConvProblem, schedule: str):
    compiled = compile_problem(problem, options=ScheduleOptions(schedule=schedule, store="direct", split_k="off"))
    return compiled, debug_info_of(compiled.plan, compiled.program)


def executed(steps: tuple[Step, ...], values: dict[str, int]) -> Iterator[tuple[Step, dict[str, int]]]:
    """Every execution of every step, in order, with the numbers that do not depend on the CTA or the thread."""
    for step in steps:
        yield step, dict(values)
        if isinstance(step, Compute) and step.expr.variables() <= values.keys():
            values[step.dst] = evaluate(step.expr, values)
        if isinstance(step, Loop):
            for turn in range(step.count):
                yield from executed(step.body, values | {step.var: turn})


def reductions(compiled, coverage: DebugInfo, role: str, start: str) -> list[tuple[str, dict, dict]]:
    """(step, what it covers, its numbers) of each execution of a role's steps whose names begin so."""
    steps = next(r for r in compiled.program.roles if r.name == role).steps
    count: dict[str, int] = {}
    found = []
    for step, values in executed(steps, {}):
        if step.id.startswith(start):
            nth = count[step.id] = count.get(step.id, -1) + 1
            found.append((step, coverage.reduction(step.id, nth), values))
    for step, nth in {step.id: count[step.id] for step, _, _ in found}.items():
        assert coverage.reduction(step, nth + 1) == {}
    return found


@pytest.mark.parametrize(("problem", "schedule"), CASES)
def test_filter_tiles_are_those_that_the_copies_name(problem, schedule):
    compiled, coverage = case(problem, schedule)
    loads = reductions(compiled, coverage, "load", "load.b")
    loads = [entry for entry in loads if isinstance(entry[0], TmaLoad)]
    assert len(loads) == compiled.plan.pipeline.steps
    for step, covered, values in loads:
        channel, tap, _ = (values.get(name) for name in step.coords)
        assert covered["c"] == (channel, min(channel + compiled.plan.pipeline.channels, problem.in_channels) - 1)
        assert covered["r"][0] * problem.kernel[1] + covered["s"][0] == tap
        assert covered["r"][0] == covered["r"][1]
        assert covered["s"][0] == covered["s"][1]


@pytest.mark.parametrize(("problem", "schedule"), CASES)
def test_multiplications_follow_the_copies(problem, schedule):
    """Filter tiles are multiplied in the order in which they come."""
    compiled, coverage = case(problem, schedule)
    loads = [entry for entry in reductions(compiled, coverage, "load", "load.b") if isinstance(entry[0], TmaLoad)]
    products = reductions(compiled, coverage, "mma", "mma.multiply")
    assert [covered for _, covered, _ in products] == [covered for _, covered, _ in loads]
    assert len(products) == compiled.plan.pipeline.steps


@pytest.mark.parametrize(("problem", "schedule"), CASES)
def test_every_output_is_in_the_place_of_its_thread(problem, schedule):
    """The thread that stores an output element has its pixel (or, transposed, its channel) and nothing else."""
    compiled, coverage = case(problem, schedule)
    x, weight, bias = integer_data(problem, 3)
    layer = layer_of(problem, kernel_of(compiled), weight, bias)
    batch, channels, *extent = problem.y_shape
    for element in ((0, 0, 0, 0), (batch - 1, channels - 1, extent[0] - 1, extent[1] - 1), (batch - 1, 17, 3, 4)):
        n, k, p, q = element
        who = last_writer(layer, x, element)
        tile = who.cta % layer.launch.grid[0], who.cta // layer.launch.grid[0]
        lane = 32 * who.warp + who.lanes[0]
        pixels, held = coverage.outputs(tile, (lane, lane), (0, coverage.columns - 1))
        pixel = int(np.ravel_multi_index((n, p, q), (batch, *extent)))
        if schedule == "stationary":
            assert held == (k, k)
            assert pixels[0] <= pixel <= pixels[1]
        else:
            assert pixels == (pixel, pixel)
            assert held[0] <= k <= held[1]


@pytest.mark.parametrize(("problem", "schedule"), CASES)
def test_the_epilogue_goes_through_all_columns(problem, schedule):
    _, coverage = case(problem, schedule)
    scope = coverage.steps["epilogue.read"]
    chunks = [coverage.columns_of("epilogue.read", n) for n in range(scope.loops[-1][1])]
    assert [c for first, last in chunks for c in range(first, last + 1)] == list(range(coverage.columns))
    assert coverage.columns_of("epilogue.read", len(chunks)) is None
    assert coverage.columns_of("load.b", 0) is None
    assert coverage.reduction("no such step", 0) == {}
    assert coverage.reduction("mma.done", None) == {}


@pytest.mark.parametrize(("problem", "schedule"), CASES)
def test_it_is_read_back(problem, schedule):
    _, coverage = case(problem, schedule)
    assert read_debug_info(dump_debug_info(coverage)) == coverage


@pytest.mark.parametrize("damage", [(b'"tile_m"', b'["?"]'), (b'"taps"', b'"tops"'), (b"{", b"")])
def test_damage_is_refused(damage):
    _, coverage = case(PROBLEM, "reload")
    with pytest.raises(ValueError, match=r"expected a number|missing required field|Expected `object`"):
        read_debug_info(dump_debug_info(coverage).replace(*damage, 1))


def test_channels_that_lie_two_to_a_byte_are_counted_one_by_one():
    problem = ConvProblem(in_channels=300, out_channels=40, in_extent=(9, 9), kernel=(1, 1), operand="nvfp4", out="f32")
    compiled = compile_problem(problem, options=RELOAD_ONLY)
    covered = debug_info_of(compiled.plan, compiled.program)
    assert covered.reduction("mma.multiply", 0)["c"] == (0, 255)
    assert covered.reduction("mma.multiply", 1)["c"] == (256, 319)  # filled up to blocks
    assert covered.reduction("epilogue.factors_a", 1)["c"] == (256, 319)
