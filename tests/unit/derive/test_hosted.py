"""Convolutions that the host turns into others: identities for all sizes, and the layouts' numbers are theirs."""

from __future__ import annotations

import pytest

from convc.compiler.index.changes import Fact
from convc.compiler.index.conditions import met
from convc.compiler.index.maps import Proof
from convc.derive import symbols as z
from convc.derive.hosted import AT, OFFSET, PAD, PHASE, TAP, D, U, hosted
from convc.derive.symbols import FloorDiv, Mod
from convc.derive.theorem import Refused, below, proved
from convc.host_layout.fold import images
from convc.host_layout.transposed import _phase_axis
from convc.ir.problem import ConvProblem

BROKEN = {
    "a tap of another phase": lambda: proved("reads", [((z.q + OFFSET) * U + TAP * D, z.q * U + PHASE + PAD)]),
    "phases as the slow digit": lambda: proved("once", [(FloorDiv(z.q * U + PHASE, U), PHASE)], [below(PHASE, U)]),
    "a filter that is not turned": lambda: proved("spread", [(z.q + TAP * D - PAD, z.q + PAD - TAP * D)]),
    "a block too far": lambda: proved(
        "fold", [((z.p + FloorDiv(TAP * D, U) + 1) * U + Mod(TAP * D, U), z.p * U + TAP * D)]
    ),
    "planes of the next volume": lambda: proved("planes", [(FloorDiv(z.n * z.P + AT, z.P), z.n)]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_another_convolution_is_refused(name):
    with pytest.raises(Refused, match=r"fails at .* is false"):
        BROKEN[name]()


def test_every_way_has_theorems():
    assert len({fact.name for fact in hosted()}) == 7
    assert all(fact.theorems for fact in hosted())


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_the_taps_of_phases_are_those_of_the_theorem(stride, dilation):
    model = ConvProblem(
        transposed=True, in_channels=2, out_channels=2, in_extent=(5,), kernel=(4,), stride=(stride,),
        dilation=(dilation,), pad_lo=(1,), pad_hi=(1,),
    )  # fmt: skip
    axis = _phase_axis(model, 0)
    for phase, tap, new in axis.reads:
        sizes = {"U": stride, "D": dilation, "PAD": 1, "phase": phase, "s": tap, "OFFSET": new - axis.before}
        fact = Fact("phases of a transposed convolution", sizes)
        assert isinstance(met(fact), Proof)
        wrong = Fact(fact.name, {**sizes, "s": tap + 1})
        assert not isinstance(met(wrong), Proof)


def test_a_row_is_an_image_of_one_line():
    row = images(ConvProblem(in_channels=2, out_channels=2, in_extent=(9,), kernel=(3,)))
    assert row.in_extent == (1, 9)
    assert (row.out_extent[0], row.kernel[0], row.pad_lo[0]) == (1, 1, 0)
