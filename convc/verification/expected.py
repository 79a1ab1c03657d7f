"""What a convolution should give: the oracle on the numbers that the tensor core multiplies."""

from __future__ import annotations

import numpy as np

from convc.ir.problem import ConvProblem
from convc.layout.block_scaled import as_multiplied
from convc.verification import reference


def expected_result(problem: ConvProblem, x: np.ndarray, w: np.ndarray, *others: np.ndarray | None) -> np.ndarray:
    """`convc.verification.reference.conv_problem`, whose arguments it takes, on the numbers that x and w stand for."""
    return reference.conv_problem(problem, *as_multiplied(problem, x, w), *others)
