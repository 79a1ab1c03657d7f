"""A timer decides among the candidates that are estimated best, and the plan and the page say so."""

from __future__ import annotations

import msgspec
import pytest

from convc import ChipOptions, ReadOptions, ScheduleOptions, WorkOptions, inspect
from convc import compile as compile_model
from convc.api.timer import EngineTimer
from convc.compiler.compile import compile_problem, compile_timed
from convc.compiler.emit import kernel
from convc.compiler.plan.records import Tiling, TimedCandidate
from convc.compiler.planner.search import MOST_TIMED, TIMED_MARGIN, contenders, quickest
from convc.compiler.schedules.all import CHAIN, RELOAD, SLIDE, STATIONARY, Schedule
from convc.errors import PlanError
from convc.explain.why import why_lines
from convc.host_layout.device_layout import device_layout
from convc.ir.problem import ConvProblem
from convc.support.resources import model_folder

PROBLEM = ConvProblem(in_channels=16, out_channels=32, in_extent=(12, 12), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1))
TIMED = ScheduleOptions(timed=True)


def test_the_timer_decides_among_the_best_few():
    asked: list[str] = []

    def timer(artifact, order):
        asked.append(artifact.ptx)
        return 1000.0 if len(asked) == 3 else 2000.0 + len(asked)

    estimated = compile_problem(PROBLEM)
    made = compile_timed(PROBLEM, TIMED, timer)
    timed = made.plan.timed
    assert made.artifact.ptx == asked[2] != estimated.artifact.ptx == asked[0]
    assert len(asked) == len(set(asked)) == len(timed) == MOST_TIMED
    assert [one.cycles for one in timed] == sorted(one.cycles for one in timed)
    assert (timed[0].taken, timed[0].schedule, timed[0].tiling) == (True, made.plan.schedule, made.plan.tiling)
    assert made.plan.estimate.cycles == timed[0].estimated
    assert [one.cycles for one in timed if one.preferred] == [2001]
    assert max(one.estimated for one in timed) <= TIMED_MARGIN * min(one.estimated for one in timed)
    said = list(why_lines(made.plan))
    assert "chose among the 6 candidates" in said[0]
    assert f"(1000 cycles by the engine, {timed[0].estimated:.0f} estimated)" in said[0]
    assert said[1].startswith(f"the estimates alone would choose {estimated.plan.schedule.title}, ")


def test_a_candidate_that_cannot_be_written_is_not_timed(monkeypatch):
    written = kernel.emit
    preferred = compile_problem(PROBLEM).plan.schedule

    def emit(program):
        if program.schedule == preferred.name:
            raise PlanError("m may be (0, 9999999999), which 32 bits cannot hold")
        return written(program)

    monkeypatch.setattr(kernel, "emit", emit)
    made = compile_timed(PROBLEM, TIMED, lambda artifact, order: 1000.0)
    assert preferred not in {one.schedule for one in made.plan.timed}
    assert [choice.fell for choice in made.plan.choices if choice.schedule == preferred] == ["emission"]


def test_every_form_is_in_the_race():
    deep = ConvProblem(in_channels=512, out_channels=128, in_extent=(7, 7), kernel=(1, 1))
    wide = ConvProblem(batch=32, in_channels=256, out_channels=1024, in_extent=(14, 14), kernel=(1, 1))
    shared = contenders(device_layout(deep), options=ScheduleOptions(split_k="estimate"), refused={})
    walking = contenders(device_layout(wide), options=ScheduleOptions(), refused={})
    assert {found.launch.parts for found in shared} > {1, 2}
    assert {(found.launch.persistent, found.tiling.ctas) for found in walking} >= {(False, 1), (True, 1), (True, 2)}
    for found in (*shared[1:], *walking[1:]):
        why = found.launch.why
        assert bool(why.split) == (found.launch.parts > 1)
        assert bool(why.pairs) == (found.tiling.ctas > 1)
        assert why.persistent.startswith("persistent: ") == found.launch.persistent
    assert len({(found.form, found.tiling, found.work) for found in (*shared, *walking)}) == len(shared + walking)


@pytest.mark.parametrize(
    ("asked", "form"),
    [
        ({"persistent": "on"}, {"persistent": True}),
        ({"cta_group": "2", "schedule": "reload"}, {"pairs": True}),
        ({"split_k": "2", "schedule": "reload"}, {"parts": 2}),
        ({"persistent": "off", "cta_group": "1", "split_k": "off"}, {"persistent": False, "pairs": False, "parts": 1}),
    ],
)
def test_a_form_that_is_asked_for_is_the_only_one_in_the_race(asked, form):
    found = contenders(device_layout(PROBLEM), options=ScheduleOptions(**asked), refused={})
    assert len(found) > 1
    assert all(each.form._replace(**form) == each.form for each in found)


@pytest.mark.parametrize(
    ("cycles", "taken"),
    [
        ({SLIDE: 1000, RELOAD: 1001, STATIONARY: 1002}, SLIDE),
        ({SLIDE: 1170, STATIONARY: 1000, RELOAD: 1175}, SLIDE),
        ({SLIDE: 1190, STATIONARY: 1000}, STATIONARY),
        ({CHAIN: 1010, STATIONARY: 1000}, STATIONARY),
    ],
)
def test_assumed_rules_are_taken_for_granted_where_the_timer_finds_much(cycles, taken):
    assert quickest([candidate(schedule, time) for schedule, time in cycles.items()]).schedule == taken.id


def candidate(schedule: Schedule, cycles: float) -> TimedCandidate:
    """A candidate with a tile that does not matter."""
    tiling = Tiling(block_m=128, block_n=16, row_bytes=32, b_stages=2)
    return TimedCandidate(schedule=schedule.id, tiling=tiling, estimated=1, cycles=cycles)


def test_what_was_timed_is_kept_and_a_build_is_inspected_as_it_is(tmp_path, monkeypatch):
    """The engine agrees with the estimates here, so what these take is made ten times as slow for it."""
    tiny = model_folder() / "tiny_conv.onnx"
    timed = EngineTimer.__call__
    estimated = inspect(tiny).text

    def bent(timer, artifact, order):
        return timed(timer, artifact, order) * (10 if artifact.ptx == estimated else 1)

    monkeypatch.setattr(EngineTimer, "__call__", bent)
    work = WorkOptions(cache=tmp_path / "cache")
    build = compile_model(tiny, tmp_path / "build", schedule=TIMED, work=work)
    found = inspect(build)
    assert found.text == found.compiled.artifact.ptx != estimated

    def refuse(timer, artifact, order):
        raise AssertionError("it is timed anew")

    monkeypatch.setattr(EngineTimer, "__call__", refuse)
    again = compile_model(tiny, tmp_path / "build", schedule=TIMED, work=work)
    assert again.record().kernel == build.record().kernel
    with pytest.raises(AssertionError, match="timed anew"):
        compile_model(tiny, tmp_path / "build", schedule=TIMED, read=ReadOptions(dtype="bf16"), work=work)


def test_the_chip_is_part_of_what_is_kept():
    keys = [EngineTimer(options).key for options in (ChipOptions(), ChipOptions(chip="b300"), ChipOptions(cold=True))]
    assert len({*keys, EngineTimer(ChipOptions(settings=("tma.latency=5000",))).key}) == 4
    assert EngineTimer(ChipOptions()).key == keys[0]
    assert msgspec.json.decode(msgspec.json.encode(TIMED), type=ScheduleOptions) == TIMED
