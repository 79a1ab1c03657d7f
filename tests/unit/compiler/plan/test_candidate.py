"""The search for the best tilings against one that looks at all of them: every shortcut leaves the same winners."""

from __future__ import annotations

import gc
import itertools
import weakref

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.compiler.plan.candidates import pipeline_of
from convc.compiler.plan.choice import choose
from convc.compiler.plan.constraints import check_tiling
from convc.compiler.plan.cost import estimate, pace_of
from convc.compiler.plan.offer import Candidate, Offer
from convc.compiler.plan.requests import row_cycles
from convc.compiler.schedules.all import SCHEDULES
from convc.compiler.schedules.base import Request
from convc.host_layout.device_layout import device_layout
from convc.ir.arch import ARCHS, SM_100A
from convc.ir.problem import ConvProblem

STAGES = (None, None, None, 0, 1, 3)

FORMS = {
    "staged": Request(store="tma", residual_load="direct"),
    "residual": Request(store="tma", residual_load="tma"),
    "walking": Request(persistent=True),
    "dynamic": Request(persistent=True, dynamic=True),
    "persistent pairs": Request(pairs=True, persistent=True),
    "loaded together": Request(multicast=(2, 1)),
    "shared": Request(parts=2),
}


@st.composite
def problems(draw) -> ConvProblem:
    """Small and large, so that each supplier of the K loop is the slowest somewhere, latency among them."""
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    groups = draw(st.sampled_from([1, 1, 1, 2]))
    channels = st.sampled_from([3, 16, 33, 64, 100, 128, 256, 512])
    return ConvProblem(
        batch=draw(st.sampled_from([1, 1, 2, 32])),
        in_channels=groups * draw(channels),
        out_channels=groups * draw(channels),
        in_extent=draw(st.tuples(*[st.sampled_from([7, 14, 20, 56, 112])] * 2)),
        kernel=kernel,
        stride=draw(st.sampled_from([(1, 1), (1, 1), (2, 2)])),
        pad_lo=(kernel[0] // 2, kernel[1] // 2),
        pad_hi=(kernel[0] // 2, kernel[1] // 2),
        groups=groups,
        operand=draw(st.sampled_from(["f16", "f16", "e4m3", "mxfp8"])),
    )


def every(offer: Offer) -> list[Candidate]:
    """All legal tilings, each laid out and priced."""
    found: list[Candidate] = []
    for tiled in map(offer.tiled, offer.tilings):
        assert tiled.need == offer.storage(tiled.tiling).need
        if check_tiling(tiled, offer.rules) is None:
            pipeline = pipeline_of(offer.layout, tiled.tiling, offer.arch.limits.mma_atom_bytes)
            work = offer.work(tiled.tiling, pipeline)
            assert tuple(ring.stages for ring in work.rings) == tiled.tiling.stages
            pace = pace_of(tiled, work, row_cycles(tiled.layout, work.row_bytes, tiled.arch.rates))
            cost = estimate(tiled, work)
            one = Candidate(
                offer=offer,
                tiled=tiled,
                pipeline=pipeline,
                work=work,
                pace=pace,
                cycles=cost.cycles,
                traffic_bytes=cost.traffic_bytes,
            )
            assert one.cost == cost
            found.append(one)
    return found


def deepest_of_the_fastest(candidates: list[Candidate]) -> list[Candidate]:
    """Of the fastest of each width the one that uses most shared memory."""
    widths = itertools.groupby(candidates, key=lambda one: one.tiled.tiling.block_n)
    return [
        min(found, key=lambda one: (one.cost.cycles, -one.offer.footprint(one.tiled.tiling))) for _, found in widths
    ]


def shown(candidates: list[Candidate]) -> list[tuple]:
    return [(one.tiled.tiling, one.work, one.cycles, one.traffic_bytes, one.cost, one.storage) for one in candidates]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.id.title)
def test_the_search_finds_what_a_look_at_every_tiling_finds(schedule):
    @settings(max_examples=some(25), derandomize=True, database=None, deadline=None)
    @given(problems(), st.sampled_from(STAGES))
    def holds(problem: ConvProblem, stages: int | None) -> None:
        found = schedule.candidates(device_layout(problem), SM_100A, Request(stages=stages))
        offers = [part for part in found.parts if isinstance(part, Offer)]
        looked_at = [every(offer) for offer in offers]
        exhaustive = list(itertools.chain(*looked_at))
        winners = list(itertools.chain(*map(deepest_of_the_fastest, looked_at)))
        assert shown(list(found.legal)) == shown(winners)
        assert shown(list(found.fastest)) == shown(fastest_of_each_width(winners))
        if exhaustive:
            assert shown([found.best]) == shown([winners[choose([one.cost for one in winners])]])
            assert found.best.cost.cycles == exhaustive[choose([one.cost for one in exhaustive])].cost.cycles
        for offer, candidates in zip(offers, looked_at, strict=True):
            assert len(offer.rejected) + len(candidates) == len(offer.tilings)

    holds()


def fastest_of_each_width(winners: list[Candidate]) -> list[Candidate]:
    """The first of the fastest candidates with each number of columns, the fastest of all first."""
    found: dict[int, Candidate] = {}
    for one in sorted(winners, key=lambda one: one.cycles):
        found.setdefault(one.tiled.tiling.block_n, one)
    return list(found.values())


@pytest.mark.parametrize("form", ["alone", *FORMS])
def test_no_width_is_faster_than_its_floor(form):
    @settings(max_examples=some(25), derandomize=True, database=None, deadline=None)
    @given(problems(), st.sampled_from(sorted(ARCHS)))
    def holds(problem: ConvProblem, target: str) -> None:
        for schedule in SCHEDULES:
            request = FORMS.get(form, Request())
            for width in schedule.candidates(device_layout(problem), ARCHS[target], request).widths:
                assert 0 < width.floor <= width.least
                assert width.best is None or width.least <= width.best.cycles

    holds()


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.id.title)
def test_what_a_cta_does_depends_on_its_stages_only_in_its_rings(schedule):
    problem = ConvProblem(
        batch=4, in_channels=256, out_channels=256, in_extent=(28, 28), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    found = schedule.candidates(device_layout(problem), SM_100A, Request(block_n=128))
    for offer in (part for part in found.parts if isinstance(part, Offer)):
        assert {pipeline_of(offer.layout, one, offer.arch.limits.mma_atom_bytes) for one in offer.tilings} == {
            offer.pipeline
        }
        works = [one.work for one in every(offer)]
        assert len({work.rings for work in works}) > 1
        assert len({msgspec.structs.replace(work, rings=()) for work in works}) == 1


def test_one_tiling_of_a_width_is_priced():
    """What makes the survey fast: of 200 tilings and more, few are priced."""
    problem = ConvProblem(in_channels=64, out_channels=256, in_extent=(56, 56), kernel=(3, 3))
    counted = []
    for schedule in SCHEDULES:
        found = schedule.candidates(device_layout(problem), SM_100A, Request())
        offers = [part for part in found.parts if isinstance(part, Offer)]
        counted.append((len(found.legal), sum(len(offer.tilings) for offer in offers)))
        assert not any("rejected" in vars(offer) for offer in offers)
    assert sum(priced for priced, _ in counted) * 5 < sum(tilings for _, tilings in counted)


def test_only_widths_that_can_be_the_best_are_looked_at():
    problem = ConvProblem(in_channels=256, out_channels=256, in_extent=(14, 14), kernel=(3, 3))
    found = [schedule.candidates(device_layout(problem), SM_100A, Request()) for schedule in SCHEDULES]
    assert all(one.possible for one in found)
    widths = [width for one in found for width in one.widths]
    looked_at = sum("best" in vars(width) for width in widths)
    assert len(found) <= looked_at < 0.6 * len(widths)


@pytest.mark.parametrize("extent", [14, 40000])
def test_the_price_of_a_width_asks_for_little(extent):
    """No memory is laid out where an SM has one CTA, and of many CTAs as many are priced as it can hold."""
    problem = ConvProblem(in_channels=256, out_channels=256, in_extent=(extent, extent), kernel=(3, 3))
    for schedule in SCHEDULES:
        found = schedule.candidates(device_layout(problem), SM_100A, Request())
        for offer in (part for part in found.parts if isinstance(part, Offer)):
            widths = [width for width in found.widths if width.offer is offer]
            several = [width for width in widths if width.least > 0 and width.pace.most_beside > 1]
            assert list(vars(offer).get("_laid", ())) == [width.tilings[0] for width in several]
            assert len(several) == (len(widths) if extent > 14 else 0)


def test_the_first_tiling_of_a_width_needs_least():
    problem = ConvProblem(in_channels=256, out_channels=256, in_extent=(28, 28), kernel=(3, 3))
    for schedule, request in itertools.product(SCHEDULES, (Request(), Request(pairs=True), Request(parts=2))):
        for width in schedule.candidates(device_layout(problem), SM_100A, request).widths:
            needs = [width.offer.laid(tiling).need for tiling in width.tilings]
            assert needs[0].smem_bytes == min(need.smem_bytes for need in needs)
            assert needs[0].tmem_columns == min(need.tmem_columns for need in needs)


def test_candidates_are_gone_with_the_last_who_knows_them():
    """Nothing in a survey refers to itself: the collector has nothing to do behind it."""
    problem = ConvProblem(in_channels=64, out_channels=64, in_extent=(28, 28), kernel=(3, 3))
    layout = device_layout(problem)
    gc.collect()
    gc.disable()
    try:
        for schedule in SCHEDULES:
            known = {}
            for form in FORMS.values():
                found = schedule.candidates(layout, SM_100A, form, known)
                assert found.legal is found.legal
            gone = [weakref.ref(part) for found in known.values() for part in found.parts if isinstance(part, Offer)]
            del found, known
            assert gone
            assert not any(one() for one in gone)
    finally:
        gc.enable()


def test_forms_of_a_schedule_have_one_survey_in_common():
    """What is known is looked up: the offers of another form are made of those of a CTA for each tile."""
    problem = ConvProblem(in_channels=64, out_channels=64, in_extent=(28, 28), kernel=(3, 3))
    layout = device_layout(problem)
    for schedule in SCHEDULES:
        known = {}
        for form in (
            Request(),
            Request(pairs=True),
            Request(pairs=True, persistent=True),
            Request(parts=2),
            *FORMS.values(),
        ):
            found = schedule.candidates(layout, SM_100A, form, known)
            assert shown(list(found.legal)) == shown(list(schedule.candidates(layout, SM_100A, form).legal))
            assert found.rejected == schedule.candidates(layout, SM_100A, form).rejected
            assert schedule.candidates(layout, SM_100A, form, known) is found
        alone = [request for _, request, stage in known if stage == "alone"]
        assert len(alone) == len(set(alone)) < sum(stage == "launched" for *_, stage in known)
