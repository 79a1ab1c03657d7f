"""Timelines of kernels: what is shown adds up to what is reported, and nothing is in two places at once."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from convc.ir.launch import load_launch
from convc.timing.attribution import by_cause, by_step
from convc.timing.kernel import KernelTime, time_kernel, waits_of_all
from convc.timing.parameters import read_chip
from convc.timing.rings import stages
from convc.timing.timeline import Slice, blocked, timeline, walk

TESTS = Path(__file__).resolve().parents[2]
SHOWN = ["golden/slide_f16", "golden/shift_ashift_f16", "foreign/matmul_tma_f16", "foreign/saxpy"]
"""Own kernels, one of a foreign hand with TMA, and one without steps, barriers and tensor core."""


@pytest.fixture(scope="module", params=SHOWN)
def kernel(request) -> KernelTime:
    folder = TESTS / request.param
    return time_kernel((folder / "kernel.ptx").read_text(), load_launch(folder / "launch.json"), {}, read_chip("b200"))


def check_order(slices: list[Slice], low: float, high: float) -> None:
    """Slices follow each other, and those inside lie inside."""
    for one in slices:
        assert low <= one.start <= one.end <= high, one
        check_order(one.inner, one.start, one.end)
        low = one.end


def test_nothing_overlaps_on_a_track(kernel):
    for track in timeline(kernel.launch).tracks:
        assert track.slices, f"{track.name} has nothing to show"
        check_order(track.slices, 0.0, kernel.launch.lengths[0] + 1e-6)


def test_what_units_do_adds_up_to_the_report(kernel):
    shown = timeline(kernel.launch).tracks
    length = kernel.launch.lengths[0]
    busy = {t.name: sum(one.cycles for one in t.slices) for t in shown if t.kind == "unit" and t.group == "SM 0"}
    for name in ("tensor core", "fill", "bulk stores", "sectors"):
        assert busy.get(name, 0.0) / length == pytest.approx(kernel.launch.use[name])
    lanes = [cycles for name, cycles in busy.items() if name.startswith("tensor memory")]
    assert max(lanes, default=0.0) / length == pytest.approx(kernel.launch.use["tensor memory"])


def test_a_warp_works_or_waits_all_the_time(kernel):
    events = kernel.launch.events
    for track in timeline(kernel.launch).tracks:
        if track.kind == "role":
            leaves = [one for one in walk(track.slices) if one.kind in ("instruction", "wait")]
            spent = sum(one.cycles for one in leaves)
            assert spent == pytest.approx(track.slices[-1].end - track.slices[0].start)
    assert max(event.end for event in events) == pytest.approx(kernel.launch.lengths[0])


def test_every_arrow_begins_and_ends_once_and_leads_to_a_later_time(kernel):
    shown = timeline(kernel.launch)
    slices = [one for track in shown.tracks for one in walk(track.slices)]
    gives = {number: one for one in slices for number in one.gives}
    takes = {number: one for one in slices for number in one.takes}
    assert set(gives) == set(takes) == set(range(1, shown.arrows + 1))
    assert sum(len(one.gives) + len(one.takes) for one in slices) == 2 * shown.arrows
    assert shown.arrows == sum(blocked(event) for event in kernel.launch.events)
    assert all(gives[number].start <= takes[number].start for number in gives)


def test_curves_go_forward_and_end_where_they_began(kernel):
    for curve in timeline(kernel.launch).curves:
        times = [time for time, _ in curve.points]
        assert times == sorted(times)
        assert curve.points[-1][1] == 0
        assert all(value >= 0 for _, value in curve.points)


def test_the_curve_of_the_fill_port_holds_all_bytes(kernel):
    [curve] = [one for one in timeline(kernel.launch).curves if one.name == "fill port" and one.group == "SM 0"]
    steps = pairwise(curve.points)
    moved = sum(rate * (end - begin) for (begin, rate), (end, _) in steps)
    replay = kernel.launch.replay
    mine = [w for w in replay.trace.works if w.kind == "load" and w.row % len(replay.sms) == 0]
    assert moved == pytest.approx(sum(work.bytes for work in mine))


def test_steps_and_causes_add_up_to_the_round(kernel):
    total = kernel.launch.lengths[0]
    steps = by_step(kernel.parts)
    assert sum(one.cycles for one in steps) == pytest.approx(total)
    assert sum(by_cause(kernel.parts).values()) == pytest.approx(total)
    assert all(sum(one.waits.values()) == pytest.approx(1) for one in steps)
    assert sum(waits_of_all([kernel, kernel]).values()) == pytest.approx(1)


def test_stages_of_rings_are_named_and_free_when_their_readers_say_so():
    folder = TESTS / "golden" / "slide_f16"
    kernel = time_kernel(
        (folder / "kernel.ptx").read_text(), load_launch(folder / "launch.json"), {}, read_chip("b200")
    )
    found = {stage.name: stage for stage in stages(kernel.launch.replay)}
    assert list(found) == [*(f"full_a[{stage}]" for stage in range(4)), *(f"full_b[{stage}]" for stage in range(3))]
    assert [len(stage.turns) for stage in found.values()] == [2, 2, 1, 1, 6, 6, 6]
    trace = kernel.trace
    home = next(home for home, name in trace.barriers.items() if name == "empty_b[1]")
    freed = [kernel.launch.replay.complete((*home, number)) for number in range(5)]
    assert [turn.free for turn in found["full_b[1]"].turns[:5]] == freed
    assert all(a.free <= b.begin for a, b in pairwise(found["full_b[1]"].turns))


def test_what_is_used_is_a_share(kernel):
    assert set(kernel.launch.use) == {
        "tensor core", "fill", "read port", "L2", "sectors", "tensor memory", "bulk stores"
    }  # fmt: skip
    assert all(0 <= share <= 1 for share in kernel.launch.use.values())
