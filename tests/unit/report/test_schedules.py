"""The verdict on shift: it saves reads of shared memory, and pays only where those take longest."""

from __future__ import annotations

import re

import pytest

from convc.packing import device_form
from convc.plan.planner import plan
from convc.plan.records import Options
from convc.problem import ConvProblem
from convc.report.schedules import choice_lines


def lines(**changes) -> list[str]:
    shape = {"in_channels": 256, "out_channels": 256, "in_extent": (56, 56), "kernel": (3, 3), "batch": 16} | changes
    problem = ConvProblem(pad_lo=(1, 1), pad_hi=(1, 1), **shape)
    return list(choice_lines(plan(device_form(problem), options=Options(schedule="auto"))))


@pytest.mark.parametrize("channels", [128, 256, 512])
def test_wide_tiles_make_shift_not_worth_it(channels):
    found = lines(out_channels=channels)
    assert "shift is not worth it here" in found[-1]
    assert re.search(r"gains nothing, since slide waits for (L2|tensor core)$", found[-1])
    (chosen,) = (line for line in found if line.startswith("*"))
    assert chosen.startswith("* slide ")


def test_narrow_tiles_make_it_pay():
    found = lines(batch=1, in_extent=(14, 14), in_channels=4096, out_channels=32)
    assert re.match(r"shift pays: about \d+ cycles instead of slide's \d+, for \d+ cycles of reading", found[-1])
    (chosen,) = (line for line in found if line.startswith("*"))
    assert chosen.startswith("* shift windows ")


def test_an_illegal_schedule_says_which_condition_fails():
    problem = ConvProblem(in_channels=64, out_channels=64, in_extent=(20, 60), kernel=(3, 11), dilation=(1, 4))
    found = list(choice_lines(plan(device_form(problem), options=Options(schedule="auto"))))
    text = "\n".join(found)
    far = "not here: the last filter column is 40 lanes from the first of its buffer, at most"
    assert f"shift chain     {far} 31" in text
    assert f"stationary      {far} 32" in text
    assert "shift windows   not here: windows of 32 lanes cannot overlap by a halo of 40" in text


def test_several_images_merge_only_in_step():
    problem = ConvProblem(
        batch=2, in_channels=64, out_channels=64, in_extent=(7, 20), kernel=(3, 3), stride=(2, 1), pad_lo=(1, 1),
        pad_hi=(1, 1),
    )  # fmt: skip
    with pytest.raises(Exception, match="stride 2 does not divide the 7 rows of an image"):
        plan(device_form(problem), options=Options(schedule="slide", rows="merged"))
