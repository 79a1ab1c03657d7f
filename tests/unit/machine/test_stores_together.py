"""Tiles that several threads copy to a tensor in one instruction: as one copy where nobody can tell."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from support.both_ways import Outcome, outcome, same
from support.kernels import execute, module

from convc.ir.tensormap import TensorMap
from convc.machine import RunOptions, RunResult
from convc.machine.base.switches import Switches
from convc.machine.isa.copies import tensor_stores
from convc.machine.tma import store as tma_store

TILE = TensorMap(
    mode="tile", buffer="out", dtype="u32", dims=(8, 40), strides=(32,), element_strides=(1, 1), box=(8, 8),
    swizzle="none",
)  # fmt: skip
"""8 rows of eight words."""

BODY = """
.shared .align 1024 .b8 s[8192];
.reg .b32 %q, %t, %c, %n, %at, %first; .reg .pred %some;
mov.u32 %q, s; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x;
mad.lo.u32 %n, %c, 1000, %t; mad.lo.u32 %at, %t, 4, %q;
FILL
st.shared.b32 [%at+NUMBER], %n; add.u32 %n, %n, 32;
setp.lt.u32 %some, %t, 4;
mad.lo.u32 %at, %t, 256, %q;
FIRST
@%some cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m_tile, {0, %first}], [%at];
@%some cp.async.bulk.commit_group;
@%some cp.async.bulk.wait_group 0;
"""
APART = "mad.lo.u32 %first, %c, 2, %t; mul.lo.u32 %first, %first, 8;"


def text(first: str, words: int = 256) -> str:
    """Lanes 0 to 3 copy a tile each, from the row that ``first`` computes on; ``words`` of 256 are written."""
    line = "st.shared.b32 [%at+NUMBER], %n; add.u32 %n, %n, 32;\n"
    filled = BODY.replace("FILL\n" + line, "".join(line.replace("NUMBER", str(4 * n)) for n in range(0, words, 32)))
    return module(filled.replace("FIRST", first), pointers=("out",), maps=("tile",))


def both(source: str, tmap: TensorMap, switches: Switches, policy: str = "eager") -> list[Outcome]:
    def work(options: RunOptions) -> RunResult:
        buffers = {"out": np.zeros(32 * 40, np.uint32)}
        return execute(
            source, buffers, grid=(2, 1, 1), block=(32, 1, 1), maps=(tmap,), pointers=("out",), options=options
        )

    return [outcome(work, way, switches, policy) for way in ("eager", "lazy")]


@pytest.mark.parametrize("kept", ["lowest", "highest"])
@pytest.mark.parametrize(
    ("first", "changes", "stores"),
    [
        (APART, {}, 1),  # each of six tiles, and two that are outside of the tensor
        ("mov.u32 %first, 3;", {}, 1),  # all in one place
        ("mul.lo.u32 %first, %t, 4;", {}, 1),  # over half of the one before
        ("add.u32 %at, %at, %t;", {}, 0),  # misaligned
        ("sub.u32 %first, 2, %t;", {}, 0),  # the last of them starts outside
        (APART, {"swizzle": "32B"}, 1),
        (APART, {"swizzle": "64B", "dims": (16, 40), "strides": (64,), "box": (16, 4)}, 1),
        (APART, {"swizzle": "128B", "dims": (30, 40), "strides": (128,), "box": (32, 1)}, 1),  # and each another way
        (APART, {"strides": (16,)}, 0),  # rows that overlap
        ("mad.lo.u32 %at, %t, 7936, %q;", {}, 0),  # some leave shared memory
    ],
)
def test_tiles_of_several_threads_are_what_they_are_one_by_one(monkeypatch, kept, first, changes, stores):
    together: list[int] = []
    joint = tma_store.aim_of

    def aim(tensor, smem, address, *rest, **options):
        together.append(not isinstance(address, int))
        return joint(tensor, smem, address, *rest, **options)

    monkeypatch.setattr(tma_store, "aim_of", aim)
    eager, lazy = both(text(first), msgspec.structs.replace(TILE, **changes), Switches(colliding_stores=kept))
    same(eager, lazy)
    if stores:
        assert isinstance(lazy, RunResult)
        assert np.count_nonzero(lazy.buffers["out"])
        assert sum(together) == stores


AGAIN = """
@%some cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m_tile, {0, %first}], [%at];
@%some cp.async.bulk.commit_group;
"""
WAITS = {
    "all at once": "@%some cp.async.bulk.wait_group 0;",
    "two groups, one after the other": AGAIN + "@%some cp.async.bulk.wait_group 1;\n@%some cp.async.bulk.wait_group 0;",
    "two groups, at once": AGAIN + "@%some cp.async.bulk.wait_group 0;",
    "some lanes before others": AGAIN
    + """setp.lt.u32 %half, %t, 2;
@%half cp.async.bulk.wait_group 0;
@%some cp.async.bulk.wait_group 1;""",
    "nobody waits": "",
}


@pytest.mark.parametrize("first", [APART, "mov.u32 %first, 3;", "add.u32 %at, %at, %t;"], ids=["apart", "over", "odd"])
@pytest.mark.parametrize("waits", WAITS)
@pytest.mark.parametrize("policy", ["late", "seeded"])
def test_tiles_that_are_put_off_are_what_they_are_one_by_one(monkeypatch, policy, waits, first):
    together: list[int] = []
    joint = tensor_stores._together

    def put(strand, instr, groups, coords, mode):
        together.append(len(groups) if joint(strand, instr, groups, coords, mode) else 0)
        return bool(together[-1])

    monkeypatch.setattr(tensor_stores, "_together", put)
    source = (
        text(first).replace("@%some cp.async.bulk.wait_group 0;", WAITS[waits]).replace("%some;", "%some, %half;", 1)
    )
    eager, lazy = both(source, TILE, Switches(), policy)
    same(eager, lazy)
    if first == APART and policy == "late" and waits in ("all at once", "some lanes before others"):
        assert max(together) >= 2


def test_tiles_that_were_never_written_are_reported_one_by_one():
    eager, lazy = both(text(APART, words=96), TILE, Switches())
    same(eager, lazy)
    assert isinstance(lazy, RunResult)
    assert [finding.rule for finding in lazy.findings] == ["shared-memory-unwritten"]
