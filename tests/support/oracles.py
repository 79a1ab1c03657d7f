"""Three oracles of one convolution: reference, tile interpreter and machine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from support.interpret.run import interpret
from support.schedules import RELOAD_ONLY

from convc.build.writer import layer_of
from convc.compiler.compile import Compiled, compile_problem
from convc.compiler.kernels import kernel_of
from convc.compiler.options import ScheduleOptions
from convc.host_layout import repack
from convc.ir.epilogue import exact_on_integers
from convc.ir.findings import Verdict
from convc.ir.problem import ConvProblem
from convc.runtime.layer import run_layer
from convc.verification import reference
from convc.verification.bound import error_bound, expected_result
from convc.verification.compare import compare
from convc.verification.data import integer_data, multipliers, normal_data, residual_data
from convc.verification.epilogue_bound import through_epilogue


def oracles_agree(
    problem: ConvProblem, seed: int, assembled: Callable, options: ScheduleOptions = RELOAD_ONLY, **choice: int
) -> Compiled:
    """Compile, assemble, and compare pairwise on integers (bit for bit) and on normal data (derived bound).

    Args:
        seed: of the data.
        assembled: the fixture of that name.
        options, choice: as of `compile_problem`, which raises `PlanError` where no kernel is legal.
    """
    compiled = compile_problem(problem, options=options, **choice)
    # ptxas 13.0 spills 16 bytes of an mxfp8 kernel with 64 columns that writes f16; of no other that we met.
    assert assembled(compiled.artifact.ptx, options.target).spill_bytes <= (0 if compiled.layout.blocks is None else 16)
    kernel = kernel_of(compiled)

    x, w, b = integer_data(problem, seed)
    multiplier = multipliers(problem, seed)
    residual = residual_data(problem, seed, integer=True)
    layer = layer_of(problem, kernel, w, b, multiplier)
    run = run_layer(layer, x, residual=residual)
    assert run.findings == ()
    expected = expected_result(problem, x, w, b, multiplier, residual)
    allowed = None
    if not exact_on_integers(problem.epilogue):
        sums = reference.scaled_sums(problem, x, w, b, multiplier)
        allowed = through_epilogue(problem, sums, np.zeros_like(sums), residual)
    machine = compare(run.y, expected, allowed)
    assert machine.ok, machine
    buffers = {
        "activation": repack.pack_activation(compiled.layout, x),
        "filter": layer.filter,
        "bias": repack.scaled_bias(compiled.layout, layer.bias, x),
    }
    if residual is not None:
        buffers["residual"] = repack.pack_residual(compiled.layout, residual)
    oracle = repack.unpack_output(compiled.layout, interpret(compiled.program, buffers))
    assert compare(oracle, expected, allowed).ok
    if allowed is None:
        assert np.array_equal(np.asarray(oracle, np.float64), np.asarray(run.y, np.float64))

    x, w, b = normal_data(problem, seed)
    residual = residual_data(problem, seed, integer=False)
    multiplier = multipliers(problem, seed, integer=False)
    run = run_layer(layer_of(problem, kernel, w, b, multiplier), x, residual=residual)
    assert run.verdict is Verdict.clean
    expected = expected_result(problem, x, w, b, multiplier, residual)
    bounded = compare(run.y, expected, error_bound(problem, x, w, b, residual, multiplier=multiplier))
    assert bounded.ok, bounded
    return compiled
