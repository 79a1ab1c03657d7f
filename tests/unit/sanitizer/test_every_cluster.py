"""A race in any cluster is found, whichever clusters run together: places and ways may depend on the CTA."""

from __future__ import annotations

import numpy as np
import pytest
from check_kernels import MEET
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some
from support.kernels import module

from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import RunOptions
from convc.sanitizer import run
from convc.sanitizer.run import check_kernel

SHARED = ".shared .align 16 .b8 data[512]; .shared .align 8 .b64 bar;\n"
HEAD = """
.reg .b32 %t, %c, %s, %x, %y, %v, %o, %rank, %far; .reg .b64 %a, %l; .reg .pred %p, %q, %first, %way;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %s, data; mov.u32 %rank, %cluster_ctarank;
shl.b32 %o, %t, 2; add.u32 %o, %o, %s; st.shared.u32 [%o], 0; st.shared.u32 [%o+256], 0;
setp.lt.u32 %first, %t, 32; and.b32 %v, %t, 31; shl.b32 %v, %v, 2;
bar.sync 0;
"""
TAIL = "bar.sync 0;"


def judged(text: str, grid: int, cluster: int = 1, cohort: int = 296) -> set[tuple[str, int, int]]:
    """Rules with the lines of both accesses."""
    launch = LaunchSpec(
        entry="k", grid=(grid, 1, 1), cluster=(cluster, 1, 1), block=(64, 1, 1),
        buffers={"out": BufferSpec(dtype="u32", shape=(2048,))}, params=(PointerParam(buffer="out"),),
    )  # fmt: skip
    checked = check_kernel(
        text, launch, {"out": np.zeros(2048, np.uint32)}, options=RunOptions(cohort=cohort, evaluation="eager")
    )
    return {(one.rule, one.line, one.other.line if one.other else 0) for one in checked.findings}


def place(name: str, formula: tuple[int, int]) -> str:
    """One of four places of 128 bytes, by the number of the CTA."""
    factor, more = formula
    return f"mad.lo.u32 %{name}, %c, {factor}, {more}; and.b32 %{name}, %{name}, 3; shl.b32 %{name}, %{name}, 7;"


FORMULA = st.tuples(st.integers(0, 3), st.integers(0, 3))
SYNCS = ("", "bar.sync 0;", "setp.COMPARE.u32 %way, %c, CTA; @%way bra OVER; bar.sync 0; OVER:")
SPACES = {
    "shared": ("add.u32 %x, %x, %s; add.u32 %x, %x, %v;", "st.shared.u32 [%x], %t;", "ld.shared.u32 %o, [%y];"),
    "global": (
        "mad.lo.u32 %x, %c, 512, %x; add.u32 %x, %x, %v; cvt.u64.u32 %a, %x; add.u64 %a, %a, %p_out;",
        "st.global.u32 [%a], %t;", "ld.global.u32 %o, [%a];",
    ),
    "peer": (
        "add.u32 %x, %x, %s; add.u32 %x, %x, %v; xor.b32 %far, %rank, 1; mapa.shared::cluster.u32 %x, %x, %far;",
        "st.shared::cluster.u32 [%x], %t;", "ld.shared::cluster.u32 %o, [%y];",
    ),
}  # fmt: skip
"""(the address, from a place in %x; the store to it, by the first warp; the load, by the second)."""


@st.composite
def kernels(draw) -> tuple[str, int, int]:
    """The first warp stores to a place, and the second loads from one; some CTAs have no barrier between."""
    space = draw(st.sampled_from(sorted(SPACES)))
    cluster = 2 if space == "peer" else draw(st.sampled_from((1, 1, 2)))
    grid = cluster * draw(st.integers(1, 5))
    sync = draw(st.sampled_from(SYNCS))
    sync = sync.replace("COMPARE", draw(st.sampled_from(("eq", "ne", "lt", "ge"))))
    sync = sync.replace("CTA", str(draw(st.integers(0, grid - 1))))
    address, store, load = SPACES[space]
    to, source = draw(FORMULA), draw(FORMULA)
    second = address.replace("%x", "%y")
    body = f"""{HEAD} {MEET if cluster == 2 else ""}
    @!%first bra ONE; {place("x", to)} {address} {store}
    ONE: {sync}
    @%first bra TWO; {place("y", source)} {second} {load}
    TWO: {MEET if cluster == 2 else TAIL}"""
    return module(body.replace("; ", ";\n"), shared=SHARED), grid, cluster


@given(kernels())
@settings(max_examples=some(240), deadline=None)
def test_what_is_found_does_not_depend_on_who_runs_together(case):
    text, grid, cluster = case
    assert judged(text, grid, cluster) == judged(text, grid, cluster, cohort=cluster)


def ways(condition: str, body: str) -> str:
    """CTAs for which a condition holds go another way."""
    return module((HEAD + condition + body).replace("; ", ";\n"), shared=SHARED)


CASES = {
    "a barrier that the last CTA leaves out": (
        "setp.eq.u32 %way, %c, 4;",
        "@%first st.shared.u32 [%o], %t; @%way bra OVER; bar.sync 0; OVER: ld.shared.u32 %x, [%s]; bar.sync 0;",
        "race-shared-memory",
    ),
    "a place that the fourth CTA shares": (
        "setp.eq.u32 %way, %c, 3; mov.u32 %x, %s; mov.u32 %y, %s; @!%way add.u32 %y, %y, 256;",
        "add.u32 %x, %x, %v; add.u32 %y, %y, %v; @%first st.shared.u32 [%x], 1; @!%first ld.shared.u32 %t, [%y];",
        "race-shared-memory",
    ),
    "lanes that the second CTA lets meet in global memory": (
        "setp.ne.u32 %way, %c, 1; mad.lo.u32 %x, %c, 64, %t; @!%way and.b32 %x, %x, 95;",
        "mul.wide.u32 %a, %x, 4; add.u64 %a, %a, %p_out; st.global.u32 [%a], %c;",
        "race-global-memory",
    ),
    "a barrier that the third CTA touches": (
        "setp.eq.u32 %way, %c, 2; mov.u32 %x, bar; setp.ne.u32 %p, %t, 0; mov.u32 %y, data; @%way mov.u32 %y, bar;",
        "@%p bra OVER; mbarrier.init.shared::cta.b64 [%x], 1; st.shared.u32 [%y], 5; OVER: bar.warp.sync 0xffffffff;",
        "mbarrier-touched",
    ),
    "lanes that part in the last CTA": (
        "and.b32 %x, %t, 1; setp.eq.u32 %p, %x, 0; setp.eq.and.u32 %way, %c, 4, %p;",
        "@%way bra OVER; add.u32 %x, %x, 1; OVER: @%first bra ONE; ONE: barrier.cta.sync.aligned 0;",
        None,
    ),
}


@pytest.mark.parametrize("what", [name for name in CASES if CASES[name][2]])
def test_one_cta_alone_does_it(what):
    condition, body, rule = CASES[what]
    text = ways(condition, body)
    found = judged(text, 5)
    assert rule in {name for name, _, _ in found}
    assert found == judged(text, 5, cohort=1)
    never = ways(condition.replace("%c, 4", "%c, 9").replace("%c, 3", "%c, 9").replace("%c, 2;", "%c, 9;")
                 .replace("ne.u32 %way, %c, 1", "ne.u32 %way, %c, 9"), body)  # fmt: skip
    assert judged(never, 5) == set()


def test_lanes_that_part_in_one_cta():
    condition, body, _ = CASES["lanes that part in the last CTA"]
    text = ways(condition, body)
    assert judged(text, 5) == judged(text, 5, cohort=1)


def test_many_kinds_are_looked_at_as_far_as_is_said(monkeypatch):
    """Places that are different in each CTA: the first ones are watched, and a note says of how many that is not so."""
    text = ways("shl.b32 %x, %c, 3; and.b32 %x, %x, 255; add.u32 %x, %x, %s;", "@%first st.shared.u32 [%x], 1;")
    assert judged(text, 12) == judged(text, 12, cohort=1)
    monkeypatch.setattr(run, "MOST_KINDS", 4)
    assert "clusters-unwatched" in {rule for rule, _, _ in judged(text, 12)}


def test_a_cluster_that_waits_for_others_is_watched_among_them():
    """The last CTA goes on when all others have counted, and there its warps race."""
    wait = "LOOP: ld.acquire.gpu.global.u32 %v, [%p_out]; setp.lt.u32 %q, %v, 3; @%q bra LOOP;"
    count = "setp.ne.u32 %q, %t, 0; @%q bra OVER; atom.acq_rel.gpu.global.add.u32 %v, [%p_out], 1; bra OVER;"
    body = f"@%way bra LAST; {count} LAST: {wait} @%first st.shared.u32 [%s], 1; @!%first ld.shared.u32 %x, [%s]; OVER:"
    text = ways("setp.eq.u32 %way, %c, 3;", body)
    assert ("race-shared-memory" in {rule for rule, _, _ in judged(text, 4)}) is True
    assert judged(text, 4) == judged(text, 4, cohort=1)
