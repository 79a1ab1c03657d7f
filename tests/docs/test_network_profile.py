"""The profile of ResNet-50 in timing_measurements.md is what its script makes."""

from __future__ import annotations

import pytest
from network_profile import BATCHES, PAGE, page, profile

import convc
from convc.support.resources import model_folder


@pytest.mark.slow
def test_the_profile_is_made_by_its_script():
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.docs.network_profile --write"


def test_a_profile_adds_up():
    report = convc.time(model_folder() / "tiny_two_convs.onnx")
    lines = profile([report] * len(BATCHES)).splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    assert len({len(row) for row in rows}) == 1
    assert [row[0] for row in rows[2:]] == ["stem", "head", "**all**"]
    assert rows[3][3] == "100.0 %"
    assert sum(report.waits.values()) == pytest.approx(1)
    assert lines[-1].startswith("- Batch 256: ")
    assert all(cause in lines[-1] for cause in list(report.waits)[:3])
