"""A kernel whose CTAs load for each other with one thing wrong is found out."""

from __future__ import annotations

import pytest
from support.records import replace
from unit.compiler.tile.test_verify_program import at, rewrite

from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.search import plan
from convc.compiler.schedules.program import build
from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.steps.setup import CtaSync
from convc.compiler.tile.verify import contradictions
from convc.host_layout.device_layout import device_layout
from convc.ir.expr import Const
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(name="p", in_channels=64, out_channels=96, in_extent=(20, 20), kernel=(3, 3), bias=True)
OPTIONS = ScheduleOptions(schedule="reload", persistent="off", cta_group="1", multicast="2x2")
PROGRAM = build(plan(device_layout(PROBLEM), options=OPTIONS, block_n=48, stages=3))


def test_what_is_built_is_sound():
    assert contradictions(PROGRAM) == ()
    assert PROGRAM.launch.cluster == (2, 2, 1)
    assert {ring.name: (ring.at, ring.arrivals) for ring in PROGRAM.storage.rings} == {
        "full": ("own", 1), "empty": ("sharers", 3), "done": ("own", 1),
    }  # fmt: skip


@pytest.mark.parametrize(("which", "act"), [("start.met", "set-up"), ("begin.met", "set-up"), ("end.sync", "teardown")])
def test_ctas_that_meet_by_themselves_are_found(which, act):
    def edit(step: Step) -> tuple[Step, ...]:
        return (CtaSync(id=step.id, note=step.note),) if step.id == which else (step,)

    assert contradictions(rewrite(PROGRAM, edit)) == (f"the CTAs of a cluster do not meet in the {act}",)


@pytest.mark.parametrize(
    ("number", "value", "sentence"),
    [
        ("load.ctas_b", 15, "load.b brings CTA (0, 1) of the cluster a tile of CTA (0, 0), not its own"),
        ("load.ctas_a", 3, "load.a brings CTA (1, 0) of the cluster a tile of CTA (0, 0), not its own"),
        ("load.ctas_b", 1, "load.b brings CTA (1, 0) parts at [] of its tile, they should begin at [0, 3072]"),
        ("load.ctas_a", 16, "load.a brings CTA (1, 0) parts at [] of its tile, they should begin at [0, 8192]"),
        ("load.at_b", 0, "load.b brings CTA (0, 0) parts at [0, 0] of its tile, they should begin at [0, 3072]"),
        ("mma.peers", 1, "ring empty: CTA (1, 0) of the cluster fills stages of CTA (0, 0), which does not tell it"),
        ("mma.peers", 15, "ring empty: CTA (1, 1) of the cluster tells CTA (0, 0), which fills none of its stages"),
    ],
)
def test_a_wrong_mask_or_part_is_found(number, value, sentence):
    assert sentence in contradictions(rewrite(PROGRAM, at(number, expr=Const(value))))


@pytest.mark.parametrize(
    ("step", "change", "sentence"),
    [
        ("load.a", {"bringers": 1}, "load.expect expects 22528 bytes a stage"),
        ("load.expect", {"bytes": 11264}, "load.expect expects 11264 bytes a stage"),
        (
            "mma.release",
            {"ctas": None},
            "ring empty: CTA (0, 0) of the cluster fills stages of CTA (0, 1), which does not",
        ),
    ],
)
def test_wrong_bytes_and_a_release_to_the_cta_alone_are_found(step, change, sentence):
    found = contradictions(rewrite(PROGRAM, at(step, **change)))
    assert any(sentence in each for each in found)


def test_a_wrong_count_is_found():
    rings = tuple(replace(ring, arrivals=2) if ring.name == "empty" else ring for ring in PROGRAM.storage.rings)
    storage = replace(PROGRAM.storage, rings=rings)
    found = contradictions(replace(PROGRAM, storage=storage))
    assert found == ("ring empty is signalled 27 times and awaited 9 times",)


def test_a_cluster_of_another_shape_is_found():
    launch = replace(PROGRAM.launch, cluster=(2, 1, 1))
    found = contradictions(replace(PROGRAM, launch=launch))
    assert found == ("loads are shared by clusters of 2 x 2 tiles, the launch has (2, 1, 1), grid (4, 2, 1)",)
