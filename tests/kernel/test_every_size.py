"""Every image size compiles by default; those that fit into memory are right at every border.

Small ones are run as a whole in other tests: here a tile of each border and corner is run, wherever rows happen to end.
"""

from __future__ import annotations

import pytest

from convc.compiler.compile import Compiled, compile_problem
from convc.compiler.kernels import kernel_of
from convc.ir.network import ConvNode, TensorRef
from convc.ir.problem import ConvProblem
from convc.verification.data import normal_data
from convc.verification.layer import check_layer

FILTERS = {
    "3x3": {"kernel": (3, 3), "pad_lo": (1, 1), "pad_hi": (1, 1)},
    "5x5 stride 2": {"kernel": (5, 5), "stride": (2, 2), "pad_lo": (2, 2), "pad_hi": (2, 2)},
    "3x3 dilated": {"kernel": (3, 3), "dilation": (2, 2), "pad_lo": (2, 2), "pad_hi": (2, 2)},
    "1x1": {"kernel": (1, 1)},
}
LARGEST = 40000
RUN = 4_000_000
"""Pixels of the largest images that are run."""


def sizes() -> list[tuple[int, int]]:
    """A hundred extents from 1 to `LARGEST`, evenly on a logarithmic scale, as squares and as rectangles."""
    sides: list[int] = []
    for i in range(100):
        sides.append(max(round(LARGEST ** (i / 99)), sides[-1] + 1 if sides else 1))
    return [*zip(sides, sides, strict=True), *zip(sides, reversed(sides), strict=True)]


def compiles(extent: tuple[int, int], filter_: str) -> Compiled:
    problem = ConvProblem(in_channels=64, out_channels=64, in_extent=extent, bias=True, **FILTERS[filter_])
    compiled = compile_problem(problem)
    refused = {choice.schedule.title: choice.reason for choice in compiled.plan.choices if choice.reason}
    assert not any("index maps" in reason or "cannot hold" in reason for reason in refused.values()), (extent, refused)
    return compiled


def borders_are_right(compiled: Compiled) -> None:
    problem = compiled.plan.layout.model
    small = ConvProblem(in_channels=64, out_channels=64, in_extent=(9, 9), kernel=problem.kernel, bias=True)
    _, weight, bias = normal_data(small, 0)
    ends = {name: TensorRef(name=name, dtype="f16", shape=None) for name in ("input", "output")}
    conv = ConvNode(name="conv", problem=problem, weight=weight, bias=bias, **ends)
    report = check_layer(conv, kernel_of(compiled), sample=0, modes=("integer",))
    assert report.ok, (problem, compiled.schedule, report.checks)


def test_the_sizes_are_those_that_are_promised():
    assert len(set(sizes())) == 200
    assert {(1, 1), (LARGEST, LARGEST), (1, LARGEST), (LARGEST, 1)} <= set(sizes())
    assert sum(height % 2 for height, _ in sizes()) > 80


@pytest.mark.parametrize("filter_", FILTERS)
def test_some_sizes_compile(filter_):
    for extent in (*sizes()[7::40], (2000, 2000), (LARGEST, LARGEST)):
        compiles(extent, filter_)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("filter_", FILTERS)
def test_some_borders_are_right(filter_):
    borders_are_right(compiles((123, 1001), filter_))


@pytest.mark.slow
@pytest.mark.parametrize("filter_", FILTERS)
def test_every_size_compiles_and_is_right_at_its_borders(filter_):
    for extent in sizes():
        compiled = compiles(extent, filter_)
        if extent[0] * extent[1] < RUN:
            borders_are_right(compiled)
