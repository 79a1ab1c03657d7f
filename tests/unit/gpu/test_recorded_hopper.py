"""Kernels for sm_90a: three oracles and what an H200 left, byte for byte; no GPU is needed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from recordings.hopper_cases import Case, cases
from recordings.record_hopper import judged, prepared
from support.interpret.run import interpret

import convc
from convc.gpu.contents import digest
from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.epilogue import exact_on_integers

RECORD = json.loads((Path(__file__).parents[2] / "recordings" / "launches_h200.json").read_text())
LAUNCHES = {each["name"]: each for each in RECORD["launches"]}
RANDOM = {each["name"]: each for each in RECORD["random"]}
CASES = {case.name: case for case in cases()}
CHEAP = ("reload_n48", "reload_residual", "slide_stride2", "slide_s8_s8", "reload_e4m3_f16", "slide_tf32_f32")


def check(case: Case, assembled) -> None:
    """The text assembles without spills; interpreter and machine are right, and leave what the GPU left."""
    made = prepared(case)
    artifact = made.kernel.artifact
    assert assembled(artifact.ptx, case.options.target).spill_bytes == 0
    ran = convc.simulate(artifact.ptx, artifact.launch, dict(made.buffers), check=True)
    assert not ran.findings
    output = ran.buffers["output"]
    assert judged(case, made, output).ok
    if made.allowed is None:  # the hardware's functions of the other epilogues are approximate
        assert digest(output) == LAUNCHES[case.name]["digest"]
    spec = artifact.launch.buffers["output"]
    interpreted = interpret(made.program, made.buffers).view(ARRAY_TYPES[spec.dtype]).reshape(spec.shape)
    assert judged(case, made, np.asarray(interpreted)).ok


@pytest.mark.parametrize("name", CHEAP)
def test_the_machine_leaves_the_bytes_of_the_gpu(name, assembled):
    check(CASES[name], assembled)


def check_rounding(case: Case) -> None:
    """With exact numerics the simulator rounds sums of random numbers as the GPU does, inside their bound."""
    made = prepared(case, random=True)
    artifact = made.kernel.artifact
    exact = convc.MachineOptions(numerics="exact")
    ran = convc.simulate(artifact.ptx, artifact.launch, dict(made.buffers), machine=exact)
    if exact_on_integers(case.problem.epilogue):  # the hardware's functions of the others are approximate
        assert digest(ran.buffers["output"]) == RANDOM[case.name]["digest"]
        assert judged(case, made, ran.buffers["output"]).ok


@pytest.mark.parametrize("name", ["slide_bf16_bf16", "reload_e5m2_f32"])
def test_the_machine_rounds_as_the_gpu(name):
    check_rounding(CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RANDOM if name not in ("slide_bf16_bf16", "reload_e5m2_f32")])
def test_the_machine_rounds_as_the_gpu_always(name):
    check_rounding(CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in CHEAP])
def test_the_machine_leaves_the_bytes_of_the_gpu_always(name, assembled):
    check(CASES[name], assembled)


def test_everything_was_right_on_the_gpu():
    assert set(LAUNCHES) == set(CASES)
    assert [name for name, each in LAUNCHES.items() if each.get("wrong") != 0] == []


def test_random_data_stay_in_the_bound_of_float32_but_for_fp8_whose_sums_have_fewer_bits():
    """The recording was judged by that bound; those of fp8 are in their own, see `check_rounding`."""
    outside = {name for name, each in RANDOM.items() if each["wrong"]}
    assert outside == {f"{schedule}_{kind}" for schedule in ("reload", "slide") for kind in ("e4m3_f16", "e5m2_f32")}
