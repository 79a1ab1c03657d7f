"""``convc verify --reweight``: what it prints, and calls that are refused."""

from __future__ import annotations

import json

import pytest


def test_a_network_is_verified(convc, two, tmp_path):
    said = convc.good("verify", two, "--reweight", "4", "--json", tmp_path / "report.json")
    assert "2 of 2 convolutions right by the derived bound, 1 of 1 outputs right by onnxruntime" in said
    assert "2 kernels, 1 other node on the host by onnxruntime" in said
    assert "of random weights, seed 4\n" in said
    assert "first departs" not in said
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["format"] == "convc-verify/3"
    assert report["ok"]
    assert [layer["name"] for layer in report["layers"]] == ["stem", "head"]
    for layer in report["layers"]:
        assert layer["ok"]
        assert [check["oracle"] for check in layer["checks"]] == ["reference", "onnxruntime"]
        assert all(check["mode"] == "network" and check["comparison"]["ok"] for check in layer["checks"])
    again = json.loads(convc.good("verify", two, "--reweight", "4", "--json", "-"))
    assert [layer["relative_rms_error"] for layer in again["layers"]] == [
        layer["relative_rms_error"] for layer in report["layers"]
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--reweight", "1", "--layer", "stem"], "--reweight runs the whole network"),
        (["--reweight", "1", "--counts"], "--reweight runs the whole network"),
        (["--host", "onnxruntime"], "--host is for whole networks"),
        (["--reweight", "-1"], "Invalid value for '--reweight'"),
    ],
)
def test_calls_that_are_refused(convc, two, words, message):
    assert message in convc.refused("verify", two, *words)
