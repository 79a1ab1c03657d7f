"""What each SM has of what all share, and what moving rows takes, in exact numbers of a made-up chip."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from convc.timing.moving import conflicts, moving_cycles
from convc.timing.shares import a_cycle, fullest, fullest_cpc, sm_share
from convc.timing.trace import SHIFT

CHIP = {
    "chip.clock": 2.0,
    "chip.l2": 0.02,
    "chip.memory": 0.008,
    "chip.sms": 128.0,
    "gpc.count": 8.0,
    "gpc.port": 640.0,
    "gpc.together": 3.0,
    "gpc.together_in_step": 5.0,
    "gpc.merged_im2col": 0.25,
    "gpc.meeting": 0.5,
    "gpc.cpcs": 3.0,
    "gpc.cpc_port": 1e9,
    "tma.same_place": 160.0,
    "threads.stores_of_all": 4.0,
    "tma.first_all": 96.0,
    "tensor_memory.ashift": 7.0,
    "tensor_memory.shift": 12.0,
    "tensor_memory.shift_loop": 32.0,
    "tensor_memory.conflict": 2.0,
}


def test_a_rate_is_bytes_in_a_cycle():
    assert a_cycle(CHIP, "chip.l2") == 10.0  # 20 GB/s at 2 GHz
    assert a_cycle({**CHIP, "chip.clock": 1.0}, "chip.l2") == 20.0


@pytest.mark.parametrize(
    ("asking", "more", "l2"),
    [
        (64, {}, 10.0 / 64),  # L2 is the least
        (64, {"traffic": 0.5}, 4.0 / 64 / 0.5),  # memory, of which each byte takes half a one
        (64, {"traffic": 0.25}, 10.0 / 64),
    ],
)
def test_the_scarcest_of_l2_and_memory_counts(asking, more, l2):
    assert sm_share(CHIP, asking, **more).l2 == pytest.approx(l2, rel=1e-12)


@pytest.mark.parametrize(
    ("asking", "uneven", "port"),
    [
        (4, 1.0, 640.0),  # fewer than GPCs: each has a port of its own
        (32, 1.0, 160.0),
        (32, 2.0, 80.0),
    ],
)
def test_the_port_of_a_gpc_is_divided_among_its_sms(asking, uneven, port):
    wide = {**CHIP, "chip.l2": 1000.0}
    assert sm_share(wide, asking, uneven=uneven).l2 == pytest.approx(port, rel=1e-12)


@pytest.mark.parametrize(
    ("asking", "stores", "maps"),
    [
        (16, 1.0, 12.0),  # an eighth of the SMs: no less than 1
        (64, 2.0, 48.0),
        (256, 4.0, 96.0),  # no more than all
    ],
)
def test_stores_and_first_copies_grow_with_the_sms_that_ask(asking, stores, maps):
    share = sm_share(CHIP, asking, missed=0.5)
    assert (share.stores, share.maps, share.missed, share.merged_im2col) == (stores, maps, 0.5, 0.25)
    assert share.together == 3.0
    assert sm_share(CHIP, asking, step=True).together == 5.0


def test_gpcs_are_filled_evenly():
    assert fullest(128, 1, CHIP) == 1.0
    assert fullest(65, 1, CHIP) == 9 * 8 / 65
    assert fullest(8, 4, CHIP) == 4 * 8 / 8


@pytest.mark.parametrize(("asking", "sms"), [(8, 1.0), (48, 2.0), (64, 64 / 24), (80, 5.0), (96, 6.0)])
def test_a_cpc_gets_second_sms_of_its_tpcs_before_the_next_one_does(asking, sms):
    assert fullest_cpc(asking, CHIP) == pytest.approx(sms)
    narrow = {**CHIP, "gpc.cpc_port": 0.06}
    assert sm_share(narrow, asking).l2 == pytest.approx(min(10 / asking, 0.06 / sms))


@pytest.mark.parametrize(
    ("kind", "wrapped", "cycles"),
    [
        ("mma.ashift", False, 7.0),
        ("mma", False, 0.0),
        ("mma", True, 0.0),
        (SHIFT, False, 12.0),
        (SHIFT, True, 44.0),
    ],
)
def test_rows_that_move_take_cycles(kind, wrapped, cycles):
    assert moving_cycles(SimpleNamespace(kind=kind, wrapped=wrapped), CHIP) == cycles


@pytest.mark.parametrize(
    ("name", "shape", "factor"),
    [
        ("tcgen05.ld", "16x256b", 2.0),
        ("tcgen05.st", "16x256b", 1.0),
        ("tcgen05.ld", "32x32b", 1.0),
    ],
)
def test_only_wide_loads_meet_in_a_bank(name, shape, factor):
    assert conflicts(SimpleNamespace(name=name, shape=shape), CHIP) == factor
