"""Numbers that threads have without being told, and votes: a phase is made for so many arrivals, and gets them."""

from __future__ import annotations

import pytest
from unit.auditor.test_audited_kernels import audited, rules

COUNTED = """
.reg .b32 %n, %m; .reg .pred %v;
mov.u32 %m, %laneid;
setp.eq.u32 %p, %m, {lane};
mov.u32 %c, %warpid;
setp.eq.and.u32 %p, %c, {warp}, %p;
{code}
@%p mbarrier.init.shared::cta.b64 [%smem], %n;
@%p fence.mbarrier_init.release.cluster;
@%p mbarrier.arrive.shared::cta.b64 _, [%smem], {given};
"""
LAUNCH = {
    "grid": (4, 6, 3), "cluster": (2, 3, 1), "block": (16, 4, 2),
    "directives": ".explicitcluster\n.reqnctapercluster 2, 3, 1",
}  # fmt: skip


def counts(code: str, number: int, lane: int = 0, warp: int = 0) -> None:
    """Demand that the auditor knows the number that a lane has in %n."""
    for given, right in ((number, True), (number + 1, False)):
        found = audited(COUNTED.format(code=code, given=given, lane=lane, warp=warp), **LAUNCH)
        assert found.unclear == (), found.unclear
        assert rules(found) == (set() if right else {"arrival-count"}), (code, given)


@pytest.mark.parametrize(
    ("register", "number"),
    [
        *(("ntid.x", 16), ("ntid.y", 4), ("ntid.z", 2), ("nctaid.x", 4), ("nctaid.y", 6), ("nctaid.z", 3)),
        *(("nwarpid", 4), ("cluster_nctarank", 6), ("cluster_nctaid.x", 2), ("cluster_nctaid.y", 3)),
        *(("cluster_nctaid.z", 1), ("nclusterid.x", 2), ("nclusterid.y", 2), ("nclusterid.z", 3)),
    ],
)
def test_extents(register, number):
    counts(f"mov.u32 %n, %{register};", number)


@pytest.mark.parametrize(
    ("one", "factor", "other", "behind"),
    [
        ("ctaid.x", 2, "clusterid.x", "cluster_ctaid.x"),
        ("ctaid.y", 3, "clusterid.y", "cluster_ctaid.y"),
        ("ctaid.z", 1, "clusterid.z", "cluster_ctaid.z"),
        ("cluster_ctarank", 2, "cluster_ctaid.y", "cluster_ctaid.x"),
    ],
)
def test_places_in_clusters(one, factor, other, behind):
    """One is factor * other + behind, in each CTA; 7 stays when that is taken away and 7 added."""
    counts(
        f"mov.u32 %n, %{other};\nmul.lo.u32 %n, %n, {factor};\nmov.u32 %m, %{behind};\nadd.u32 %n, %n, %m;\n"
        f"mov.u32 %m, %{one};\nsub.u32 %n, %m, %n;\nadd.u32 %n, %n, 7;",
        7,
    )


@pytest.mark.parametrize(("lane", "warp"), [(0, 0), (5, 0), (31, 3), (17, 2)])
def test_places_in_a_block(lane, warp):
    """Threads are counted along x, then y, then z (PTX 10, %tid)."""
    thread = 32 * warp + lane
    for register, number in (
        *(("tid.x", thread % 16), ("tid.y", thread // 16 % 4), ("tid.z", thread // 64)),
        *(("laneid", lane), ("warpid", warp)),
    ):
        counts(f"mov.u32 %n, %{register};\nadd.u32 %n, %n, 1;", number + 1, lane, warp)


@pytest.mark.parametrize("lane", [0, 1, 13, 31])
@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("eq", lambda lane: 1),
        ("lt", lambda lane: lane),
        ("le", lambda lane: lane + 1),
        ("gt", lambda lane: 31 - lane),
        ("ge", lambda lane: 32 - lane),
    ],
)
def test_masks_of_lanes(name, bits, lane):
    counts(f"mov.u32 %n, %lanemask_{name};\npopc.b32 %n, %n;\nadd.u32 %n, %n, 1;", bits(lane) + 1, lane)
    if name in ("lt", "le"):
        above = f"mov.u32 %n, %lanemask_{name};\nshr.u32 %n, %n, {lane};\nadd.u32 %n, %n, 1;"
        counts(above, 2 if name == "le" else 1, lane)


@pytest.mark.parametrize(
    ("mode", "votes"),
    [("all", (0, 0, 1)), ("any", (0, 1, 1)), ("uni", (1, 0, 1))],
)
def test_votes(mode, votes):
    """No lane, some lanes, and all of them say yes."""
    for limit, yes in zip((0, 3, 32), votes, strict=True):
        code = (
            f"mov.u32 %m, %laneid;\nsetp.lt.u32 %q, %m, {limit};\nvote.sync.{mode}.pred %v, %q, 0xffffffff;\n"
            "selp.u32 %n, 9, 5, %v;"
        )
        counts(code, 9 if yes else 5)


@pytest.mark.parametrize(("limit", "number"), [(1, 1), (3, 7), (10, 1023)])
def test_ballots(limit, number):
    code = f"mov.u32 %m, %laneid;\nsetp.lt.u32 %q, %m, {limit};\nvote.sync.ballot.b32 %n, %q, 0xffffffff;"
    counts(code, number, lane=2)
