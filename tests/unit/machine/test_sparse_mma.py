"""mma.sp: what an H200 computed, what numpy makes of the dense matrix, and metadata that mean nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from support.kernels import execute, module
from tma_recordings import FOLDER

from convc.machine import RunOptions, RunResult
from convc.machine.base.switches import Switches

NARROW = {"f16": 16, "bf16": 16, "tf32": 8, "s8": 32, "u8": 32, "s4": 64, "u4": 64}
"""The smaller of the two depths of each type of A, whose fragments have two registers; those of others have four."""


def recorded() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Registers before, (programs, lanes, 13: A, B, C, metadata), and results (programs, lanes, 4), by what was run."""
    with np.load(FOLDER / "sparse_h200.npz") as stored:
        heads = stored["heads"]
        words = stored["words"]
        results = stored["results"]
    return {head: (words[heads == head], results[heads == head]) for head in dict.fromkeys(heads.tolist())}


RECORDED = recorded()


def listed(name: str, count: int) -> str:
    return f"{{{', '.join(f'%{name}{at}' for at in range(count))}}}"


def kernel(head: str, ordered: bool, guard: str) -> str:
    """Each warp multiplies what 13 words of each lane hold."""
    depth, types, selector = head.split()
    registers = 2 if NARROW.get(types.split(".")[1]) == int(depth) else 4
    sums = 2 if types.startswith("f16") else 4
    loads = [f"ld.global.u32 %{'abce'[at // 4]}{at % 4}, [%x+{4 * at}];" for at in range(13)]
    variant = "sp::ordered_metadata" if ordered else "sp"
    multiply = (
        f"{guard}mma.{variant}.sync.aligned.m16n8k{depth}.row.col.{types} "
        f"{listed('d', sums)}, {listed('a', registers)}, "
        f"{listed('b', registers)}, {listed('c', sums)}, %e0, {selector};"
    )
    stores = [f"st.global.u32 [%o+{4 * at}], %d{at};" for at in range(sums)]
    zeros = [f"mov.b32 %d{at}, 0;" for at in range(4)]
    return module(
        ".reg .pred %q;\n.reg .b32 %a<4>, %b<4>, %c<4>, %d<4>, %e<4>, %t;\n.reg .b64 %x, %o;\n"
        "mov.u32 %t, %tid.x;\nsetp.ge.u32 %q, %t, 32;\nmul.wide.u32 %x, %t, 52;\nadd.u64 %x, %x, %p_x;\n"
        "mul.wide.u32 %o, %t, 16;\nadd.u64 %o, %o, %p_out;\n" + "\n".join([*zeros, *loads, multiply, *stores]),
        pointers=("x", "out"),
    )


def run(head: str, words: np.ndarray, ordered: bool = False, guard: str = "", numerics: str = "float32") -> RunResult:
    buffers = {"x": np.ascontiguousarray(words), "out": np.zeros((*words.shape[:2], 4), np.uint32)}
    options = RunOptions(switches=Switches(numerics=numerics))
    text = kernel(head, ordered, guard)
    return execute(text, buffers, pointers=("x", "out"), block=(32 * len(words), 1, 1), options=options)


@pytest.mark.parametrize("numerics", ["float32", "exact"])
@pytest.mark.parametrize("head", RECORDED)
def test_the_machine_computes_what_an_h200_did(head, numerics):
    words, results = RECORDED[head]
    done = run(head, words, numerics=numerics)
    assert np.array_equal(done.buffers["out"], results)
    assert done.findings == ()


def places(head: str) -> Iterator[tuple[int, int, int, int]]:
    """(row, chunk, lane, lowest bit) of all metadata, as the figures of the manual have them."""
    depth, types, selector = head.split()
    element = types.split(".")[1]
    chunks = int(depth) // {"tf32": 2, "s4": 8, "u4": 8}.get(element, 4)
    for row in range(16):
        group, low = row % 8, row // 8
        for chunk in range(chunks):
            if chunks == 4:
                yield row, chunk, 4 * group + int(selector), 16 * low + 4 * chunk
            elif chunks == 8 and element in ("f16", "bf16", "tf32"):
                yield row, chunk, 4 * group + 2 * int(selector) + (chunk > 3), 16 * low + 4 * (chunk % 4)
            elif chunks == 8:
                yield row, chunk, 4 * group + 2 * int(selector) + low, 4 * chunk
            else:
                yield row, chunk, 4 * group + 2 * (chunk > 7) + low, 4 * (chunk % 8)


def bytes_of(words: np.ndarray, first: int, count: int, kind: str, rows: int) -> np.ndarray:
    """A or B of bytes, (rows, 16 columns for each register and eight rows), from the registers of one warp."""
    halves = rows // 8
    found = np.zeros((rows, 16 * count // halves), np.int64)
    for lane in range(32):
        for register in range(count):
            chunk, half = divmod(register, halves)
            four = np.ascontiguousarray(words[lane, first + register :][:1]).view(np.int8 if kind == "s8" else np.uint8)
            found[lane // 4 + 8 * half, 16 * chunk + 4 * (lane % 4) :][:4] = four
    return found


def sums_of(words: np.ndarray) -> np.ndarray:
    """C or D, int (16, 8), from four registers of each lane."""
    found = np.zeros((16, 8), np.int64)
    for lane in range(32):
        for at in range(4):
            found[lane // 4 + 8 * (at // 2), 2 * (lane % 4) + at % 2] = words[lane, at].view(np.int32)
    return found


@pytest.mark.parametrize("head", ["32 s32.s8.u8.s32 0", "32 s32.s8.u8.s32 1", "64 s32.u8.s8.s32 0"])
@pytest.mark.parametrize("guard", ["", "@%q "])
def test_it_is_the_product_of_the_dense_matrix(head, guard):
    """Three warps, of which all or the last two multiply."""
    depth = int(head.split()[0])
    _, left, right, _ = head.split()[1].split(".")
    rng = np.random.default_rng(depth)
    words = rng.integers(0, 1 << 32, (3, 32, 13), dtype=np.uint32)
    pairs = np.array([4, 8, 12, 9, 13, 14], np.uint32)
    words[..., 12] = sum(rng.choice(pairs, (3, 32)) << np.uint32(4 * at) for at in range(8))
    done = run(head, words, ordered=True, guard=guard)
    for warp in range(3):
        stored = bytes_of(words[warp], 0, depth // 16, left, 16)
        dense = np.zeros((16, depth), np.int64)
        for row, chunk, lane, bit in places(head):
            bits = int(words[warp, lane, 12]) >> bit & 15
            dense[row, 4 * chunk + (bits & 3)] = stored[row, 2 * chunk]
            dense[row, 4 * chunk + (bits >> 2)] = stored[row, 2 * chunk + 1]
        expected = dense @ bytes_of(words[warp], 4, depth // 16, right, 8).T + sums_of(words[warp, :, 8:12])
        got = sums_of(done.buffers["out"][warp])
        assert np.array_equal(got, expected.astype(np.int32) if warp or not guard else 0 * expected)
    assert done.findings == ()
    assert done.counters.warp_multiply_adds == (2 if guard else 3) * 16 * 8 * depth // 2


@pytest.mark.parametrize(
    ("head", "bits", "ordered", "wrong"),
    [
        ("16 f32.f16.f16.f32 2", 0b0100, True, False),
        ("16 f32.f16.f16.f32 2", 0b0001, True, True),
        ("16 f32.f16.f16.f32 2", 0b0001, False, False),
        ("16 f32.f16.f16.f32 2", 0b0101, False, True),
        ("32 f32.bf16.bf16.f32 1", 0b1111, True, True),
        ("8 f32.tf32.tf32.f32 3", 0b0100, True, False),
        ("8 f32.tf32.tf32.f32 3", 0b1110, False, False),
        ("8 f32.tf32.tf32.f32 3", 0b1100, False, True),
        ("128 s32.u4.s4.s32 0", 0b1010, True, True),
        ("64 f32.e4m3.e5m2.f32 0", 0b0110, True, True),
    ],
)
def test_metadata_that_mean_nothing_are_found(head, bits, ordered, wrong):
    words = np.array(RECORDED[head][0])
    every = list(places(head))
    row, chunk, lane, bit = every[37 % len(every)]
    words[1, lane, 12] = words[1, lane, 12] & ~np.uint32(15 << bit) | np.uint32(bits << bit)
    found = run(head, words, ordered=ordered).findings
    assert [finding.rule for finding in found] == ["sparse-metadata"] * wrong
    if wrong:
        assert (found[0].warp, found[0].lanes) == (1, (lane,))
        assert f"{bits:04b} of chunk {chunk} of row {row} " in found[0].message


def test_metadata_of_lanes_that_are_not_asked_do_not_matter():
    head = "16 f32.f16.f16.f32 2"
    words, results = RECORDED[head]
    words = np.array(words)
    asked = {lane for _, _, lane, _ in places(head)}
    words[:, [lane for lane in range(32) if lane not in asked], 12] = 0xFFFFFFFF
    done = run(head, words)
    assert np.array_equal(done.buffers["out"], results)
    assert done.findings == ()
