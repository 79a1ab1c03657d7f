"""No numpy scalar leaves the simulator: counters, findings and reports hold Python's own types (for JSON)."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from support.plain import strangers

import convc
from convc.report.output import json_text


def test_strangers_are_found_at_any_depth():
    @dataclasses.dataclass
    class Record:
        inner: dict[str, object]
        buffers: np.ndarray

    record = Record({"a": [1, (2.0, np.int64(3))], "b": np.float64(1), "c": True}, np.zeros(2))
    assert strangers(record, "r", ("buffers",)) == ["r.inner.a.1.1: numpy.int64", "r.inner.b: numpy.float64"]


MASKED = convc.ScheduleOptions(schedule="slide", border="mask")
"""Lane masks: their counter comes out of a numpy array."""


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return convc.compile("models/tiny_conv.onnx", tmp_path_factory.mktemp("build") / "b", schedule=MASKED)


def test_what_run_reports(build):
    done = convc.run_layer(build, np.ones((1, 16, 12, 12), np.float16))
    assert done.counters.masked_lanes > 0
    assert strangers(done.counters) == strangers(done.findings) == []
    assert json.loads(json_text(done.counters))["masked_lanes"] == done.counters.masked_lanes


def test_what_check_reports(build):
    report = convc.check(build)
    assert strangers([(kernel.findings, kernel.verdict) for kernel in report.kernels]) == []


def test_what_verify_reports():
    report = convc.verify("models/tiny_conv.onnx", schedule=MASKED)
    assert report.ok
    assert strangers(report) == []
    json_text(report)


def test_what_a_network_reports():
    report = convc.verify("models/tiny_two_convs.onnx", mode="network")
    assert strangers(report, arrays=("outputs",)) == []
