"""The verdict on shift: it saves reads of shared memory, and pays only where those take longest."""

from __future__ import annotations

import dataclasses
import io
import re
from types import SimpleNamespace

import msgspec
import pytest
from rich.console import Console

from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.records import ScheduleSummary
from convc.compiler.planner import search
from convc.compiler.planner.search import plan
from convc.compiler.schedules.all import CHAIN, SLIDE, STATIONARY, WINDOWS
from convc.explain.moving import verdict_on_moving
from convc.explain.schedules import choice_lines, illegal_lines, print_choices
from convc.explain.sharing import sharing_lines
from convc.explain.taken import legal_choices, taken_choice
from convc.explain.why import _compared, why_lines
from convc.host_layout.device_layout import device_layout
from convc.ir.problem import ConvProblem


def lines(**changes) -> list[str]:
    shape = {"in_channels": 256, "out_channels": 256, "in_extent": (56, 56), "kernel": (3, 3), "batch": 16} | changes
    problem = ConvProblem(pad_lo=(1, 1), pad_hi=(1, 1), **shape)
    return said_of(problem)


def said_of(problem: ConvProblem) -> list[str]:
    """The table of schedules of a problem, and the reasons below it, as they are printed."""
    paper = io.StringIO()
    decided = plan(device_layout(problem), options=ScheduleOptions())
    print_choices(Console(file=paper, width=1 << 19, markup=False, highlight=False), decided)
    lines = paper.getvalue().splitlines()
    assert lines == choice_lines(decided)
    return lines


@pytest.mark.parametrize("channels", [128, 256, 512])
def test_wide_tiles_make_shift_not_worth_it(channels):
    found = lines(out_channels=channels)
    (said,) = (line for line in found if re.search("shift (windows|chain) is (slower|not faster) here", line))
    assert re.search(
        r"but the mainloop of slide is bound by (L2|tensor core|copy latency), and it adds \d+ cycles of tensor-core",
        said,
    )
    (chosen,) = (line for line in found if line.startswith("*"))
    assert chosen.split()[1] != "shift"


STILL = ScheduleSummary(schedule=SLIDE.id, cycles=1000, mma_cycles=500, read_cycles=900, bottleneck="shared memory")
MOVED = ScheduleSummary(schedule=WINDOWS.id, cycles=1000, mma_cycles=600, read_cycles=400)


@pytest.mark.parametrize(
    ("slide", "shift", "verdict"),
    [
        (
            {},
            {"cycles": 700},
            "shift windows is faster (about 700 cycles, slide 1000): it saves 500 cycles of SMEM reads",
        ),
        (
            {},
            {"cycles": 980},
            "saves 500 cycles of SMEM reads, but it adds 100 cycles of tensor-core time (copies, shifts)",
        ),
        (
            {},
            {"cycles": 980, "mma_cycles": 500, "multiply_cycles": 70},
            "saves 500 cycles of SMEM reads, but it adds 70 cycles of issue",
        ),
        (
            {},
            {"cycles": 980, "mma_cycles": 500},
            "saves 500 cycles of SMEM reads, but that is less than the error of the estimate",
        ),
        (
            {},
            {"schedule": STATIONARY.id, "cycles": 900},
            "it is 11% faster, but assumes unrecorded hardware rules, and must be 18% faster",
        ),
        (
            {"bottleneck": "L2"},
            {"cycles": 980},
            "saves 500 cycles of SMEM reads, but the mainloop of slide is bound by L2, and it adds 100 cycles",
        ),
    ],
)
def test_the_verdict(slide, shift, verdict):
    still = msgspec.structs.replace(STILL, **slide)
    moved = msgspec.structs.replace(MOVED, **shift)
    assert verdict in verdict_on_moving(still, moved, moved if verdict.startswith("shift windows is faster") else still)


@pytest.mark.parametrize(
    ("cycles", "chosen", "said"),
    [
        # stationary rests on an assumed rule, shift chain on two, the others on none
        (
            {SLIDE: 1060, STATIONARY: 1000},
            SLIDE,
            "assumes unrecorded hardware rules, or within 18% without any, the error of",
        ),
        ({SLIDE: 1170, STATIONARY: 1000}, SLIDE, "of these, slide assumes no hardware rule that is not recorded"),
        ({SLIDE: 1190, STATIONARY: 1000}, STATIONARY, "stationary is the fastest: about 1000 cycles; slide"),
        (
            {SLIDE: 1000, STATIONARY: 1040},
            SLIDE,
            "within 5% of the fastest (slide, about 1000 cycles), the error of the estimate",
        ),
        ({SLIDE: 1060, WINDOWS: 1000}, WINDOWS, "shift windows is the fastest"),
        ({SLIDE: 1170, WINDOWS: 1100, STATIONARY: 1000}, WINDOWS, "of these is within 5%: shift windows"),
        ({CHAIN: 1060, STATIONARY: 1000}, STATIONARY, "is the fastest"),
        ({CHAIN: 1000, STATIONARY: 1040}, STATIONARY, "assumes only 1 unrecorded hardware rules"),
    ],
)
def test_assumed_rules_are_taken_for_granted_where_they_gain_much(cycles, chosen, said):
    """Bytes are fewest where time is longest, so that they never decide here by themselves."""
    legal = [SimpleNamespace(schedule=one.id, best=offered(time)) for one, time in cycles.items()]
    assert search._chosen(legal).schedule == chosen.id
    summaries = {
        one.id: ScheduleSummary(schedule=one.id, cycles=time, traffic_bytes=10000 - time)
        for one, time in sorted(cycles.items(), key=lambda pair: pair[1])
    }
    assert said in "\n".join(_compared(list(summaries.values()), summaries[chosen.id]))


def offered(time: int) -> SimpleNamespace:
    """A schedule's best candidate, as far as the choice looks at it."""
    return SimpleNamespace(cycles=time, traffic_bytes=10000 - time)


def test_lanes_are_accounted_for():
    problem = ConvProblem(
        batch=2,
        in_channels=64,
        out_channels=64,
        in_extent=(20, 28),
        kernel=(3, 3),
        stride=(2, 1),
        pad_lo=(1, 1),
        pad_hi=(0, 1),
    )
    options = ScheduleOptions(schedule="shift", shift="windows", border="zero", rows="merged")
    found = list(sharing_lines(plan(device_layout(problem), options=options)))
    assert found[1] == (
        "lane use: 560 of 640 lanes (87.5%): 2 of every 32 are halo; 1 of 29 per row hold no output; "
        "the last tile of the stream is not full"
    )
    assert found[2:6] == [
        "border mask, rows outer: 10 tiles, 28 lanes per row",
        "border mask, rows merged: 5 tiles, 28 lanes per row",
        "border zero, rows outer: 10 tiles, 29 lanes per row",
        "border zero, rows merged: 5 tiles, 29 lanes per row",
    ]
    taller = dataclasses.replace(problem, pad_lo=(0, 1))
    assert "1 of 10 rows per image have none" in list(sharing_lines(plan(device_layout(taller), options=options)))[1]
    uneven = dataclasses.replace(problem, in_extent=(21, 28))
    options = dataclasses.replace(options, rows="auto")
    refused = list(sharing_lines(plan(device_layout(uneven), options=options)))[3]
    assert refused.startswith("border mask, rows merged: the output rows cannot be one stream: ")


def test_an_illegal_schedule_says_which_condition_fails():
    problem = ConvProblem(in_channels=64, out_channels=64, in_extent=(20, 60), kernel=(3, 11), dilation=(1, 4))
    text = "\n".join(illegal_lines(plan(device_layout(problem), options=ScheduleOptions())))
    far = "the last filter column is 40 lanes from the first of its buffer, at most"
    assert f"not possible: shift chain, shift ashift: {far} 31" in text
    assert f"not possible: stationary: {far} 32" in text
    assert "not possible: shift windows: windows of 32 lanes cannot overlap by a halo of 40" in text


def test_several_images_merge_only_in_step():
    problem = ConvProblem(
        batch=2,
        in_channels=64,
        out_channels=64,
        in_extent=(7, 20),
        kernel=(3, 3),
        stride=(2, 1),
        pad_lo=(1, 1),
        pad_hi=(1, 1),
    )
    with pytest.raises(Exception, match="stride 2 does not divide the 7 rows of an image"):
        plan(device_layout(problem), options=ScheduleOptions(schedule="slide", rows="merged"))


SMALL = ConvProblem(in_channels=16, out_channels=24, in_extent=(12, 12), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1))
POINT = ConvProblem(in_channels=32, out_channels=24, in_extent=(12, 12), kernel=(1, 1))


def test_the_reasons_agree_with_the_choice():
    """No schedule is marked and then called not worth it, and what is said to decide does decide."""
    for channels, size in ((16, 12), (64, 56), (128, 28), (256, 14), (512, 7)):
        problem = dataclasses.replace(SMALL, in_channels=channels, out_channels=channels, in_extent=(size, size))
        decided = plan(device_layout(problem), options=ScheduleOptions(split_k="off"))
        reasons = list(why_lines(decided))
        title = decided.schedule.title
        assert not any(line.startswith(f"{title} is slower") for line in reasons)
        for line in reasons:
            if line.startswith("chosen by bytes from L2: "):
                assert title in line.split("iB")[0]
        near = [each for each in legal_choices(decided) if each.schedule == decided.schedule]
        assert near[0].traffic_bytes == decided.estimate.traffic_bytes


@pytest.mark.parametrize(
    ("problem", "options", "words"),
    [
        ({"in_channels": 512, "out_channels": 64, "in_extent": (7, 7)}, {}, "split K 8"),
        ({"in_channels": 64, "out_channels": 64, "in_extent": (56, 56), "batch": 8}, {}, "persistent"),
        ({"in_channels": 64, "out_channels": 64, "in_extent": (56, 56), "batch": 32}, {}, "persistent"),
        ({"in_channels": 256, "out_channels": 256, "in_extent": (56, 56), "batch": 16}, {}, "2-CTA MMA"),
        ({"in_channels": 64, "out_channels": 64, "in_extent": (56, 56), "batch": 8}, {"cta_group": "2"}, "2-CTA MMA"),
        ({}, {"multicast": "2x1", "schedule": "reload"}, "multicast 2x1"),
        (
            {"in_channels": 256, "out_channels": 256, "in_extent": (56, 56), "batch": 16},
            {"rasterization_order": "columns"},
            "",
        ),
    ],
)
def test_the_reason_has_the_numbers_of_the_choice(problem, options, words):
    """Whatever CTAs do together, the marked row and the first sentence are of the kernel that was taken."""
    decided = plan(device_layout(dataclasses.replace(SMALL, **problem)), options=ScheduleOptions(**options))
    taken = taken_choice(decided)
    title, cycles = decided.schedule.title, f"{decided.estimate.cycles:.0f}"
    (row,) = (line for line in choice_lines(decided) if line.startswith("*"))
    assert row.startswith(f"*  {title}")
    assert words in row
    assert cycles in row.split()
    reasons = list(why_lines(decided))
    for line in reasons:
        assert not line.startswith(f"{title} is the fastest") or f"about {cycles} cycles" in line
    if taken not in decided.choices:
        (said,) = (line for line in reasons if re.match(rf"{title}.*{words}: about", line))
        assert f"about {cycles} cycles" in said
        assert f": {legal_choices(decided)[0].cycles:.0f} (" in said


def test_schedules_that_do_the_same_are_one_row():
    table = [line for line in said_of(POINT) if "-byte rows" in line]
    assert len(table) == 4
    assert table[0].startswith("*  reload ")
    (same,) = (line for line in table if line.startswith("   shift"))
    assert same.startswith("   shift chain, shift ashift, shift windows ")
    assert " 0 to 2 " in same


def test_bytes_and_assumed_rules_stand_in_the_table():
    head, *rows = said_of(SMALL)
    assert head.split() == ["schedule", "cycles", "traffic", "assumed", "waits", "for", "tile"]
    for line in rows:
        if " tile, " in line:
            assert re.search(r" \d+ +[\d.]+ [KM]iB +\d ", line)


POINTWISE = ConvProblem(in_channels=64, out_channels=64, in_extent=(16, 16), kernel=(1, 1))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {},
            r"through SMEM and TMA: .* takes about \d+ cycles per CTA, and \d+ with stores from registers$",
        ),
        ({"store": "direct"}, "from registers: as requested, or because it is no slower"),
        ({"schedule": "stationary"}, "need output pixels as lanes, and the lanes of stationary are channels"),
        ({"target": "sm_90a"}, r"through SMEM and TMA: .* and \d+ with stores from registers$"),
    ],
)
def test_a_plan_says_how_results_leave(options, said):
    decided = plan(device_layout(POINTWISE), options=ScheduleOptions(**{"schedule": "reload"} | options))
    last = list(why_lines(decided))[-1]
    assert last.startswith("results are stored ")
    assert re.search(said, last)


def test_a_row_that_no_swizzle_spans_is_stored_directly():
    problem = dataclasses.replace(POINTWISE, operand="s8", out="s8", out_channels=16)
    decided = plan(device_layout(problem), options=ScheduleOptions(schedule="reload"))
    assert decided.storage.results is None
    reason = "a row of 16 bytes of results is no multiple of 32, the least that a swizzled copy takes"
    assert list(why_lines(decided))[-1] == f"results are stored from registers: {reason}"
