"""Three oracles on random convolutions: reference, tile oracle and machine agree pairwise, and ptxas takes the text.

On integer data every bit must agree; on random data the simulator must stay inside the derived bound. Every other
problem of float sums has a scale per channel. The examples are
the same in every run (hypothesis with ``derandomize``; each also draws the seed of its data, which a failure prints).
"""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.examples import PARTS
from support.oracles import oracles_agree
from support.types import element_types

from convc.ir import dtypes
from convc.ir.problem import ConvProblem

EXAMPLES = 40
"""Per type of activations: 520 problems in all, an eighth of them in `make test`."""


@st.composite
def problems(draw, operand: str) -> ConvProblem:
    """Shapes around every edge: tiles of M, N and K that are full, nearly empty, and everything between."""
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    dilation = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    pads = draw(st.tuples(*[st.integers(0, 5)] * 4))
    extent = [
        draw(st.integers(max(1, s - low - high), s + 14)) for s, low, high in zip(span, pads[:2], pads[2:], strict=True)
    ]
    return ConvProblem(
        batch=draw(st.integers(1, 4)),
        in_channels=draw(st.one_of(st.integers(1, 20), st.sampled_from([24, 31, 32, 33, 63, 64, 65, 96, 130]))),
        out_channels=draw(st.one_of(st.integers(1, 20), st.sampled_from([31, 64, 65, 100, 128, 129, 260]))),
        in_extent=tuple(extent),
        kernel=kernel,
        stride=draw(st.tuples(st.integers(1, 10), st.integers(1, 10))),
        dilation=dilation,
        pad_lo=pads[:2],
        pad_hi=pads[2:],
        bias=draw(st.booleans()),
        **draw(element_types(operand)),
    )


@pytest.mark.one_of(2)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("operand", dtypes.OPERANDS)
def test_oracles_agree(operand, part, assembled):
    wide = "s32" if operand in dtypes.INTEGER_OPERANDS else "f32"

    @settings(
        max_examples=EXAMPLES // part,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(problems(operand), st.integers(0, 2**32 - 1))
    @example(ConvProblem(in_channels=1, out_channels=1, in_extent=(1, 1), kernel=(1, 1), operand=operand, out=wide), 0)
    def every(problem: ConvProblem, seed: int) -> None:
        scaled = seed % 2 == 1 and operand not in (*dtypes.SCALED_OPERANDS, *dtypes.INTEGER_OPERANDS)
        oracles_agree(dataclasses.replace(problem, multiplier=scaled), seed, assembled)

    every()
