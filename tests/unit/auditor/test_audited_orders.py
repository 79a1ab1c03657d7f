"""Small kernels whose warps hand bytes over: copies in bulk, relaxed arrivals, and what lanes tell each other."""

from __future__ import annotations

import pytest
from unit.auditor.test_audited_kernels import FIRST, audited, rules

MADE = f"""
{FIRST}
@%p mbarrier.init.shared::cta.b64 [%smem], 1;
@%p mbarrier.init.shared::cta.b64 [%smem+8], 1;
@%p fence.mbarrier_init.release.cluster;
bar.sync 0;
"""
WAIT = "wait{at}:\nmbarrier.try_wait.parity{order}.shared::cta.b64 %q, [%smem+{at}], 0;\n@!%q bra wait{at};\n"


def wait(at: int = 0, order: str = "") -> str:
    return WAIT.format(at=at, order=order)


COPY = """
{lane}
@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], {said};
@%p cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%smem+1024], [%out], {size}, [%smem];
"""


def chosen(lane: int) -> str:
    """%p: that lane of warp 0."""
    return f"mov.u32 %c, %tid.x;\nsetp.eq.u32 %p, %c, {lane};\n"


@pytest.mark.parametrize("lane", [0, 1, 31])
@pytest.mark.parametrize(("said", "size", "right"), [(64, 64, 1), (64, 128, 0), (128, 64, 0)])
def test_a_bulk_copy_brings_as_many_bytes_as_its_phase_is_told(lane, said, size, right):
    found = audited(MADE + COPY.format(lane=chosen(lane), said=said, size=size) + wait())
    assert ("transaction-bytes" in rules(found)) != right
    assert right or f"expects {said} bytes, and {size} arrive" in found.findings[0].message


def test_what_a_bulk_copy_brings_is_read_behind_its_phase():
    copy = COPY.format(lane=chosen(0), said=64, size=64)
    load = "ld.shared.u32 %a, [%smem+{at}];\n"
    assert rules(audited(MADE + copy + wait() + load.format(at=1084))) == set()
    assert rules(audited(MADE + copy + load.format(at=1084) + wait())) >= {"copy-arrival"}
    assert rules(audited(MADE + copy + load.format(at=1088) + wait())) == set(), "a byte behind it"


def test_a_bulk_copy_ends_in_shared_memory():
    size = 65536 - 1024
    assert rules(audited(MADE + COPY.format(lane=chosen(0), said=size, size=size) + wait())) == set()
    beyond = audited(MADE + COPY.format(lane=chosen(0), said=size + 16, size=size + 16) + wait())
    assert rules(beyond) == {"launch-limits"}
    assert "a copy ends at byte" in beyond.findings[0].message


def test_an_arrival_behind_copies_is_counted_where_nobody_has_announced_it():
    """PTX 9.7.13.15.15: without ``.noinc`` it first takes one more arrival into the phase."""
    text = """
    @%p mbarrier.init.shared::cta.b64 [%smem+16], 2;
    @%p cp.async.mbarrier.arrive{counted}.shared::cta.b64 [%smem+16];
    @%p mbarrier.arrive.shared::cta.b64 _, [%smem+16], {given};
    """
    for counted, given, right in ((".noinc", 1, 1), (".noinc", 2, 0), ("", 2, 1), ("", 3, 0)):
        found = audited(FIRST + text.format(counted=counted, given=given))
        assert (rules(found), found.unclear) == (set() if right else {"arrival-count"}, ()), (counted, given)


HANDED = """
@%mine bra other;
st.shared.u32 [%smem+1024], %warp;
fence.proxy.async.shared::cta;
{lane}
@%p mbarrier.arrive{order}.shared::cta.b64 _, [%smem];
bra done;
other:
{wait}
elect.sync _|%p, 0xffffffff;
@%p cp.async.bulk.global.shared::cta.bulk_group [%out], [%smem+1024], 16;
@%p cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
done:
"""
LANE_33 = "mov.u32 %c, %tid.x;\nsetp.eq.u32 %p, %c, 33;"


def test_threads_that_arrive_relaxed_hand_nothing_over():
    """PTX 9.7.13.15.13: only a release makes what came before it known to who waits."""
    for order, fence, right in (("", "", 1), (".release.cta", "", 1), (".relaxed.cta", "", 0)):
        text = MADE + HANDED.format(order=order, lane=fence + LANE_33, wait=wait())
        assert (rules(audited(text)) == set()) == right, order
    relaxed = MADE + HANDED.format(order="", lane=LANE_33, wait=wait(order=".relaxed.cta"))
    assert rules(audited(relaxed)) != set(), "nor does a relaxed wait take anything"


def test_reads_of_others_are_not_forgotten_behind_a_store():
    """Warp 1 reads, nobody waits for it, warp 0 stores and copies over the bytes."""
    copy = COPY.format(lane="elect.sync _|%p, 0xffffffff;", said=64, size=64) + wait()
    text = """
    @%mine bra writes;
    ld.shared.u32 %a, [%smem+1024];
    {read}
    bra over;
    writes:
    {before}
    st.shared.u32 [%smem+1024], %warp;
    fence.proxy.async.shared::cta;
    {copy}
    over:
    """
    met = {"read": "fence.proxy.async.shared::cta;\nbar.arrive 1, 64;", "before": "bar.sync 1, 64;"}
    assert rules(audited(MADE + text.format(copy=copy, **met))) == set()
    assert rules(audited(MADE + text.format(copy=copy, read="", before=""))) == {"memory-reuse"}


TOLD = """
mov.u32 %a, %tid.x;
and.b32 %a, %a, 31;
mul.lo.u32 %a, %a, 2;
add.u32 %a, %a, 1;
shfl.sync.{mode}.b32 %b, %a, {by}, 31, 0xffffffff;
mov.u32 %c, %tid.x;
setp.eq.u32 %p, %c, {lane};
@%p mbarrier.init.shared::cta.b64 [%smem], %b;
@%p mbarrier.arrive.shared::cta.b64 _, [%smem], {given};
"""


@pytest.mark.parametrize(
    ("mode", "by", "lane", "number"),
    [
        ("idx", 5, 0, 11),
        ("idx", 5, 9, 11),
        ("idx", 37, 0, 11),
        ("bfly", 1, 0, 3),
        ("bfly", 16, 5, 43),
        ("bfly", 3, 2, 3),
    ],
)
def test_lanes_tell_each_other_numbers(mode, by, lane, number):
    """Lane n has 2 n + 1; a phase of as many arrivals is made, and one more is too many."""
    text = TOLD.format(mode=mode, by=by, lane=lane, given="{given}")
    assert rules(audited(text.format(given=number))) == set()
    assert rules(audited(text.format(given=number + 1))) == {"arrival-count"}


def test_each_demand_of_a_launch_is_a_place_that_was_looked_at():
    all_of_them = ".reqntid 64, 1, 1\n.explicitcluster\n.reqnctapercluster 1, 1, 1"
    for directives, count in (("", 3), (".reqntid 64, 1, 1", 4), (".maxntid 64, 1, 1", 4), (all_of_them, 5)):
        looked = {each.rule: (each.places, each.times) for each in audited("", directives=directives).looked}
        assert looked["launch-limits"] == (count, count)


PACKED = """
mov.u32 %a, {a};
mov.u32 %b, {b};
mov.b64 %wide, {{%a, %b}};
shr.u64 %wide, %wide, {shift};
mov.b64 {{%a, %b}}, %wide;
{lane}
@%p mbarrier.init.shared::cta.b64 [%smem], %{register};
@%p mbarrier.arrive.shared::cta.b64 _, [%smem], {given};
"""


@pytest.mark.parametrize(
    ("register", "shift", "number"), [("a", 0, 9), ("b", 0, 5), ("a", 32, 5), ("a", 34, 1), ("b", 1, 2)]
)
def test_registers_are_put_together_and_taken_apart(register, shift, number):
    """The first of a pair is the lower half."""
    for given, right in ((number, True), (number + 1, False)):
        text = PACKED.format(a=9, b=5, shift=shift, register=register, lane=chosen(0), given=given)
        assert rules(audited(text)) == (set() if right else {"arrival-count"})


def test_a_commit_to_nobody_knows_where_is_not_followed():
    commit = "@%p tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{at}];\n"
    known = audited(MADE + "mov.u32 %a, %smem;\n" + chosen(0) + commit.format(at="%a") + wait())
    assert (known.findings, known.unclear) == ((), ())
    lost = audited(MADE + "ld.global.u32 %a, [%out];\n" + chosen(0) + commit.format(at="%a"))
    assert [(each.reason, each.lost) for each in lost.unclear] == [("unknown mbarrier address", True)]


def test_lanes_wait_for_those_that_are_named_and_have_not_left():
    ways = chosen(5) + "@%p bra apart;\nbar.warp.sync {mask};\nbra over;\napart:\n{there}\nover:\n"
    one = {"mask": "0xffffffdf", "there": ""}
    assert rules(audited(ways.format(**one), block=(32, 1, 1))) == set()
    gone = {"mask": "0xffffffff", "there": "ret;"}
    assert rules(audited(ways.format(**gone), block=(32, 1, 1))) == set()
