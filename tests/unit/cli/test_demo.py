"""The demo: six layers, a table, and a kernel to read."""

from __future__ import annotations

import pytest

from convc import api
from convc.cli import demo
from convc.errors import PlanError


@pytest.mark.slow
def test_the_demo_verifies_six_layers_and_leaves_a_kernel(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert demo.main() == 0
    said = capsys.readouterr().out
    assert "6 of 6 layers right" in said
    for layer in ("conv1", "layer1.0.conv2", "layer2.1.conv2", "layer3.1.conv2", "layer4.1.conv2"):
        assert layer in said
    (kernel,) = (tmp_path / "build/demo" / demo.KEPT).glob("kernels/*/kernel.ptx")
    assert str(kernel.parent.relative_to(tmp_path)) in said
    assert demo.main() == 0  # a second run replaces the first


def test_an_error_ends_the_demo_with_its_code(tmp_path, monkeypatch, capsys):
    def fail(*arguments, **options):
        raise PlanError("no room")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(api, "verify", fail)
    assert demo.main() == 2
    assert "error[C200]: no room" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
