"""Operands of mixed shape: registers the same everywhere beside such of each warp, CTAs of which only some issue."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from support.kernels import execute, module

from convc.machine.isa.tcgen05.mma import issues
from convc.machine.isa.warp.fragments import unpack

MMA = """
.reg .b32 %a<2>, %b, %d<4>, %n, %h; .reg .b64 %from, %to; .reg .f32 %f;
mov.u32 %n, %ctaid.x; mov.u32 %h, %tid.x; mad.lo.u32 %n, %n, 64, %h; mul.wide.u32 %to, %n, 16; add.u64 %to, %to, %p_out;
{own}
mov.b32 %a0, {a0}; mov.b32 %a1, {a1}; mov.b32 %b, 0x3C003C00; mov.b32 %d0, 0; mov.b32 %d1, 0; mov.b32 %d2, 0;
mov.b32 %d3, %f;
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {{%d0,%d1,%d2,%d3}}, {{%a0,%a1}}, {{%b}}, {{%d0,%d1,%d2,%d3}};
st.global.v4.b32 [%to], {{%d0, %d1, %d2, %d3}};
"""
"""B is all 1. %h and %f are the number of the own warp, as two halves and as a float; %d3 begins with it."""

OWN = {
    "warp": ("shr.u32 %h, %n, 5; and.b32 %h, %h, 1;", lambda cta, warp: warp),
    "CTA": ("mov.u32 %h, %ctaid.x;", lambda cta, warp: cta),
    "both": ("shr.u32 %h, %n, 5;", lambda cta, warp: 2 * cta + warp),
}
PAIR = "cvt.rn.f32.u32 %f, %h; .reg .b16 %e; cvt.rn.f16.f32 %e, %f; mov.b32 %h, {%e, %e};"


@pytest.mark.parametrize("own_first", [False, True])
@pytest.mark.parametrize("differs", OWN)
def test_a_fragment_of_a_uniform_register_and_one_of_each_warp(differs, own_first):
    """Rows 0 to 7 of A are in the first register, rows 8 to 15 in the second; a row of 8 elements is added up."""
    own, number = OWN[differs]
    places = ("%h", "0x3C003C00") if own_first else ("0x3C003C00", "%h")
    text = module(MMA.format(own=own + PAIR, a0=places[0], a1=places[1]).replace("; ", ";\n"))
    out = execute(text, {"out": np.zeros(4 * 128, np.float32)}, grid=(2, 1, 1), block=(64, 1, 1)).buffers["out"]
    got = out.reshape(2, 2, 32, 4)
    for cta in range(2):
        for warp in range(2):
            n = number(cta, warp)
            upper, lower = (8 * n, 8) if own_first else (8, 8 * n)
            assert (got[cta, warp] == [upper, upper, lower, lower + n]).all()


def test_registers_are_unpacked_over_the_largest_of_their_shapes():
    warps = np.arange(2, dtype=np.uint32).reshape(1, 2, 1)
    ctas = np.arange(3, dtype=np.uint32).reshape(3, 1, 1)
    lanes = np.arange(32, dtype=np.uint32).reshape(1, 1, 32)
    found = unpack([7, warps, ctas, lanes], 2, 32, 32)
    assert found.shape == (3, 2, 32, 4)
    for at, value in enumerate([np.full((1, 1, 1), 7), warps, ctas, lanes]):
        assert np.array_equal(found[..., at], np.broadcast_to(value, (3, 2, 32)))


def strand(ctas: int, rows: list[int] | None, active: list[bool] | None) -> SimpleNamespace:
    """What `issues` looks at: a warp of some of the CTAs of a cohort, whose thread is active in some of these."""
    count = ctas if rows is None else len(rows)
    own = None if rows is None else np.array(rows)
    return SimpleNamespace(
        cohort=SimpleNamespace(ctas=ctas, cluster_size=2, rows_or_all=lambda x: np.arange(ctas) if x is None else x),
        rows=own,
        row_count=count,
        warps=np.array([0]),
        mask=None if active is None else np.array(active)[:, None, None] & np.ones((1, 1, 32), bool),
        pick=lambda value, thread: value[:, 0, 0],
    )


@pytest.mark.parametrize(
    ("rows", "active", "found"),
    [
        (None, None, {10: (0, 2), 20: (1, 3)}),
        (None, [True, True, False, True], {10: (0,), 20: (1, 3)}),
        ([1, 2, 3], None, {10: (1, 3), 20: (2,)}),
        ([1, 2, 3], [True, True, False], {10: (1,), 20: (2,)}),
        ([0, 1, 3], [False, True, True], {20: (1,), 10: (3,)}),
    ],
)
def test_each_part_of_a_subset_of_ctas_issues_with_its_own_operands(rows, active, found):
    values = np.array([10, 20, 10, 20][: 4 if rows is None else len(rows)], np.uint64)[:, None, None]
    got = list(issues(strand(4, rows, active), (0, 0), [values, 5], pair=False))
    assert {operands[0]: issuers for operands, _, issuers in got} == found
    assert all(operands[1] == 5 and taking == issuers for operands, taking, issuers in got)


@pytest.mark.parametrize(
    ("active", "found"),
    [
        ([True, False, True], {(0,): (0, 1), (3,): (2, 3)}),
        ([True, True, False], {(0, 2): None}),
        ([True, True, True], {(0, 2): None, (3,): (2, 3)}),
    ],
)
def test_of_a_subset_of_pairs_even_and_odd_ctas_issue_apart(active, found):
    """None: every CTA of the cohort takes part."""
    values = np.full((3, 1, 1), 10, np.uint64)
    got = issues(strand(4, [0, 2, 3], active), (0, 0), [values], pair=True)
    assert {issuers: taking for _, taking, issuers in got} == found
