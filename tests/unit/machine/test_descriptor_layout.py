"""Matrix operands in shared memory: the recorded descriptors, and the manual's typical layouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.machine.tensor_core.smem_layout import chunk_offsets, element_offsets, mn_chunk_offsets
from convc.ptx.descriptors import SharedDescriptor

RECORDING = Path(__file__).resolve().parents[2] / "recordings" / "descriptors_h200.npz"
LAYOUTS = ("none", "128B", "64B", "32B")


def test_every_recorded_descriptor_is_reproduced():
    with np.load(RECORDING) as stored:
        cases, index = stored["cases"], stored["index"]
    assert len(cases) == 600
    for line, recorded in zip(cases, index, strict=True):
        start, lbo, sbo, base, layout, mn_major = map(int, line.split())
        desc = SharedDescriptor(start=start, lbo=lbo, sbo=sbo, base_offset=base, swizzle=LAYOUTS[layout])
        assert np.array_equal(element_offsets(desc, 64, 16, 2, bool(mn_major)), 2 * recorded.astype(np.int64)), line


def slow(desc: SharedDescriptor, row: int, k: int, size: int, mn_major: bool) -> int:
    """The address formulas of the PTX manual, for one element."""
    width = {"none": 16, "32B": 32, "64B": 64}.get(desc.swizzle, 128)
    if not mn_major:
        x = k * size
        along = x // 16 * desc.lbo + x % 16 if desc.swizzle == "none" else x
        p = desc.start + row // 8 * desc.sbo + row % 8 * width + along
    else:
        group = 4 if desc.swizzle == "128B_atom32" else 8
        per = width // size
        outer, inner = (desc.sbo, desc.lbo) if desc.swizzle == "none" else (desc.lbo, desc.sbo)
        p = desc.start + row // per * outer + row % per * size + k // group * inner + k % group * width
    mask, shift = {"none": (0, 4), "32B": (1, 4), "64B": (3, 4), "128B": (7, 4), "128B_atom32": (3, 5)}[desc.swizzle]
    return p ^ ((p >> 7) - desc.base_offset & mask) << shift


offsets = st.integers(0, 600).map(lambda n: 16 * n)


@settings(max_examples=some(60))
@given(*[offsets] * 3, st.integers(0, 7), st.sampled_from(LAYOUTS), st.sampled_from([1, 2, 4]), st.booleans())
def test_element_offsets_follow_the_manual(start, lbo, sbo, base, swizzle, size, mn_major):
    if mn_major and size == 4:
        swizzle = "128B_atom32"
    desc = SharedDescriptor(start=start, lbo=lbo, sbo=sbo, base_offset=base, swizzle=swizzle)
    found = element_offsets(desc, 70, 18, size, mn_major)
    assert found.dtype == np.int64
    assert found.tolist() == [[slow(desc, r, k, size, mn_major) for k in range(18)] for r in range(70)]


def test_k_major_chunks_are_what_the_copy_engine_writes():
    """Row r of a 128-byte row tile starts at 128*r, and its chunk c lies at c ^ r%8."""
    desc = SharedDescriptor(start=2048, lbo=16, sbo=1024, swizzle="128B")
    chunks = chunk_offsets(desc, 128, 128)
    row, chunk = np.arange(128)[:, None], np.arange(8)
    assert np.array_equal(chunks, 128 + row * 8 + (chunk ^ row % 8))
    advanced = SharedDescriptor(start=2048 + 64, lbo=16, sbo=1024, swizzle="128B")
    assert np.array_equal(chunk_offsets(advanced, 128, 32), chunks[:, 4:6])


def test_results_are_remembered_and_cannot_be_changed():
    desc = SharedDescriptor(start=0, lbo=16, sbo=512, swizzle="64B")
    chunks = chunk_offsets(desc, 64, 32)
    assert chunk_offsets(desc, 64, 32) is chunks
    with pytest.raises(ValueError, match="read-only"):
        chunks[0, 0] = 1
    assert not mn_chunk_offsets(desc, 64, 16).flags.writeable


@pytest.mark.parametrize(
    ("swizzle", "size", "mn_major", "message"),
    [
        ("128B", 4, True, "MN-major elements of 32 bits cannot have swizzle 128B"),
        ("128B_atom32", 2, True, "MN-major elements of 16 bits cannot have swizzle 128B_atom32"),
        ("128B_atom32", 4, False, "a K-major operand cannot have swizzle 128B_atom32"),
        ("none", 8, False, "elements of 8 bytes"),
    ],
)
def test_combinations_the_hardware_does_not_have(swizzle, size, mn_major, message):
    desc = SharedDescriptor(start=0, lbo=16, sbo=1024, swizzle=swizzle)
    with pytest.raises(ValueError, match=message):
        element_offsets(desc, 8, 8, size, mn_major)


def test_other_refusals():
    absolute = SharedDescriptor(start=0, lbo=16, sbo=1024, swizzle="128B", lbo_absolute=True)
    with pytest.raises(ValueError, match="sm_103"):
        chunk_offsets(absolute, 8, 32)
    with pytest.raises(ValueError, match="sm_103"):
        mn_chunk_offsets(absolute, 64, 16)
    with pytest.raises(ValueError, match="K must take a multiple of 16 bytes, got 24"):
        chunk_offsets(SharedDescriptor(start=0, lbo=16, sbo=1024, swizzle="128B"), 8, 24)
    with pytest.raises(ValueError, match="M or N must take a multiple of 16 bytes, got 8"):
        mn_chunk_offsets(SharedDescriptor(start=0, lbo=16, sbo=1024, swizzle="128B"), 8, 16)
