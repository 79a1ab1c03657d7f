"""How many CTAs an SM holds is what the hardware counts, and tensor memory is enough for all of them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.constraints import resident_columns
from convc.compiler.plan.residency import MemoryNeed, beside, bytes_alone, bytes_for, bytes_for_columns
from convc.compiler.schedules.all import SCHEDULES
from convc.compiler.schedules.base import Request
from convc.explain.estimate import estimate_lines
from convc.host_layout.device_layout import device_layout
from convc.ir.arch import SM_90A, SM_100A
from convc.ir.problem import ConvProblem
from convc.timing.chip import MOST_CTAS, Footprint, most_beside
from convc.timing.parameters import read_chip

WIDE = ConvProblem(in_channels=16, out_channels=512, in_extent=(28, 28), kernel=(1, 1))
"""Little shared memory, and many columns: by the former an SM holds three CTAs, by the latter two."""


@pytest.mark.parametrize("columns", [32, 64, 128, 256, 512])
def test_so_much_shared_memory_lets_no_more_ctas_in_than_have_columns(columns: int):
    least = bytes_for_columns(columns, SM_100A)
    chip = read_chip("b200")
    held = most_beside(Footprint(shared_bytes=least, columns=0, threads=192, registers=0), chip)
    assert held * columns <= SM_100A.limits.tmem_columns
    assert least % 16 == 0
    if least:  # no more than it takes
        more = most_beside(Footprint(shared_bytes=least - 16, columns=0, threads=192, registers=0), chip)
        assert more * columns > SM_100A.limits.tmem_columns


def test_threads_keep_an_sm_from_more_ctas_than_narrow_accumulators_have_columns():
    assert bytes_for_columns(32, SM_100A) == 0
    assert bytes_for_columns(0, SM_90A) == 0
    assert bytes_for(MOST_CTAS, SM_100A) == 0
    assert bytes_alone(SM_100A) == bytes_for_columns(512, SM_100A)


def test_registers_are_counted_and_columns_are_not():
    few = MemoryNeed(smem_bytes=16384, tmem_columns=32)
    assert beside(few, SM_100A) == 6  # of six warps with 56 registers a thread
    assert beside(MemoryNeed(smem_bytes=65536, tmem_columns=512), SM_100A) == 3


@pytest.mark.parametrize(
    "options",
    [
        ScheduleOptions(schedule="reload", multicast="2x2", persistent="off", cta_group="1"),
        ScheduleOptions(schedule="reload", persistent="off", cta_group="2"),
        ScheduleOptions(schedule="reload", persistent="off", cta_group="1", store="direct"),
    ],
    ids=["2x2", "pairs", "alone"],
)
def test_a_kernel_asks_for_what_keeps_others_from_its_columns(options: ScheduleOptions):
    compiled = compile_problem(WIDE, options=options, block_n=256, stages=1)
    storage = compiled.plan.storage
    assert storage.tmem_columns == 256
    assert storage.end < storage.smem_bytes == compiled.artifact.launch.shared_bytes == bytes_for_columns(256, SM_100A)
    assert f"//   {storage.end}: nothing, which keeps other CTAs from the SM" in compiled.artifact.ptx
    said = next(line for line in estimate_lines(compiled.plan) if line.startswith("CTAs per SM"))
    assert said.endswith("and all CTAs of an SM allocate 512 of 512 columns.")
    assert f"{storage.smem_bytes} bytes of shared memory, {storage.smem_bytes - storage.end} of them unused" in said


def test_a_tiling_with_more_ctas_on_an_sm_than_columns_is_refused():
    layout = device_layout(WIDE)
    offer = SCHEDULES[0].candidates(layout, SM_100A, Request()).best
    few = MemoryNeed(smem_bytes=bytes_for_columns(256, SM_100A) - 16, tmem_columns=256)
    assert resident_columns(offer.tiled) is None
    assert resident_columns(replace(offer.tiled, need=few)) == (
        "an SM holds 3 CTAs with 256 columns of tensor memory each, and has 512"
    )
