"""Sentences and fields of reports that depend on one condition each."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from unit.report.test_reports import comparison

from convc.frontend.onnx_reader import NOT_A_CONVOLUTION
from convc.host_layout.device_layout import device_layout
from convc.ir.network import SkippedNode
from convc.ir.problem import ConvProblem
from convc.report.annotation import notes_of
from convc.report.layout_notes import layout_notes
from convc.report.survey import print_survey
from convc.report.verify import _allowed
from convc.report.what_if import what_ifs_json
from convc.timing.what_if import WhatIf, WhatIfSetting, WhatIfTime
from convc.verification.records import LayerReport, VerifyReport
from convc.verification.survey import REFUSED, SurveyedModel, SurveyReport


def test_planes_and_long_strides_are_folded_for_reasons_of_their_own():
    problem = ConvProblem(
        in_channels=8, out_channels=8, in_extent=(4, 20, 20), kernel=(2, 3, 3), stride=(1, 9, 1)
    )  # fmt: skip
    _, depth, height, *_ = layout_notes(device_layout(problem))
    assert depth.startswith("along D every output plane becomes an image, with the 2 planes")
    assert height.startswith("stride 9 along H exceeds 8")


@pytest.mark.parametrize(
    ("mode", "limit", "said"),
    [("integer", 0.5, " exactly"), ("normal", 0.5, ", off by at most 0.5"), ("normal", 0, "")],
)
def test_what_would_have_been_right_ends_the_sentence(mode, limit, said):
    assert _allowed(mode, comparison(limit=limit)) == said


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ("no weights\n  where: node 'a'\n  hint: give some", "m.onnx: no weights (where: node 'a')"),
        ("no weights\n  hint: give some", "m.onnx: no weights"),
    ],
)
def test_a_survey_says_what_is_wrong_and_where_in_a_line(problem, said):
    console = Console(file=io.StringIO(), width=200, markup=False, highlight=False)
    model = SurveyedModel(file="m.onnx", verdict=REFUSED, problem=problem)
    print_survey(console, SurveyReport(folder=".", models=(model,), seed=0))
    assert said in console.file.getvalue().splitlines()


@pytest.mark.parametrize(("schedule", "shown"), [("slide", "slide"), ("", None)])
def test_the_schedule_of_a_time_is_null_where_somebody_else_wrote_the_kernel(schedule, shown):
    time = WhatIfTime(layer="a", schedule=schedule, planned=True, cycles=8, microseconds=1)
    setting = WhatIfSetting(setting="low", numbers={}, times=(time,))
    [answer] = what_ifs_json([WhatIf(name="tma.latency", unit="cycles", schedules=False, settings=(setting,))])
    assert answer["settings"][0]["times"][0]["schedule"] == shown


def test_nodes_are_noted_once_each_whatever_became_of_them():
    layer = LayerReport(
        name="conv", problem=ConvProblem(in_channels=8, out_channels=8, in_extent=(4, 4), kernel=(3, 3)),
        kernel="k/kernel.ptx", schedule="slide", checks=(), counters=None, fused=("relu",),
    )  # fmt: skip
    skipped = (SkippedNode(name="odd", op_type="Conv", reason="why"),)
    skipped += (SkippedNode(name="sum", op_type="Add", reason=NOT_A_CONVOLUTION),)
    notes = notes_of(VerifyReport(source="m", seed=3, kernels=1, layers=(layer,), skipped=skipped))
    assert notes.keys() == {"odd", "relu", "conv"}
    assert (notes["odd"], notes["relu"]) == ({"verdict": "not compiled: why"}, {"fused_into": "conv"})
    assert (notes["conv"]["seed"], notes["conv"]["schedule"]) == ("3", "slide")
