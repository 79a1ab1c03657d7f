"""Loop nests for tests: a small problem, what a nest computes, and what a rewrite must say."""

from __future__ import annotations

import numpy as np

from convc.compiler.index.maps import Counterexample, Proof
from convc.explain.algorithms import MmaTile
from convc.explain.nests import Nest
from convc.explain.products import products
from convc.explain.rewrites import Step
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(
    batch=2, in_channels=4, out_channels=6, in_extent=(4, 9), kernel=(3, 3), pad_lo=(0, 1), pad_hi=(0, 1)
)
MMA = MmaTile(columns=4, channels=2)


def refused(step: Step) -> str:
    """What a step that must be refused says, with where."""
    assert isinstance(step.outcome, Counterexample), step.outcome
    return str(step.outcome)


def proved(step: Step) -> Nest:
    """The nest of a step that must be proved, by the algebra and by running it."""
    assert isinstance(step.outcome, Proof), step.outcome
    assert step.ran.startswith("ran: ")
    return step.nest


def computed(nest: Nest, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The outputs (N, K, P, Q) that a nest adds up, for activations (N, C, H, W) and weights (K, C, R, S)."""
    x, w = (array.transpose(0, 2, 3, 1).reshape(-1) for array in (x, w))
    found = products(nest)
    element, weight = np.divmod(found.term, w.size)
    y = np.zeros(nest.problem.gemm_m * nest.problem.out_channels)
    np.add.at(y, found.out, x[element] * w[weight])
    shape = (nest.problem.batch, *nest.problem.out_extent, nest.problem.out_channels)
    return y.reshape(shape).transpose(0, 3, 1, 2)
