"""Tensor copies and encoder rules, held against recordings of a real GPU (tests/recordings)."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from tma_recordings import SPECIAL, UNTOUCHED, Case, global_memory, read

from convc.errors import LaunchError, MachineFault
from convc.ir.tensormap import check
from convc.machine.tma.load import TensorLoader
from convc.machine.tma.source import round_tf32

COMPLETED, ENCODED, REFUSED = 1, 2, -1
ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION, MISALIGNED = -100700, -100715, -100716
WORDING = {
    ILLEGAL_ADDRESS: "but the CTA has",
    ILLEGAL_INSTRUCTION: "outside its bounding box|multiple of 16 bytes",
    MISALIGNED: "multiple of 128",
}


@pytest.fixture(scope="module")
def copies() -> list[Case]:
    return read("tma_h200.npz", address_fields=False)


@pytest.fixture(scope="module")
def edges() -> list[Case]:
    return read("tma_edges_h200.npz", address_fields=True)


def agrees(case: Case, shared_bytes: int) -> bool:
    """Whether the loader leaves the recorded bytes, gaps included, and counts the recorded bytes."""
    smem = np.full((1, shared_bytes), UNTOUCHED, np.uint8)
    result = TensorLoader(case.tmap, global_memory()).load(smem, case.address, case.coords, case.offsets)
    return result.bytes == case.bytes and np.array_equal(smem[0, : case.smem.size], case.smem)


def test_every_recorded_copy_is_reproduced(copies):
    done = [case for case in copies if case.status == COMPLETED]
    assert len(done) == 999
    assert [case for case in done if not agrees(case, 66 << 10)] == []


def test_the_copy_that_left_shared_memory_faults(copies):
    (case,) = [case for case in copies if case.status != COMPLETED]
    assert case.status == ILLEGAL_ADDRESS
    with pytest.raises(MachineFault, match=WORDING[ILLEGAL_ADDRESS]):
        agrees(case, 65 << 10)


def test_every_recorded_edge_case_is_reproduced(edges):
    done = [case for case in edges if case.status == COMPLETED and case.tag != "offset"]
    assert len(done) == 344
    assert [case for case in done if not agrees(case, 32 << 10)] == []


def test_every_recorded_fault_is_a_fault(edges):
    stopped = [case for case in edges if case.status < REFUSED]
    assert len(stopped) == 69
    for case in stopped:
        with pytest.raises(MachineFault, match=WORDING[case.status]):
            agrees(case, 32 << 10)


def test_an_offset_past_its_range_loses_bits_on_the_gpu_and_faults_here(edges):
    over = [case for case in edges if case.tag == "offset" and max(case.offsets) > 255]
    assert len(over) == 4
    for case in over:
        with pytest.raises(MachineFault, match=r"im2col offset along [WH] must be in 0\.\.255"):
            agrees(case, 32 << 10)
        kept = tuple(offset & 255 for offset in case.offsets)
        assert agrees(replace(case, offsets=kept), 32 << 10)


def test_check_accepts_what_the_drivers_encoders_accept(edges):
    encoded = [case for case in edges if case.tag.startswith("enc ")]
    assert {case.status for case in encoded} == {ENCODED, REFUSED}
    assert len(encoded) == 122
    for case in encoded:
        if case.status == ENCODED:
            check(case.tmap, 1 << 60)
        else:
            with pytest.raises(LaunchError):
                check(case.tmap, 1 << 60)


def test_every_copied_map_passes_check(copies, edges):
    for case in copies + edges:
        if case.status == COMPLETED:
            check(case.tmap, 64 << 20)


def test_tf32_rounding_is_the_recorded_one(edges):
    (special,) = [case for case in edges if case.tag == "tf32" and case.tmap.offset and case.tmap.dtype == "tf32"]
    words = global_memory()[SPECIAL : SPECIAL + 16384].view(np.uint32)
    plain = msgspec.structs.replace(special.tmap, dtype="f32")
    smem = np.zeros((1, 16384), np.uint8)
    TensorLoader(plain, global_memory()).load(smem, 0, special.coords)
    order = smem[0].view(np.uint32)
    assert np.array_equal(np.sort(order), np.sort(words))
    assert np.array_equal(round_tf32(order), special.smem[:16384].view(np.uint32))
