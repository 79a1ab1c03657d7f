"""Products of e4m3 and e5m2 on sm_90a: with exact numerics their sums are inside their own bound, not float32's."""

from __future__ import annotations

import pytest

import convc
from convc.ir.sums import FLOAT32, HOPPER_FP8, sums_of
from convc.runtime import layer

EXACT = convc.MachineOptions(numerics="exact")
HOPPER = convc.ScheduleOptions(target="sm_90a")
FP8 = convc.ReadOptions(dtype="e4m3")


@pytest.mark.parametrize("sample", [None, 1])
def test_layers_are_right_by_the_bound_of_their_sums_alone(sample, monkeypatch):
    def verified() -> convc.VerifyReport:
        return convc.verify(
            "models/tiny_conv.onnx", mode="normal", sample=sample, read=FP8, schedule=HOPPER, machine=EXACT
        )

    assert verified().ok
    monkeypatch.setattr(layer, "sums_of", lambda *_: FLOAT32)
    assert not verified().ok


def test_networks_are_right_by_the_bound_of_their_sums_alone(monkeypatch):
    def verified() -> convc.VerifyReport:
        return convc.verify(
            "models/tiny_two_convs.onnx", mode="network", seed=1, read=FP8, schedule=HOPPER, machine=EXACT
        )

    assert verified().ok
    monkeypatch.setattr(layer, "sums_of", lambda *_: FLOAT32)
    assert not verified().ok


@pytest.mark.parametrize(
    ("text", "operand", "numerics", "expected"),
    [
        (".version 8.7\n.target sm_90a\n", "e4m3", "exact", HOPPER_FP8),
        (".version 8.7\n.target sm_90a\n", "e5m2", "exact", HOPPER_FP8),
        (".version 8.7\n.target sm_90a\n", "e4m3", "float32", FLOAT32),
        (".version 8.7\n.target sm_90a\n", "f16", "exact", FLOAT32),
        (".version 8.7\n.target sm_100a\n", "e4m3", "exact", FLOAT32),
        ("", "e4m3", "exact", FLOAT32),
    ],
)
def test_sums_follow_from_target_operands_and_numerics(text, operand, numerics, expected):
    assert sums_of(text, operand, numerics) == expected
