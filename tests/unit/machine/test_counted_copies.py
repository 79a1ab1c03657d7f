"""What the simulator counts of copies, compared with what a hand counts, under every completion policy."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from recordings.program_text import DRAIN, FIRST, INIT, WAIT, entry, fetch
from tma_programs import execute_program

from convc.ir.tensormap import TensorMap
from convc.machine import Counters, RunOptions
from convc.machine.state.counters import Copies

pytestmark = pytest.mark.parametrize("policy", ["eager", "late", "seeded"])
CTA = ".reg .b32 %cta, %row; mov.u32 %cta, %ctaid.x;\n"
LINES = TensorMap(
    mode="tile", buffer="src", dtype="f32", dims=(6, 5), strides=(32,), box=(8, 4), element_strides=(1, 1)
)
"""Five lines of 24 bytes, 32 apart; a copy takes four lines of 32 bytes, the last 8 of which are outside."""


def count(body: str, policy: str, ctas: int, cluster: int = 1, maps: tuple[TensorMap, ...] = ()) -> Counters:
    program = {
        "text": entry(body, len(maps), ("src", "out")).replace("sm_90a", "sm_100a"),
        "numbers": [],
        "maps": [msgspec.structs.asdict(m) for m in maps],
        "grid": [ctas, 1, 1],
        "cluster": [cluster, 1, 1],
        "block": [32, 1, 1],
        "shared": (96 << 10) + 64,
    }
    buffers = {"src": np.arange(1024, dtype=np.uint8), "out": np.zeros(1024, np.uint8)}
    result = execute_program(program, buffers, options=RunOptions(policy=policy))
    assert result.findings == ()
    return result.counters


LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
MEET = "barrier.cluster.arrive; barrier.cluster.wait;\n"


def load(coordinate: str) -> str:
    """Thread 0 of every CTA loads the box whose first line is ``coordinate``, and waits for it."""
    return (
        INIT + "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 128;\n"
        f"{LOAD} [%s], [%m0, {{0, {coordinate}}}], [%bar];\n" + WAIT.format(W="LOADED", parity=0)
    )


def test_tensor_loads_are_whole_boxes_and_say_how_much_is_fill(policy):
    """Three CTAs start at lines -1, 1 and 3 of 5: one, none and two of their four lines are outside."""
    body = CTA + FIRST + "mad.lo.s32 %row, %cta, 2, -1;\n" + load("%row") + "END:"
    found = count(body, policy, 3, maps=(LINES,))
    assert found.tma_loads == {"src": Copies(count=3, bytes=3 * 4 * 32, filled=3 * 32 + 9 * 8)}
    assert (found.tma_stores, found.bulk_loads, found.bulk_stores, found.peer_copies) == ({}, {}, {}, Copies())
    assert found.bytes_moved == 384


def test_ctas_that_take_the_same_box_all_count(policy):
    """Four CTAs start at line -1, three at line 0."""
    body = CTA + FIRST + "shr.u32 %row, %cta, 2; sub.u32 %row, %row, 1;\n" + load("%row") + "END:"
    found = count(body, policy, 7, maps=(LINES,))
    assert found.tma_loads == {"src": Copies(count=7, bytes=7 * 128, filled=4 * (32 + 3 * 8) + 3 * 4 * 8)}


def test_ctas_that_take_different_columns_all_count(policy):
    """CTA 1 starts at column 4 of 6: of its 32 bytes a line, 24 are outside."""
    body = CTA + FIRST + "shl.b32 %row, %cta, 2;\n" + load("1").replace("{0, 1}", "{%row, 1}") + "END:"
    assert count(body, policy, 2, maps=(LINES,)).tma_loads["src"].filled == 4 * 8 + 4 * 24


def test_a_multicast_counts_in_every_cta_that_it_reaches(policy):
    """Two clusters of two; both CTAs of a cluster load one line for both."""
    once = msgspec.structs.replace(LINES, box=(8, 1))
    body = (
        CTA + ".reg .b32 %rank; mov.u32 %rank, %cluster_ctarank; shl.b32 %x, %rank, 7; add.u32 %s, %s, %x;\n"
        "setp.ne.u32 %p, %t, 0; @%p bra MADE;\n"
        + INIT
        + "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 64;\nMADE: "
        + MEET
        + "@%p bra SENT; mov.b16 %h, 3;\n"
        f"{LOAD}.multicast::cluster [%s], [%m0, {{0, %cta}}], [%bar], %h;\n"
        "SENT:\n" + WAIT.format(W="LOADED", parity=0) + MEET
    )
    found = count(body, policy, 4, 2, maps=(once,))
    assert found.tma_loads == {"src": Copies(count=8, bytes=8 * 32, filled=8 * 8)}


@pytest.mark.parametrize(
    "store",
    [
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m0, {0, 3}], [%s];\n",
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%m0, {0, 3}], [%s];\n",
    ],
)
def test_tensor_stores_are_whole_boxes(policy, store):
    """Two CTAs store, or add, four lines from line 3 of 5 on."""
    target = msgspec.structs.replace(LINES, buffer="out")
    body = FIRST + fetch("%s", "%p_src", "128") + store + DRAIN + "END:"
    found = count(body, policy, 2, maps=(target,))
    assert found.tma_stores == {"out": Copies(count=2, bytes=256)}
    assert found.bulk_loads == {"src": Copies(count=2, bytes=256)}
    assert found.tma_loads == {}
    assert found.bytes_moved == 512


def test_bulk_copies_count_the_bytes_that_they_move(policy):
    """Three CTAs load 48 bytes, store 32, of which a mask picks half, and add 16."""
    body = (
        FIRST
        + fetch("%s", "%p_src", "48")
        + (
            "mov.b16 %h, 0x00ff;\n"
            "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%p_out], [%s], 32, %h;\n"
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%p_out+64], [%s], 16;\n" + DRAIN + "END:"
        )
    )
    found = count(body, policy, 3)
    assert found.bulk_loads == {"src": Copies(count=3, bytes=144)}
    assert found.bulk_stores == {"out": Copies(count=6, bytes=3 * (16 + 16))}
    assert found.tma_stores == {}
    assert found.bytes_moved == 144 + 96


def test_copies_to_a_peer_count_apart(policy):
    """Rank 0 of each of two clusters sends 32 bytes to rank 1; nothing of that is between the SM and global memory."""
    body = (
        ".reg .b32 %rank, %to, %there; mov.u32 %rank, %cluster_ctarank;\n"
        "setp.ne.u32 %p, %t, 0; @%p bra MADE;\n"
        + INIT
        + "MADE: "
        + MEET
        + "@%p bra SENT; setp.ne.u32 %q, %rank, 0; @%q bra GET;\n"
        "st.shared.v4.b32 [%s], {%t, %t, %t, %t}; st.shared.v4.b32 [%s+16], {%t, %t, %t, %t};\n"
        "fence.proxy.async.shared::cta; mov.b32 %x, 1;\n"
        "mapa.shared::cluster.u32 %to, %s, %x; mapa.shared::cluster.u32 %there, %bar, %x;\n"
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%to], [%s], 32, [%there]; bra SENT;\n"
        "GET: mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 32;\n"
        + WAIT.format(W="GOT", parity=0)
        + "SENT: "
        + MEET
    )
    found = count(body, policy, 4, 2)
    assert found.peer_copies == Copies(count=2, bytes=64)
    assert found.bytes_moved == 0
