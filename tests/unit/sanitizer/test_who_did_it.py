"""Who is named: the lane that asked for a copy, and the file of the text, whatever was found."""

from __future__ import annotations

import numpy as np
import pytest
from check_kernels import check, only_error
from situations import FENCE, arrive, expect, fill, kernel, load, once, read, store, wait

from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.sanitizer.run import check_kernel
from convc.sanitizer.shadow import AccessSet
from convc.sanitizer.sites import region_of


def by(lane: int, text: str) -> str:
    """What `once` makes of lane 0, of another lane."""
    return text.replace("setp.ne.u32 %q, %lane, 0;", f"setp.ne.u32 %q, %lane, {lane};")


STORE = "st.global.u32 [%p_out], %lane;"


@pytest.mark.parametrize("lane", [0, 1, 31])
def test_the_lane_whose_copy_has_read_global_memory_is_named(lane):
    """The store comes behind the copy's beginning, not its end; what copies read is noted when it comes."""
    copies = by(lane, load(0, 0)) + "bar.arrive 1, 64;" + wait(0) + read(0)
    found = only_error(check(kernel(copies, "bar.sync 1, 64;" + once(STORE)), threads=64))
    assert found.rule == "race-global-memory"
    assert (found.warp, found.lanes) == (1, (0,))
    assert found.other is not None
    assert (found.other.warp, found.other.lanes) == (0, (lane,))


@pytest.mark.parametrize("lane", [0, 1, 31])
def test_the_lane_whose_copy_reads_what_was_stored_is_named(lane):
    found = only_error(check(kernel(by(lane, load(0, 0)) + wait(0) + read(0), once(STORE)), threads=64))
    assert found.rule == "race-global-memory"
    assert (found.warp, found.lanes) == (0, (lane,))


@pytest.mark.parametrize("lane", [0, 7])
def test_the_lane_whose_copy_writes_global_memory_is_named(lane):
    text = kernel(fill(0) + FENCE + by(lane, store(0)) + by(lane, once("cp.async.bulk.wait_group 0;")), once(STORE))
    found = only_error(check(text, threads=64))
    assert found.rule == "race-global-memory"
    who = {(found.warp, found.lanes), (found.other.warp, found.other.lanes)}
    assert who == {(0, (lane,)), (1, (0,))}


WRONG = {
    "a race": kernel(fill(0), fill(0)),
    "a hang": kernel(expect(0, 256) + wait(0)),
    "a fault": kernel(arrive(0, 2) + wait(0)),
    "an address": kernel(once("st.global.u32 [%p_out+4096], %lane;")),
    "a barrier nobody made": kernel(wait(0), counts=(0, 1)),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_file_of_the_text_is_named(what):
    launch = LaunchSpec(
        entry="k",
        grid=(1, 1, 1),
        block=(64 if what == "a race" else 32, 1, 1),
        buffers={"out": BufferSpec(dtype="u32", shape=(1024,))},
        params=(PointerParam(buffer="out"),),
    )
    found = check_kernel(WRONG[what], launch, {"out": np.zeros(1024, np.uint32)}, file="mine.ptx")
    assert found.findings
    for finding in found.findings:
        assert finding.file == "mine.ptx"
        assert "kernel.ptx" not in str(finding)
        assert finding.other is None or finding.other.file in ("", "mine.ptx")


@pytest.mark.parametrize(("pieces", "listed"), [(1, 1), (32, 32), (33, 1), (40, 1)])
def test_at_most_32_pieces_of_memory_are_listed(pieces, listed):
    """Of more there is one piece, from the first byte to the last."""
    words = 16 * np.arange(pieces)[None, :] + 64
    accessed = AccessSet("global", "out", np.array([0]), words, words[0], np.array([0]))
    region = region_of(accessed, np.ones((1, pieces), bool), 4, {})
    assert (region.space, region.buffer, len(region.runs)) == ("global", "out", listed)
    assert (region.runs[0][0], region.runs[-1][1]) == (64, 64 + 16 * (pieces - 1) + 3)
