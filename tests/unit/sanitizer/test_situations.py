"""What goes wrong with asynchronous work: each situation is found, and its repaired twin is clean.

Where a barrier is signalled more often than somebody waits for it, a launch may race or hang: it is the hang that is
found, as the warps that signal run first here.
"""

from __future__ import annotations

import pytest
from check_kernels import check
from situations import (
    FENCE,
    arrive,
    bulk,
    expect,
    fill,
    kernel,
    load,
    of,
    once,
    read,
    small,
    smalls,
    store,
    stored,
    wait,
)  # fmt: skip
from situations_cluster import CLUSTERS
from situations_tensor import TENSOR

from convc.ir.findings import Verdict
from convc.support.ptxas import assemble

SHARED, GLOBAL = "race-shared-memory", "race-global-memory"
RELAXED = "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%b];"

ADD = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%p_out], [%v], 128; cp.async.bulk.commit_group;"
SMALL = "cp.async.ca.shared.global [%w], [%g], 4;"
ARRIVE, SYNC = "bar.arrive 1, 64;", "bar.sync 1, 64;"

COPIES = (
    of("a tile is read before its copy is waited for", SHARED,
       kernel(load(0, 0) + read(0) + wait(0)), kernel(load(0, 0) + wait(0) + read(0))),
    of("a tile is read behind the wait for another tile", SHARED,
       kernel(load(0, 0) + load(1, 1) + wait(1) + read(0) + wait(0)),
       kernel(load(0, 0) + load(1, 1) + wait(1) + read(1) + wait(0))),
    of("copies by turns, one of which is not waited for", SHARED,
       kernel(load(0, 0) + load(1, 1) + wait(0) + read(0) + load(2, 2) + read(1) + wait(1) + wait(2)),
       kernel(load(0, 0) + load(1, 1) + wait(0) + read(0) + load(2, 2) + wait(1) + read(1) + wait(2))),
    of("two copies, and the bytes of one are announced", SHARED,
       kernel(expect(0) + bulk(0, 0) + bulk(1, 0) + wait(0) + read(0) + read(1)),
       kernel(expect(0, 256) + bulk(0, 0) + bulk(1, 0) + wait(0) + read(0) + read(1))),
    of("more bytes are announced than come", "hang",
       kernel(expect(0, 256) + bulk(0, 0) + wait(0)), kernel(load(0, 0) + wait(0))),
    of("fewer bytes are announced than come", "hang",
       kernel(expect(0, 64) + bulk(0, 0) + wait(0)), kernel(load(0, 0) + wait(0))),
    of("a tile is copied into while a warp reads it", SHARED,
       kernel(load(0, 0) + wait(0) + load(0, 1) + wait(1), wait(0) + read(0) + arrive(2)),
       kernel(load(0, 0) + wait(2) + load(0, 1) + wait(1), wait(0) + read(0) + FENCE + arrive(2))),
    of("a tile that is read is copied into without a proxy fence", "proxy-fence-missing",
       kernel(load(0, 0) + wait(2) + load(0, 1) + wait(1), wait(0) + read(0) + arrive(2)),
       kernel(load(0, 0) + wait(2) + load(0, 1) + wait(1), wait(0) + read(0) + FENCE + arrive(2))),
    of("the wait is for the phase before", "hang",
       kernel(load(0, 0) + wait(0, 1) + read(0) + wait(0)), kernel(load(0, 0) + wait(0, 0) + read(0))),
    of("a tile that is stored is overwritten", SHARED,
       kernel(fill(0) + FENCE + store(0) + fill(0) + stored(0)),
       kernel(fill(0) + FENCE + store(0) + stored(0, ".read") + fill(0) + stored(0))),
    of("of two stores the later one is not waited for", SHARED,
       kernel(fill(0) + fill(1) + FENCE + store(0) + store(1, 128) + stored(1) + fill(0) + fill(1) + stored(0)),
       kernel(fill(0) + fill(1) + FENCE + store(0) + store(1, 128) + stored(1) + fill(0) + stored(0) + fill(1))),
    of("a store without a proxy fence", SHARED,
       kernel(fill(0) + store(0) + stored(0)), kernel(fill(0) + FENCE + store(0) + stored(0))),
    of("a store is read back behind the reads of its source", GLOBAL,
       kernel(fill(0) + FENCE + store(0) + stored(0, ".read") + load(1, 0) + wait(0) + stored(0)),
       kernel(fill(0) + FENCE + store(0) + stored(0) + load(1, 0) + wait(0))),
    of("one of three small copies is not waited for", SHARED,
       kernel(small(0) + small(1) + smalls(2) + small(0) + smalls(0)),
       kernel(small(0) + small(1) + smalls(1) + small(0) + smalls(0))),
    of("small copies are read a group too early", SHARED,
       kernel(small(0) + small(1) + smalls(1) + read(1) + smalls(0)),
       kernel(small(0) + small(1) + smalls(1) + read(0) + smalls(0))),
    of("small copies of two warps, and one reads those of the other", SHARED,
       kernel(small(0) + smalls(0) + read(0), small(2) + smalls(0) + read(0)),
       kernel(small(0) + smalls(0) + read(0), small(2) + smalls(0) + read(2))),
    of("a warp says that its small copies are there while one group is not", SHARED,
       kernel(small(0) + small(1) + smalls(1) + arrive(0) + smalls(0), wait(0) + read(1)),
       kernel(small(0) + small(1) + smalls(1) + arrive(0) + smalls(0), wait(0) + read(0))),
    of("a warp says that its small copies are there and waits for none", SHARED,
       kernel(small(0) + arrive(0) + smalls(0), wait(0) + fill(0)),
       kernel(small(0) + smalls(0) + arrive(0), wait(0) + fill(0))),
    of("a tile that is added to global memory is overwritten", SHARED,
       kernel(fill(0) + FENCE + once(ADD) + fill(0) + stored(0)),
       kernel(fill(0) + FENCE + once(ADD) + stored(0) + fill(0))),
    of("lanes say that their small copies are there, and do not leave that to the copies", SHARED,
       kernel(SMALL + "mbarrier.arrive.shared::cta.b64 _, [%b];" + smalls(0), wait(0) + read(0), counts=(32,)),
       kernel(SMALL + "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%b];", wait(0) + read(0), counts=(32,))),
)  # fmt: skip
"""Bulk copies and copies by threads."""


def ring(turns: int, *, full: bool = True, empty: bool = True, phase: int = 0) -> str:
    """A warp fills two tiles by turns, another one reads them. Barriers 0, 1: full, 2, 3: empty."""
    fills = reads = ""
    for i in range(turns):
        tile, turn = i % 2, i // 2
        fills += (wait(2 + tile, 1 ^ turn & 1) if empty else "") + fill(tile) + arrive(tile)
        reads += (wait(tile, (turn & 1) ^ phase) if full else "") + read(tile) + arrive(2 + tile)
    return kernel(fills, reads)


def two_readers(*, first: bool = True, second: bool = True) -> str:
    """Two warps read a tile, and a third one, which waits for both, overwrites it."""
    writes = (wait(0) if first else "") + (wait(1) if second else "") + fill(0) + arrive(2)
    return kernel(read(0) + arrive(0), read(0) + arrive(1), writes, wait(2) + read(0), first=fill(0))


def two_and_two(missing: int = -1) -> str:
    """Two warps fill a tile each, two read both; then the tiles are filled anew. Barriers 0, 1: full, 2, 3: empty."""

    def after(number: int, text: str) -> str:
        return "" if number == missing else text

    fills = [fill(i) + arrive(i) + after(i, wait(2 + i)) + fill(i) + arrive(i) for i in (0, 1)]
    reads = [after(2 + i, wait(0)) + read(0) + arrive(2) + wait(1) + read(1) + arrive(3) for i in (0, 1)]
    return kernel(*fills, *reads, counts=(1, 1, 2, 2))


WARPS = (
    of("a warp loads what another stores, and does not wait", SHARED,
       kernel(fill(0) + arrive(0), read(0)), kernel(fill(0) + arrive(0), wait(0) + read(0))),
    of("a relaxed arrival without a fence", SHARED,
       kernel(fill(0) + once(RELAXED), wait(0) + read(0)),
       kernel(fill(0) + once("fence.acq_rel.cta;" + RELAXED), wait(0) + read(0))),
    of("a warp stores over what another loads, and does not wait", SHARED,
       kernel(read(0) + arrive(0), fill(0), first=fill(0)),
       kernel(read(0) + arrive(0), wait(0) + fill(0), first=fill(0))),
    of("of two readers the first is not waited for", SHARED, two_readers(first=False), two_readers()),
    of("of two readers the second is not waited for", SHARED, two_readers(second=False), two_readers()),
    of("two readers arrive at one barrier, which waits for one", "hang",
       kernel(read(0) + arrive(0), read(0) + arrive(0), wait(0) + fill(0), first=fill(0),
              counts=(1, 1, 1, 1)),
       kernel(read(0) + arrive(0), read(0) + arrive(0), wait(0) + fill(0), first=fill(0),
              counts=(2, 1, 1, 1))),
    of("a ring whose writer waits for no reader", "hang", ring(4, empty=False), ring(4)),
    of("a ring whose reader waits for no writer", "hang", ring(4, full=False), ring(4)),
    of("a ring whose reader waits for the phase before", "hang", ring(3, phase=1), ring(3)),
    of("a load stands behind the wait for another tile", SHARED,
       kernel(fill(0) + arrive(0) + fill(1) + arrive(1), wait(0) + read(1) + wait(1) + read(0)),
       kernel(fill(0) + arrive(0) + fill(1) + arrive(1), wait(0) + read(0) + wait(1) + read(1))),
    *(of(f"two writers and two readers, and wait {missing} is missing", rule, two_and_two(missing), two_and_two())
      for missing, rule in enumerate(("hang", "hang", SHARED, SHARED))),
    of("tiles that overlap are written and read", SHARED,
       kernel(once("st.shared.v2.u32 [%v], {%lane, %lane};"), "ld.shared.u32 %x1, [%v+4];", first=fill(0)),
       kernel(once("st.shared.u32 [%v], %lane;"), "ld.shared.u32 %x1, [%v+4];", first=fill(0))),
)  # fmt: skip
"""Warps with roles of their own."""

BARRIERS = (
    of("a warp reads before its barrier with the writer", SHARED,
       kernel(fill(0) + ARRIVE, read(0) + SYNC), kernel(fill(0) + ARRIVE, SYNC + read(0))),
    of("a warp arrives at its barrier with the reader before it writes", SHARED,
       kernel(ARRIVE + fill(0), SYNC + read(0)), kernel(fill(0) + ARRIVE, SYNC + read(0))),
    of("a reader waits at another barrier", "hang",
       kernel(fill(0) + ARRIVE, SYNC.replace("1,", "2,") + read(0)), kernel(fill(0) + ARRIVE, SYNC + read(0))),
    of("two warps wait for each other", "hang",
       kernel(wait(0) + arrive(1), wait(1) + arrive(0)), kernel(arrive(1) + wait(0), arrive(0) + wait(1))),
    of("an arrival too many, so that the phase is over twice", "hang",
       kernel(arrive(0) + arrive(0) + wait(0)), kernel(arrive(0) + arrive(0) + wait(0, 1))),
    of("an arrival too few in two warps", "hang",
       kernel(arrive(1) + wait(0), arrive(0) + wait(1), counts=(2, 2)),
       kernel(arrive(1) + wait(0), arrive(0) + wait(1), counts=(1, 1))),
    of("waits for different phases of one barrier, one of which never ends", "hang",
       kernel(wait(0), wait(0, 1), first=arrive(0)), kernel(wait(0) + arrive(0), wait(0, 1), first=arrive(0))),
    of("one arrival counts for more than the phase waits for", "fault",
       kernel(arrive(0, 2) + wait(0)), kernel(arrive(0, 2) + wait(0), counts=(2,))),
    of("a barrier is made twice", "mbarrier-init-again",
       kernel(once("mbarrier.init.shared::cta.b64 [%b], 2;") + arrive(0, 2) + wait(0)),
       kernel(once("mbarrier.inval.shared::cta.b64 [%b]; mbarrier.init.shared::cta.b64 [%b], 2;") + arrive(0, 2)
              + wait(0))),
    *(of(f"{what} at a barrier that nobody made", "fault",
         kernel(use, counts=(0, 1)), kernel(*more)) for what, use, more in (
        ("a wait", wait(0), (arrive(0) + wait(0),)),
        ("an arrival", arrive(0), (arrive(0),)),
        ("announced bytes", expect(0), (load(0, 0) + wait(0),)),
        ("an end", once("mbarrier.inval.shared::cta.b64 [%b];"), (once("mbarrier.inval.shared::cta.b64 [%b];"),)),
    )),
    *(of(f"{what} at a barrier that was ended", "fault",
         kernel(once("mbarrier.inval.shared::cta.b64 [%b];") + use),
         kernel(more + once("mbarrier.inval.shared::cta.b64 [%b];"))) for what, use, more in (
        ("a wait", wait(0), arrive(0) + wait(0)),
        ("an arrival", arrive(0), arrive(0)),
        ("announced bytes", expect(0), load(0, 0) + wait(0)),
    )),
    of("a barrier is ended while a warp may still wait for it", "fault",
       kernel(arrive(0) + wait(0) + once("mbarrier.inval.shared::cta.b64 [%b];"), wait(0)),
       kernel(arrive(0), wait(0), last=once("mbarrier.inval.shared::cta.b64 [%b];"))),
    of("a store over a barrier that is alive", "mbarrier-touched",
       kernel(once("st.shared.u32 [%b], 0;") + arrive(1)), kernel(once("st.shared.u32 [%b+32], 0;") + arrive(1))),
)  # fmt: skip
"""Barriers alone."""

GROUPS = {"copies": COPIES, "warps": WARPS, "barriers": BARRIERS, "tensor": TENSOR, "clusters": CLUSTERS}


@pytest.mark.parametrize("group", GROUPS)
def test_each_is_found_and_told_and_its_twin_is_clean(group, golden):
    """By its rule; who did what where, and how often, is what was read once."""
    said: list[str] = []
    for situation in GROUPS[group]:
        wrong = check(situation.wrong, **situation.launch)
        assert situation.rule in {finding.rule for finding in wrong.findings}, situation.name
        assert wrong.verdict >= Verdict.review, situation.name
        right = check(situation.right, **situation.launch)
        assert right.verdict is Verdict.clean, (situation.name, [str(finding) for finding in right.findings])
        said += [f"# {situation.name}", *map(str, wrong.findings), ""]
    golden("situations", {f"{group}.txt": "\n".join(said)})


@pytest.mark.slow
def test_ptxas_takes_them_all():
    every = [situation for group in GROUPS.values() for situation in group]
    for text in {text for situation in every for text in (situation.wrong, situation.right)}:
        assemble(text, "sm_90a" if ".target sm_90a" in text else "sm_100a")
