"""Banks of tensor memory: what each setting makes of shifts, ``.ashift`` and loads, in numbers and in kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from convc.ir.launch import load_launch
from convc.machine.isa.tcgen05.ld_st import register_map
from convc.timing.assembler import Assembly
from convc.timing.kernel import time_kernel
from convc.timing.moving import conflicts, mark_wrapped, moving_cycles
from convc.timing.parameters import BANKS, LOADED, chips, read_chip
from convc.timing.sass import Sass
from convc.timing.trace import Item, Work

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
NUMBERS = {"published": (12, 12, 2), "8x64": (1, 1, 1), "4x128": (2, 2, 2)}
"""Cycles of a shift, cycles that .ashift adds, factor of 16x256b loads."""


def numbers(*settings: str) -> tuple[float, ...]:
    chip = read_chip("b200", settings)
    return tuple(chip[f"tensor_memory.{name}"] for name in ("shift", "ashift", "conflict"))


@pytest.mark.parametrize("setting", BANKS)
def test_a_setting_stands_for_numbers(setting):
    assert numbers(f"tmem.banks={setting}") == NUMBERS[setting]
    assert read_chip("b200", [f"tmem.banks={setting}"]).choices == (
        {} if setting == "published" else {"tmem.banks": setting}
    )


def test_the_last_setting_counts_and_a_number_more_than_any():
    assert numbers("tmem.banks=8x64", "tmem.banks=published") == NUMBERS["published"]
    assert numbers("tensor_memory.shift=7", "tmem.banks=4x128") == (7, 2, 2)
    source = read_chip("b200", ["tmem.banks=8x64"]).parameters["tensor_memory.shift"].source
    assert source == "tmem.banks=8x64"


def test_a_register_of_a_16x256b_load_takes_every_other_column_of_a_lane():
    lanes, columns = register_map("16x256b", 4, 0, packed=False)
    assert tuple(columns[lanes[:, 0] == 0, 0]) == LOADED


@pytest.mark.parametrize("name", chips())
def test_a_loop_over_lanes_adds_what_was_published(name):
    chip = read_chip(name)
    shift = Work(kind="shift", row=0, step="", line=9)
    assert moving_cycles(shift, chip) == 12
    mark_wrapped([shift], {9})
    assert moving_cycles(shift, chip) == (51 if name == "b300" else 44)
    mark_wrapped([shift], {8})
    assert moving_cycles(shift, chip) == 12
    assert moving_cycles(Work(kind="mma", row=0, step="", line=9), chip) == 0


def test_shifts_in_loops_over_lanes_are_found_in_the_machine_code():
    def one(opcode: str, line: int, target: int | None = None) -> Sass:
        return Sass(opcode=opcode, line=line, target=target, ends=False, stall=4, result=None, operands=None, waits=())

    code = (one("UTCSHIFT.DOWN", 3), one("R2UR", 8), one("UTCSHIFT.DOWN", 8), one("BRA.U.ANY", 8, 1))
    made = Assembly(code=code, registers=32, spill_bytes=0, stack_bytes=0)
    assert made.shift_loops([3, 7, 9]) == {7}


def test_loads_of_16x256b_alone_conflict():
    chip = read_chip("b200")
    load = Item(name="tcgen05.ld", step="", line=1, index=0, shape="16x256b")
    store = Item(name="tcgen05.st", step="", line=1, index=0, shape="16x256b")
    assert (conflicts(load, chip), conflicts(store, chip)) == (2, 1)
    load.shape = "32x32b"
    assert conflicts(load, chip) == 1


@pytest.mark.parametrize(("folder", "moved"), [("shift_chain_f16", "shift"), ("shift_ashift_f16", "mma.ashift")])
def test_fewer_cycles_of_a_shift_take_their_part_off_the_tensor_core(folder, moved):
    here = GOLDEN / folder
    kernel = time_kernel((here / "kernel.ptx").read_text(), load_launch(here / "launch.json"), {}, read_chip("b200"))
    moves = sum(work.kind == moved for work in kernel.trace.works)
    assert moves
    busy = {
        setting: kernel.on(read_chip("b200", [f"tmem.banks={setting}"])).replay.sms[0].tensor.busy for setting in BANKS
    }
    assert busy["published"] - busy["8x64"] == pytest.approx(11 * moves)
    assert busy["4x128"] - busy["8x64"] == pytest.approx(moves)
