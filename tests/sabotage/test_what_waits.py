"""Which kernels multiply at once, and why: all others have their products wait (`convc.machine.lazy`)."""

from __future__ import annotations

import numpy as np
import pytest
from sabotage_kernels import KERNELS, SLOW, TESTS

from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.launch import load_launch
from convc.machine import run
from convc.machine.lazy.deferral import Deferral

ELSEWHERE = {"A is no tile of a tensor"}
"""Some lanes of A were refreshed or moved by themselves, or A was stored by threads."""

AT_ONCE = {
    "nvfp4, scaled": {"scale factors"},
    "mxfp8, groups": {"scale factors"},
    "mxfp8, one MMA a stage": {"scale factors"},
    "mxfp4, scaled": {"scale factors"},
    "golden scaled_nvfp4": {"scale factors"},
    "slide": ELSEWHERE | {"lane mask, and D is written anew"},
    "shift chain": ELSEWHERE,
    "shift ashift": ELSEWHERE,
    "shift chain, zeros at the border": ELSEWHERE,
    "stationary": {"some CTAs only", "zero-column mask"},
    "stationary, full tiles": {"zero-column mask"},
    "stationary, requantised": {"zero-column mask"},
    "stationary, residual past the edges": {"zero-column mask"},
    "a CTA pair": {"CTA pair"},
    "weight stationary": {"zero-column mask"},
    "shift and copy": ELSEWHERE | {"lane mask, and D is written anew"},
    "ashift": ELSEWHERE,
    "gluon_pairs": {"CTA pair"},
}
FOREIGN = {
    "gluon_pairs": {"CTA pair"},
    "matmul_bf16": {"MN-major"},
    "matmul_device_tma": ELSEWHERE,
    "matmul_e4m3": {"MN-major"},
    "matmul_f16": {"MN-major"},
    "matmul_tf32": ELSEWHERE,
}


@pytest.fixture
def refused(monkeypatch) -> dict[str, int]:
    """Why products of all cohorts so far were performed at once."""
    found: dict[str, int] = {}
    release = Deferral.release

    def kept(self: Deferral) -> None:
        found.update(self.refused)
        release(self)

    monkeypatch.setattr(Deferral, "release", kept)
    return found


def test_products_of_our_kernels_wait_but_for_these(refused):
    found = {}
    for name, made in (KERNELS | SLOW).items():
        kernel = made()
        refused.clear()
        run(kernel.text, kernel.launch, kernel.inputs)
        found[name] = set(refused)
    assert {name: reasons for name, reasons in found.items() if reasons} == AT_ONCE


def test_products_of_other_compilers_wait_but_for_these(refused):
    found = {}
    for path in sorted((TESTS / "foreign").glob("*/kernel.ptx")):
        launch = load_launch(path.parent / "launch.json")
        refused.clear()
        run(path.read_text(), launch, {n: np.ones(b.shape, ARRAY_TYPES[b.dtype]) for n, b in launch.buffers.items()})
        found[path.parent.name] = set(refused)
    assert {name: reasons for name, reasons in found.items() if reasons} == FOREIGN
