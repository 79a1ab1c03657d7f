"""Gradients that are added to old ones in the kernel (beta = 1): right, and free of races where both share a buffer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs
from support.gradient_cases import UNEVEN
from support.oracles import oracles_agree

from convc import machine
from convc.api.checking import check_kernel
from convc.auditor.run import audit_kernel
from convc.compiler.compile import Compiled, compile_problem
from convc.compiler.options import ScheduleOptions
from convc.errors import PlanError
from convc.host_layout import repack
from convc.ir import dtypes
from convc.ir.epilogue import AddResidual
from convc.ir.gradients import input_gradient, weight_gradient
from convc.ir.launch import LaunchSpec, Param, PointerParam, TensorMapParam
from convc.ir.problem import ConvProblem
from convc.verification.reference import conv_sums

WGRAD = weight_gradient(UNEVEN)
DGRAD = input_gradient(UNEVEN)
DEEP = weight_gradient(replace(UNEVEN, batch=30, out_channels=64, out="f32"))

CASES = {
    "copied, persistent": (WGRAD, {"columns": "summed", "persistent": "on", "residual_load": "tma"}),
    "on Hopper": (WGRAD, {"columns": "summed", "target": "sm_90a"}),
    "a cluster": (WGRAD, {"columns": "summed", "split_k": "2"}),
    "a workspace": (DEEP, {"columns": "summed", "split_k": "16"}),
    "operands transposed": (WGRAD, {"columns": "off", "store": "direct"}),
    "lanes are channels": (WGRAD, {"schedule": "stationary"}),
    "phases of the input": (DGRAD, {"schedule": "reload", "residual_load": "tma"}),
}


def accumulated(problem: ConvProblem, in_place: bool = True) -> ConvProblem:
    """A gradient that is added to an old one."""
    return replace(problem, epilogue=(AddResidual(in_place=in_place),))


def in_place(launch: LaunchSpec) -> LaunchSpec:
    """A launch whose old gradient is in the buffer of the output."""
    params = tuple(map(_of_output, launch.params))
    left = {name: spec for name, spec in launch.buffers.items() if name != "residual"}
    return structs.replace(launch, params=params, buffers=left)


def _of_output(param: Param) -> Param:
    if isinstance(param, TensorMapParam) and param.map.buffer == "residual":
        return structs.replace(param, map=structs.replace(param.map, buffer="output"))
    if isinstance(param, PointerParam) and param.buffer == "residual":
        return structs.replace(param, buffer="output")
    return param


def buffers_in_place(made: Compiled, problem: ConvProblem) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Buffers of whole numbers, and the result that they lead to."""
    rng = np.random.default_rng(0)
    shapes = (problem.x_shape, problem.w_shape, problem.y_shape)
    x, w, old = (rng.integers(-2, 3, shape).astype(np.float32) for shape in shapes)
    packed = {
        "activation": repack.pack_activation(made.layout, x),
        "filter": repack.pack_filter(made.layout, w),
        "bias": repack.pack_bias(made.layout, None),
        "output": repack.pack_residual(made.layout, old),
    }
    return packed, conv_sums(replace(problem, epilogue=()), x, w) + old


@pytest.mark.parametrize("name", CASES)
def test_oracles_agree(name, assembled):
    problem, chosen = CASES[name]
    made = oracles_agree(accumulated(problem), 3, assembled, ScheduleOptions(**chosen))
    assert made.layout.summed == (chosen.get("columns") == "summed")


@pytest.mark.parametrize("name", CASES)
def test_the_old_gradient_may_be_where_the_new_one_is_written(name):
    problem, chosen = CASES[name]
    made = compile_problem(accumulated(problem), options=ScheduleOptions(**chosen))
    buffers, expected = buffers_in_place(made, problem)
    launch = in_place(made.artifact.launch)
    y = machine.run(made.artifact.ptx, launch, buffers).buffers["output"]
    out = problem.out_dtype
    found = repack.unpack_output(made.layout, y.view(out.storage).reshape(made.layout.output.shape))
    assert np.array_equal(dtypes.decode(out, found), expected)
    assert check_kernel(made.artifact.ptx, launch, buffers).findings == ()
    assert not audit_kernel(made.artifact.ptx, launch).findings


def test_other_residuals_are_read_as_what_nobody_writes():
    problem, chosen = CASES["a cluster"]
    texts = [
        compile_problem(accumulated(problem, in_place=way), options=ScheduleOptions(**chosen)).artifact.ptx
        for way in (False, True)
    ]
    constant, plain = ([text.count(f"ld.global{way}.v4.b32 {{%res0") for text in texts] for way in (".nc", ""))
    assert constant == plain[::-1] == [plain[1], 0]
    assert plain[1]


def test_copies_that_bring_pixels_of_other_tiles_are_refused():
    options = ScheduleOptions(columns="off", schedule="shift", residual_load="tma")
    assert compile_problem(accumulated(WGRAD, in_place=False), options=options).plan.storage.residual is not None
    with pytest.raises(PlanError, match="bring pixels of other tiles too, and other CTAs write these in place"):
        compile_problem(accumulated(WGRAD), options=options)
