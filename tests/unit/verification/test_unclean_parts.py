"""A part of a launch about which something is found is left to the whole launch, which can say what is wrong."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import convc
from convc.compiler.kernels import Kernels
from convc.errors import DeadlockError
from convc.machine import RunOptions
from convc.support.resources import model_folder
from convc.verification import layer


@pytest.mark.parametrize(("findings", "kept"), [((), True), (("a race",), False), (None, False)])
def test_only_clean_parts_are_kept(findings, kept, monkeypatch):
    def run(*_, **__):
        if findings is None:
            raise DeadlockError("nobody goes on")
        return SimpleNamespace(findings=findings)

    monkeypatch.setattr(layer, "run_layer", run)
    conv = convc.load(model_folder() / "tiny_conv.onnx").convs[0]
    part = layer.run_part(conv, Kernels().compiled(conv.problem), "integer", 0, RunOptions(), (0, 1))
    assert (part is not None) == kept
