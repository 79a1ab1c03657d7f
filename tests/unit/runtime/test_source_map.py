"""Findings in a kernel of ours name outputs, channels and taps: of kernels broken in an iteration that is known."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from support.kernel_edits import EXPECT_MORE, MISPLACE, edited

from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_of
from convc.compiler.options import ScheduleOptions
from convc.compiler.schedules.features.debug_info import debug_info_of
from convc.ir.findings import Finding, Region, Verdict
from convc.ir.problem import ConvProblem
from convc.runtime.layer import input_buffers
from convc.runtime.source_map import attach_source
from convc.sanitizer.run import check_kernel
from convc.verification.data import integer_data

PROBLEM = ConvProblem(
    in_channels=144, out_channels=80, in_extent=(12, 12), kernel=(3, 2), pad_lo=(1, 1), pad_hi=(1, 0), bias=True
)
"""18 steps: 3 filter rows, 2 columns, 3 blocks of 64 channels of which the last is a quarter full; two tiles of M."""

SKIP = r"( *)mma_wait_retry:\n.*\n.*\n"
"""The wait for the operands of a step of the K loop."""


@cache
def case():
    x, weight, bias = integer_data(PROBLEM, 7)
    compiled = compile_problem(
        PROBLEM, options=ScheduleOptions(schedule="reload", store="direct", split_k="off"), stages=2, block_n=48
    )
    return layer_of(PROBLEM, kernel_of(compiled), weight, bias), x, debug_info_of(compiled.plan, compiled.program)


def findings(pattern: str, replacement: str) -> list[Finding]:
    """What the checkers say of the kernel with one edit, with places."""
    layer, x, info = case()
    checked = check_kernel(edited(layer.ptx, pattern, replacement), layer.launch, input_buffers(layer, x))
    return [attach_source(layer, finding, info) for finding in checked.findings]


@pytest.mark.parametrize("step", [1, 5, 11, 17])
def test_a_step_of_the_reduction_is_named(step):
    """The multiplication does not wait for its operands in one step alone: it and both copies are of that step."""
    over = f"setp.eq.u32 %passed, %k_step, {step};\n@%passed bra mma_wait_over;\n"
    found = findings(SKIP, over + r"\g<0>mma_wait_over:\n")
    races = [f for f in found if f.step == "mma.multiply" and f.other.step in ("load.a", "load.b")]
    r, s, block = np.unravel_index(step, (3, 2, 3))
    assert races
    for race in races:
        assert (race.nth, race.other.nth) == (step, step)
        for place in (race.place, race.other.place):
            assert (place.r, place.s) == ((r, r), (s, s))
            assert place.c == (64 * block, min(64 * block + 63, 143))
            assert place.k == (0, 47)
            assert place.pixels == ((0, 0, 0), (0, 10, 7))
    assert f"c = {64 * block}..{min(64 * block + 63, 143)}, r = {r}, s = {s}" in str(races[0])


def test_lanes_and_columns_of_the_accumulator_are_outputs():
    found = findings(r"\n *tcgen05\.wait::ld\.sync\.aligned;", "")
    race = next(f for f in found if f.rule == "race-tensor-memory")
    lanes, columns = race.region.lanes, race.region.columns
    first, last = (tuple(map(int, np.unravel_index(lane, (1, 12, 12)))) for lane in lanes)
    assert race.other.place.pixels == (first, last)
    assert race.other.place.k == columns
    assert (race.other.warp * 32, race.other.warp * 32 + 31) == lanes


def test_bytes_of_the_output_are_pixels_and_channels():
    """Both tiles of pixels store where the first one should."""
    found = findings(r"mad\.lo\.s32 %t0, %tile_m, \d+, ", "mad.lo.s32 %t0, %tile_m, 0, ")
    clash = [f for f in found if f.rule == "race-global-memory"]
    assert clash
    for finding in clash:
        byte = finding.region.runs[0][0]
        pixel, channel = divmod(byte // 2, 80)
        assert finding.place.pixels == (tuple(map(int, np.unravel_index(pixel, (1, 12, 12)))),) * 2
        assert finding.place.k == (channel, channel)
        assert finding.lanes == (pixel % 32,)
        assert {finding.cta, finding.other.cta} <= {0, 1} or {finding.cta, finding.other.cta} <= {2, 3}


def test_a_fault_names_its_step_and_a_hang_its_place():
    (fault,) = [f for f in findings(*MISPLACE) if f.rule == "fault" and "policy" not in f.message]
    assert (fault.step, fault.cta, fault.warp) == ("epilogue.write", 0, 0)
    assert fault.place.pixels[0] == (0, 0, 0)
    (hang,) = [f for f in findings(*EXPECT_MORE) if f.rule == "hang"]
    assert (hang.cta, hang.place.pixels, hang.place.k) == (0, ((0, 0, 0), (0, 10, 7)), (0, 47))


def test_a_place_is_as_exact_as_what_is_known():
    layer, _, info = case()

    def place(**known):
        return attach_source(layer, Finding(verdict=Verdict.error, rule="r", message="m", **known), info).place

    tile = place(cta=3, step="load.a")
    assert (tile.pixels, tile.k, tile.c, tile.r) == (((0, 10, 8), (0, 11, 11)), (48, 79), None, None)
    step = place(cta=3, step="load.a", nth=4)
    assert (step.pixels, step.k, step.c, step.r, step.s) == (tile.pixels, tile.k, (64, 127), (0, 0), (1, 1))
    lanes = place(cta=1, region=Region(space="tensor", lanes=(2, 3)))
    assert (lanes.pixels, lanes.k) == (((0, 10, 10), (0, 10, 11)), (0, 47))
    assert place(cta=1, region=Region(space="tensor", lanes=(16, 31))).pixels is None
    assert place(step="load.a", nth=4) is None
    unplaced = Finding(verdict=Verdict.error, rule="r", message="m", cta=3)
    assert attach_source(layer, unplaced, None).place is None
