"""Bulk copies by many threads and CTAs at once, bulk groups, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from recordings.program_text import DRAIN, FIRST, entry, fetch
from tma_programs import execute_program

from convc.errors import MachineFault
from convc.ir.findings import Verdict
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.machine import writer_of
from convc.machine.base.cluster_ranks import RANK_SHIFT, place
from convc.machine.base.findings import Who
from convc.machine.isa.copies.issue import CopyTarget, complete, copy_target, own_target
from convc.machine.memory.bulk_groups import BulkGroups
from convc.machine.memory.mbarrier import MBarrier
from convc.machine.tma.reduce import reduce_into, reduction

SHARED = 1024 + 4096
BULK = "cp.async.bulk.global.shared::cta.bulk_group"


def program(body: str, **fields) -> dict:
    text = entry(body, 0, ("src", "out"))
    base = {"text": text, "maps": [], "numbers": [], "grid": [1, 1, 1], "cluster": [1, 1, 1], "block": [32, 1, 1]}
    return base | {"shared": (96 << 10) + 64} | fields


def noise(size: int) -> np.ndarray:
    return np.random.default_rng(4).integers(0, 256, size, dtype=np.uint8)


def fill(size: int) -> str:
    return "setp.ne.u32 %p, %t, 0; @%p bra FULL;\n" + fetch("%s", "%p_src", str(size)) + "FULL: bar.sync 0;\n"


def test_every_lane_stores_its_own_16_bytes_of_every_cta():
    body = (
        fill(512) + ".reg .b32 %cta; mov.u32 %cta, %ctaid.x; mul.lo.u32 %x, %t, 16; add.u32 %y, %s, %x;\n"
        "mad.lo.u32 %x, %cta, 512, %x; cvt.u64.u32 %d, %x; add.u64 %d, %d, %p_out;\n"
        + f"{BULK} [%d], [%y], 16;\n"
        + DRAIN
    )
    src = noise(512)
    result = execute_program(program(body, grid=[5, 1, 1]), {"src": src, "out": np.zeros(5 * 512, np.uint8)})
    assert np.array_equal(result.buffers["out"].reshape(5, 512), np.tile(src, (5, 1)))
    assert result.findings == ()


def test_lanes_and_ctas_that_are_masked_off_do_nothing():
    """CTA 1 and odd lanes are predicated off by an instruction guard."""
    body = (
        fill(512) + ".reg .b32 %cta; mov.u32 %cta, %ctaid.x; mul.lo.u32 %x, %t, 16; add.u32 %y, %s, %x;\n"
        "mad.lo.u32 %x, %cta, 512, %x; cvt.u64.u32 %d, %x; add.u64 %d, %d, %p_out;\n"
        "and.b32 %x, %t, 1; shl.b32 %cta, %cta, 31; or.b32 %x, %x, %cta; setp.eq.u32 %p, %x, 0;\n"
        f"@%p {BULK} [%d], [%y], 16;\n" + DRAIN
    )
    src = noise(512)
    result = execute_program(program(body, grid=[2, 1, 1]), {"src": src, "out": np.zeros(1024, np.uint8)})
    got = result.buffers["out"].reshape(2, 32, 16)
    assert np.array_equal(got[0, ::2], src.reshape(32, 16)[::2])
    assert not got[0, 1::2].any()
    assert not got[1].any()


def test_ctas_may_copy_different_sizes_to_different_places():
    body = (
        ".reg .b32 %cta, %n; mov.u32 %cta, %ctaid.x; mad.lo.u32 %n, %cta, 16, 16; mad.lo.u32 %y, %cta, 128, %s;\n"
        + FIRST
        + fetch("%y", "%p_src", "%n")
        + "mul.wide.u32 %d, %cta, 64; add.u64 %d, %d, %p_out;\n"
        f"{BULK} [%d], [%y], %n;\n" + DRAIN + "END:"
    )
    src = noise(64)
    result = execute_program(program(body, grid=[3, 1, 1]), {"src": src, "out": np.zeros(192, np.uint8)})
    got = result.buffers["out"].reshape(3, 64)
    for cta in range(3):
        count = 16 * cta + 16
        assert np.array_equal(got[cta, :count], src[:count])
        assert not got[cta, count:].any()


def test_all_ctas_add_to_one_place():
    body = (
        FIRST
        + fetch("%s", "%p_src", "64")
        + ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%p_out], [%s], 64;\n" + DRAIN + "END:")
    )
    src = np.arange(16, dtype=np.uint32)
    result = execute_program(program(body, grid=[7, 1, 1]), {"src": src.view(np.uint8), "out": np.zeros(64, np.uint8)})
    assert np.array_equal(result.buffers["out"].view(np.uint32), 7 * src)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"{BULK} [%p_out+448], [%s], 128;", "128 bytes at offset 448 of buffer 'out', which has 512 bytes"),
        (f"{BULK} [%p_out+1099511627776], [%s+8192], 128;", "global address 0x30000000000 is in no buffer"),
        (f"add.u32 %x, %s, {1 << 17};\n{BULK} [%p_out], [%x], 128;", "but the CTA has 0x18440 bytes"),
        (f"add.u32 %x, %s, {1 << 24};\n{BULK} [%p_out], [%x], 128;", "is not an address in shared memory"),
        ("mov.u32 %x, 12;\ncp.async.ca.shared.global [%s], [%p_src], 8, %x;", "src-size must be at most 8, got 12"),
        ("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%s], 5;", r"\.rank must be in 0\.\.4, got 5"),
    ],
)
def test_faults(body, message):
    text = fill(512) + FIRST + _zero(body) + body + "\nEND:"
    with pytest.raises(MachineFault, match=message):
        execute_program(program(text), {"src": noise(512), "out": np.zeros(512, np.uint8)})


def _zero(body: str) -> str:
    return "".join(f"st.shared.b64 [%s+{8 * i}], 0;\n" for i in range(16)) if "tensormap" in body else ""


def test_reading_shared_memory_that_nobody_wrote_is_a_finding():
    body = FIRST + f"{BULK} [%p_out], [%s], 128;\n" + DRAIN + "END:"
    result = execute_program(program(body), {"src": noise(512), "out": np.zeros(512, np.uint8)})
    (finding,) = result.findings
    assert finding.message == "an asynchronous copy reads 128 bytes of shared memory that were never written"


def test_writer_of_a_byte_that_a_bulk_copy_wrote():
    body = FIRST + fetch("%s", "%p_src", "512") + f"{BULK} [%p_out+16], [%s], 64;\n" + DRAIN + "END:"
    text = entry(body, 0, ("src", "out"))
    launch = LaunchSpec(
        entry="k",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        shared_bytes=(96 << 10) + 64,
        buffers={name: BufferSpec(dtype="u8", shape=(512,)) for name in ("src", "out")},
        params=(PointerParam(buffer="src"), PointerParam(buffer="out")),
    )
    found = writer_of(text, launch, {"src": noise(512)}, "out", 79)
    assert (found.cta, found.warp, found.lanes) == (0, 0, (0,))
    assert BULK in text.splitlines()[found.line - 1]
    assert writer_of(text, launch, {"src": noise(512)}, "out", 80) is None


# --- bulk groups -----------------------------------------------------------------------------------------------------


def leftovers(act) -> list[tuple]:
    groups = BulkGroups(2)
    groups.issue((4, 0), None, None)
    act(groups)
    found = []
    groups.report_leftovers(SimpleNamespace(report=lambda *arguments: found.append(arguments)))
    return [(rule, text, verdict, who) for rule, text, _, verdict, who in found]


def test_a_copy_never_committed_is_an_error():
    ((rule, text, verdict, who),) = leftovers(lambda groups: None)
    assert (rule, verdict) == ("bulk-group-uncommitted", Verdict.error)
    assert text == "a thread exited without cp.async.bulk.commit_group for its bulk copies"
    assert who == Who(row=0, warp=4, lanes=(0,))


def test_a_group_never_waited_for_is_worth_a_look():
    def act(groups):
        groups.commit((4, 0), None)
        groups.wait((4, 0), np.array([0]), 0)

    ((rule, text, verdict, who),) = leftovers(act)
    assert (rule, verdict) == ("bulk-group-unwaited", Verdict.review)
    assert text.startswith("a thread exited without cp.async.bulk.wait_group")
    assert who == Who(row=1, warp=4, lanes=(0,))


def test_waiting_for_all_but_one_leaves_one():
    def act(groups):
        groups.commit((4, 0), None)
        groups.issue((4, 0), None, None)
        groups.commit((4, 0), None)
        groups.wait((4, 0), None, 1)

    assert len(leftovers(act)) == 1
    assert leftovers(lambda groups: (act(groups), groups.wait((4, 0), None, 0))) == []


def test_an_empty_group_is_complete():
    assert len(leftovers(lambda groups: groups.commit((4, 0), None))) == 1
    assert (
        leftovers(
            lambda groups: [
                act((4, 0), None, *n)
                for act, n in (
                    (groups.commit, ()),
                    (groups.wait, (0,)),
                    (groups.commit, ()),
                )
            ]
        )
        == []
    )


# --- where copies go -------------------------------------------------------------------------------------------------


def cohort(clusters: int, size: int) -> SimpleNamespace:
    where = place((clusters * size, 1, 1), (size, 1, 1), 0, clusters * size)
    return SimpleNamespace(ctas=clusters * size, cluster_size=size, place=where)


def at(rank: int, address: int = 256) -> int:
    """The shared::cluster address of a CTA."""
    return address + (rank << RANK_SHIFT)


def test_local_addresses_stay_in_the_cta():
    assert copy_target(cohort(4, 1), None, 256, 8) == CopyTarget(256, 8, None, 1, None)
    assert own_target(cohort(2, 2), np.array([1, 3]), at(1), at(1, 8)).address == 256
    with pytest.raises(MachineFault, match="an address in CTA 1 of the cluster"):
        own_target(cohort(2, 2), np.array([0, 2]), at(1), 8)


def test_a_cluster_address_names_a_cta_of_each_cluster():
    found = copy_target(cohort(2, 2), np.array([0, 2]), at(1), at(1, 8))
    assert (found.rows.tolist(), found.signals.tolist()) == ([1, 3], [1, 3])


def test_multicast_reaches_the_masked_ctas_of_each_cluster():
    found = copy_target(cohort(2, 4), np.array([1, 4]), 256, 8, 0b1010)
    assert (found.rows.tolist(), found.repeat) == ([1, 3, 5, 7], 2)
    assert found.spread(np.array([10, 20])).tolist() == [10, 10, 20, 20]
    assert copy_target(cohort(2, 2), np.array([0, 2]), 256, 8, 0b11).rows is None


def test_a_pair_may_signal_either_of_its_ctas():
    four = cohort(1, 4)
    assert copy_target(four, np.array([3]), at(3), at(2, 8), None, True).signals.tolist() == [2]
    assert copy_target(four, np.array([0]), 256, at(1, 8), 0b1111, True).signals.tolist() == [1, 1, 3, 3]
    with pytest.raises(MachineFault, match=r"in CTA 0 of the cluster and its destination in CTA 3; .* in its pair"):
        copy_target(four, np.array([3]), at(3), at(0, 8), None, True)
    with pytest.raises(MachineFault, match="they must be in the same CTA"):
        copy_target(four, np.array([3]), at(3), at(2, 8))
    with pytest.raises(MachineFault, match="is in no CTA of the cluster of size 4"):
        copy_target(four, np.array([3]), at(4), at(4, 8))


def test_a_barrier_counts_every_destination_that_signals_it():
    four = cohort(1, 4)
    barrier = MBarrier(8, 1)
    four.barrier = lambda address, name, ctas: barrier
    complete(four, CopyTarget(256, 8, None, 4, np.array([1, 1, 3, 3])), 100, "copy")
    assert barrier.tx.tolist() == [0, -200, 0, -200]


# --- arithmetic ------------------------------------------------------------------------------------------------------


def test_an_index_that_comes_twice_is_combined_twice():
    kind, combine = reduction("inc", "u32")
    target = np.array([0, 5, 9], kind)
    reduce_into(target, np.array([0, 1, 0, 0]), np.array([1, 9, 1, 7], kind), combine, True)
    assert target.tolist() == [1, 6, 9]


@pytest.mark.parametrize(
    ("operation", "old", "limit", "new"),
    [
        ("inc", 4, 5, 5), ("inc", 5, 5, 0), ("inc", 6, 5, 0),
        ("dec", 5, 5, 4), ("dec", 6, 5, 5), ("dec", 0, 5, 5), ("dec", 1, 5, 0),
    ],
)  # fmt: skip
def test_counting_wraps_at_the_limit(operation, old, limit, new):
    kind, combine = reduction(operation, "u32")
    assert combine(np.array([old], kind), np.array([limit], kind)).tolist() == [new]


def test_reductions_that_do_not_exist_say_what_does():
    with pytest.raises(MachineFault, match=r"no asynchronous reduction \.min of f32 elements") as caught:
        reduction("min", "f32")
    assert caught.value.hint == ".min takes u32, s32, u64, s64, f16, bf16"
