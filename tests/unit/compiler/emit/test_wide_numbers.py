"""Images and batches whose pixel numbers need 64 bits, and those that no tensor map or copy can name."""

from __future__ import annotations

import dataclasses
import re

import pytest
from support.schedules import only

from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_of
from convc.compiler.schedules import epilogue
from convc.compiler.schedules.all import ASHIFT, CHAIN, RELOAD, SLIDE, STATIONARY, WINDOWS
from convc.compiler.schedules.sharing import stationary
from convc.errors import PlanError
from convc.ir.epilogue import AddResidual
from convc.ir.problem import ConvProblem
from convc.runtime.layer import run_layer
from convc.verification import reference
from convc.verification.compare import compare
from convc.verification.data import integer_data

SCHEDULES = (RELOAD, SLIDE, CHAIN, ASHIFT, WINDOWS, STATIONARY)


def problem(**changes) -> ConvProblem:
    base = {
        "in_channels": 64,
        "out_channels": 64,
        "in_extent": (40000, 40000),
        "kernel": (3, 3),
        "pad_lo": (1, 1),
        "pad_hi": (1, 1),
        "bias": True,
    }
    return ConvProblem(**{**base, **changes})


@pytest.mark.one_of(2)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.id.title)
def test_ptxas_accepts_an_image_of_any_size(schedule, batch, assembled):
    compiled = compile_problem(problem(batch=batch, in_extent=(40000, 39999)), options=only(schedule))
    assert assembled(compiled.artifact.ptx).spill_bytes == 0
    if batch == 3:  # 4.8e9 output pixels
        assert re.search(r"\.reg \.b64 [^;]*%m\d?\b", compiled.artifact.ptx)


@pytest.mark.parametrize("schedule", [SLIDE, STATIONARY], ids=lambda schedule: schedule.id.title)
def test_ptxas_accepts_a_residual_of_any_size(schedule, assembled):
    compiled = compile_problem(problem(batch=3, epilogue=(AddResidual(),)), options=only(schedule))
    assert assembled(compiled.artifact.ptx).spill_bytes == 0


@pytest.mark.parametrize("schedule", [RELOAD, SLIDE, STATIONARY], ids=lambda schedule: schedule.id.title)
def test_wide_pixel_numbers_store_the_same(schedule, monkeypatch):
    for module in (epilogue, stationary):
        monkeypatch.setattr(module, "pixel_bits", lambda plan: 64)
    small = problem(in_extent=(9, 11), batch=2, out_channels=40, epilogue=())
    x, w, b = integer_data(small, 5)
    kernel = kernel_of(compile_problem(small, options=only(schedule)))
    assert "s64 %" in kernel.artifact.ptx
    run = run_layer(layer_of(small, kernel, w, b), x)
    assert (compare(run.y, reference.conv_problem(small, x, w, b)).ok, run.findings) == (True, ())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"in_channels": 512}, "the activation buffer has a stride of 1638400000000 bytes"),
        ({"batch": 2**32 + 1, "in_extent": (3, 3)}, "the activation buffer has an extent of 4294967297"),
        (
            {"batch": 2**31 + 1, "in_extent": (1, 1), "kernel": (1, 1), "pad_lo": (0, 0), "pad_hi": (0, 0)},
            "start_n = tile_m*128 may be (0, 2147483648), which 32 bits cannot hold",
        ),
    ],
)
def test_what_the_hardware_cannot_name_is_refused(changes, message):
    with pytest.raises(PlanError, match=re.escape(message)):
        compile_problem(problem(**changes))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.id.title)
def test_the_tiles_of_a_walk_and_the_windows_of_a_tile_count(schedule):
    """Only the variable of a loop that is written out is known; that of another has its whole range."""
    options = dataclasses.replace(only(schedule), persistent="on")
    single = problem(batch=2**31 + 1, in_extent=(1, 1), kernel=(1, 1), pad_lo=(0, 0), pad_hi=(0, 0))
    with pytest.raises(PlanError, match=re.escape("which 32 bits cannot hold")):
        compile_problem(single, options=options)
