"""Tiles that several threads copy to a tensor in one instruction: as one copy where nobody can tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from support.both_ways import Outcome, outcome, same
from support.kernels import execute, module

from convc.errors import MachineFault
from convc.ir.tensormap import TensorMap
from convc.machine import RunOptions, RunResult
from convc.machine.base.switches import Switches
from convc.machine.isa.copies import tensor_stores
from convc.machine.state.observed import ObservedStrand
from convc.machine.state.observer import GlobalRange, Observer, Transfer
from convc.machine.tma import store as tma_store
from convc.ptx import Instr
from convc.sanitizer.run import ObserverList

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


def work(source: str, tmap: TensorMap, options: RunOptions, observer: Observer | None = None) -> RunResult:
    buffers = {"out": np.zeros(32 * 40, np.uint32)}
    launch: dict[str, Any] = {"grid": (2, 1, 1), "block": (32, 1, 1), "maps": (tmap,), "pointers": ("out",)}
    return execute(source, buffers, **launch, options=options, observer=observer)


def both(source: str, tmap: TensorMap, switches: Switches) -> list[Outcome]:
    return [outcome(lambda options: work(source, tmap, options), way, switches) for way in ("eager", "lazy")]


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


def test_tiles_that_were_never_written_are_reported_one_by_one():
    eager, lazy = both(text(APART, words=96), TILE, Switches())
    same(eager, lazy)
    assert isinstance(lazy, RunResult)
    assert [finding.rule for finding in lazy.findings] == ["shared-memory-unwritten"]


# ---- deferred, and watched ------------------------------------------------------------------------------------------

SEVERAL_GROUPS = """
setp.eq.u32 %odd, %t, 1;
@%some cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m_tile, {0, %first}], [%at];
@%odd cp.async.bulk.commit_group;
xor.b32 %first, %first, 8;
@%some cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m_tile, {0, %first}], [%at];
@%some cp.async.bulk.commit_group;
@%some cp.async.bulk.wait_group 1;
@%some cp.async.bulk.wait_group 0;
"""
"""Two tiles of each lane: of lane 1 in a group each, so that it waits for one of them while others wait for none."""


def several(first: str) -> str:
    source = text(first).replace("%some;", "%some, %odd;", 1)
    start = source.index("@%some cp.async.bulk.tensor")
    end = source.index("@%some cp.async.bulk.wait_group 0;")
    return source[:start] + SEVERAL_GROUPS + source[end:].partition("\n")[2]


POLICIES = [("late", 0), *(("seeded", seed) for seed in range(4))]


@pytest.mark.parametrize("make", [text, several], ids=["one", "several"])
@pytest.mark.parametrize("first", [APART, "mov.u32 %first, 3;", "mul.lo.u32 %first, %t, 4;"])
def test_tiles_that_are_deferred_are_what_they_are_one_by_one(monkeypatch, make, first):
    """Bytes, counters and findings; at one place the last to be performed stays, which is the same one, too."""
    joint = tensor_stores._together
    done: list[bool] = []

    def together(*args):
        done.append(joint(*args))
        return done[-1]

    for policy, seed in POLICIES:
        options = RunOptions(policy=policy, seed=seed)
        monkeypatch.setattr(tensor_stores, "_together", together)
        joined = work(make(first), TILE, options)
        monkeypatch.setattr(tensor_stores, "_together", lambda *_: False)
        same(work(make(first), TILE, options), joined)
    assert True in done


@pytest.mark.parametrize("policy", ["eager", "late", "seeded"])
def test_a_fault_of_a_tile_names_its_instruction(policy):
    """The fourth of them starts outside of the tensor, which is seen when it is performed."""
    with pytest.raises(MachineFault, match="negative coordinate, -1") as caught:
        work(text("sub.u32 %first, 2, %t;"), TILE, RunOptions(policy=policy))
    assert caught.value.span is not None
    assert "cp.async.bulk.tensor" in caught.value.span.text


Seen = list[tuple[tuple[int, int], list[int], str, list[list[tuple[list[int], int]]]]]
"""Of each copy: thread, CTAs, bytes that it reads, and of each CTA where lines begin that it writes, and their size."""


class OneByOne(Observer):
    """Hears of copies, and has nothing to say of several."""

    def __init__(self) -> None:
        self.seen: Seen = []

    def copy(self, strand: ObservedStrand, instr: Instr, transfer: Transfer) -> None:
        assert transfer.memory is not None
        rows = transfer.rows.tolist()
        lines = [transfer.memory.lines(np.array([position])) for position in range(len(rows))]
        told = [[(own.ravel().tolist(), size) for _, own, size in found] for found in lines]
        self.seen.append((transfer.thread, rows, str(transfer.reads.tolist()), told))


class AllAtOnce(OneByOne):
    """Hears of several copies at once."""

    def __init__(self) -> None:
        super().__init__()
        self.several: list[int] = []

    def copies(self, strand: ObservedStrand, instr: Instr, transfers: Sequence[Transfer], memory: GlobalRange) -> None:
        self.several.append(len(transfers))
        found = memory.lines(np.arange(sum(len(transfer.rows) for transfer in transfers)))
        super().copies(strand, instr, transfers, memory)
        told = [starts for _, _, _, lines in self.seen[-len(transfers) :] for of in lines for starts, _ in of]
        assert sorted(own.tolist() for _, starts, _ in found for own in starts) == sorted(told)


@pytest.mark.parametrize("policy", ["eager", "late"])
@pytest.mark.parametrize(
    ("first", "at"),
    [
        (APART, "0"),
        ("mul.lo.u32 %first, %t, 4;", "0"),
        ("mul.lo.u32 %first, %t, 8;", "%first"),  # three of them beside the tensor: they reach no line at all
    ],
)
def test_observers_are_told_of_each_tile(monkeypatch, policy, first, at):
    """Who has no word for several copies hears of them one by one, also where another observer has."""
    options = RunOptions(policy=policy)
    source = text(first).replace("{0, %first}", f"{{{at}, %first}}")
    plain = OneByOne()
    one = OneByOne()
    all_of_them = AllAtOnce()
    work(source, TILE, options, plain)
    work(source, TILE, options, ObserverList([one, all_of_them, Observer()]))
    monkeypatch.setattr(tensor_stores, "_together", lambda *_: False)
    alone = OneByOne()
    work(source, TILE, options, alone)
    assert alone.seen
    assert plain.seen == one.seen == all_of_them.seen == alone.seen
    assert all_of_them.several == [4]
