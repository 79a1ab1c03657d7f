"""Copies that several lanes of a warp ask for: one for each operands that they have, where ptxas makes it so."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support import lane_table
from support.kernels import execute, module

from convc.ir.tensormap import TensorMap
from convc.machine import RunOptions
from convc.machine.base.switches import Switches
from convc.ptx.grammar import forms, match_head
from convc.sanitizer.racecheck import Races

TILE = TensorMap(
    mode="tile", buffer="out", dtype="u32", dims=(8, 64), strides=(32,), element_strides=(1, 1), box=(8, 4),
    swizzle="none",
)  # fmt: skip
"""4 rows of eight words, 128 bytes."""

BODY = """.shared .align 128 .b8 s[4096];
.reg .b32 %s, %t, %v, %a, %row; .reg .b64 %d; .reg .pred %p, %one;
mov.u32 %s, s; mov.u32 %t, %tid.x; mad.lo.u32 %a, %t, 128, %s; mov.u32 %v, 0;
FILL: st.shared.u32 [%a], %t; add.u32 %a, %a, 4; add.u32 %v, %v, 1; setp.lt.u32 %p, %v, 32; @%p bra FILL;
fence.proxy.async.shared::cta; bar.warp.sync -1;
shr.u32 %v, %t, SHIFT; mad.lo.u32 %a, %v, 128, %s; shl.b32 %row, %v, 2; mul.wide.u32 %d, %v, 128;
add.u64 %d, %d, %p_out;
setp.lt.u32 %p, %t, LANES;
COPY
cp.async.bulk.commit_group; WAIT cp.async.bulk.wait_group 0;
"""
COPIES = {
    "tensor": "@%p cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m_tile, {0, %row}], [%a];",
    "bulk": "@%p cp.async.bulk.global.shared::cta.bulk_group [%d], [%a], 128;",
    "reduce": "@%p cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d], [%a], 128;",
    "reduce tensor": "@%p cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group"
    " [%m_tile, {0, %row}], [%a];",
}


def work(copy: str, shift: int, lanes: int, *, wait: str = "", **options):
    body = BODY.replace("SHIFT", str(shift)).replace("LANES", str(lanes)).replace("COPY", COPIES[copy])
    text = module(body.replace("WAIT", wait), maps=("tile",))
    observer = Races()  # which is for the policy eager
    result = execute(
        text,
        {"out": np.zeros(512, np.uint32)},
        maps=(TILE,),
        options=RunOptions(**options),
        observer=observer if options.get("policy", "eager") == "eager" else None,
    )
    moved = result.counters.tma_stores.get("out") or result.counters.bulk_stores["out"]
    return result, moved.count, [finding.rule for finding in observer.findings()]


@pytest.mark.parametrize("policy", ["eager", "late", "seeded"])
@pytest.mark.parametrize(("shift", "lanes"), [(5, 32), (5, 7), (3, 32), (1, 32), (1, 9), (0, 16)])
@pytest.mark.parametrize("copy", ["tensor", "bulk"])
def test_a_store_is_done_once_for_lanes_that_ask_for_the_same(copy, shift, lanes, policy):
    result, copies, races = work(copy, shift, lanes, policy=policy)
    assert copies == len({lane >> shift for lane in range(lanes)})
    assert races == []
    assert result.findings == ()
    for number in range(copies):
        assert (result.buffers["out"][32 * number : 32 * number + 32] == number).all()


@pytest.mark.parametrize("copy", ["reduce", "reduce tensor"])
def test_a_reduction_is_done_by_each_lane(copy):
    result, copies, _ = work(copy, 3, 32)
    assert copies == 32
    assert result.buffers["out"][:128:32].tolist() == [0, 8, 16, 24]


@pytest.mark.parametrize("elect", ["lowest", "highest"])
def test_the_copy_is_that_of_the_elected_lane(elect):
    """The lane that elect.sync elects waits for all."""
    wait = "elect.sync _|%one, -1; @%one "
    _, _, races = work("tensor", 5, 32, wait=wait, switches=Switches(elect=elect))
    assert races == []
    result, _, _ = work("tensor", 5, 32, wait=wait, switches=Switches(elect=elect))
    assert result.findings == ()


def test_the_table_is_what_ptxas_makes():
    assert lane_table.page() == lane_table.PAGE.read_text("utf-8"), "python -m tests.support.lane_table --write"


def test_the_table_has_every_form_that_one_thread_issues():
    alone = re.compile(
        r"cp\.(reduce\.)?async\.bulk\.|tcgen05\.(mma|cp|shift|commit)|clusterlaunchcontrol\.try|st\.bulk|prefetch\.tensormap"
    )
    wanted = {form.name for form in forms() if alone.match(form.name)}
    listed = {match.form.name for form in lane_table.FORMS for match in match_head(form.head)}
    assert len(wanted) > 15
    assert wanted - listed == set()
