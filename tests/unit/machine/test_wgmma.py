"""wgmma against A B^T + C of whole numbers, in every type, with the manual's fragments and layouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.kernels import execute
from support.recorded import recorded
from tma_programs import Recording, execute_program, recordings
from warpgroup_kernels import (
    STORED,
    WIDTH,
    Wgmma,
    address,
    collect_sums,
    deal_rows,
    instructions,
    kernel,
    lay,
    run,
    tile,
    word,
)

from convc.machine import RunOptions
from convc.machine.base.switches import Switches
from convc.machine.tensor_core.warpgroup import SmemMatrix
from convc.ptx.descriptors import SharedDescriptor
from convc.sanitizer.racecheck import Races
from convc.support.ptxas import assemble


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    together: dict[str, list[str]] = {}
    for number, text in enumerate(texts.values()):
        head, _, rest = text.partition(".visible .entry k(")
        together.setdefault(head, []).append(f".visible .entry k{number}({rest}")
    for head, entries in together.items():
        assemble(head + "\n".join(entries), "sm_90a")


def small(rng: np.random.Generator, shape: tuple[int, int], kind: str) -> np.ndarray:
    low = 0 if kind == "u8" else -3
    return rng.integers(low, 4, shape).astype(np.float32).astype(STORED[kind])


def problem(mma: Wgmma, steps: int, swizzle: str, seed: int = 1):
    """Matrices of ``steps`` instructions in a shared-memory image, descriptors, and the exact product."""
    rng = np.random.default_rng(seed)
    d, a, b = mma.types
    left, right = small(rng, (64, steps * mma.k), a), small(rng, (mma.n, steps * mma.k), b)
    c = small(rng, (64, mma.n), d)
    image = np.zeros(65536 + 32768, np.uint8)
    tiles = tile(64, 32 * steps, swizzle), tile(mma.n, 32 * steps, swizzle, 32768)
    lay(image, tiles[0], left)
    lay(image, tiles[1], right)
    step = 16 if swizzle == "none" else 2
    words = [(word(tiles[0]) + step * i, word(tiles[1]) + step * i) for i in range(steps)]
    fragments = np.concatenate([deal_rows(left[:, i * mma.k :][:, : mma.k]) for i in range(steps)], axis=1)
    exact = left.astype(np.float64) @ right.astype(np.float64).T
    return image, words, c, fragments, exact


HEADS = [
    "m64n8k16.f32.f16.f16", "m64n72k16.f32.f16.f16", "m64n256k16.f32.f16.f16", "m64n32k16.f16.f16.f16",
    "m64n24k16.f32.bf16.bf16", "m64n40k8.f32.tf32.tf32", "m64n16k32.f32.e4m3.e4m3", "m64n24k32.f16.e4m3.e5m2",
    "m64n8k32.f32.e5m2.e4m3", "m64n32k32.f16.e5m2.e5m2", "m64n96k32.s32.s8.s8", "m64n16k32.s32.u8.s8",
    "m64n8k32.satfinite.s32.s8.u8", "m64n24k32.s32.u8.u8",
]  # fmt: skip


@pytest.mark.one_of(3)
@pytest.mark.parametrize("numerics", ["float32", "exact"])
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("registers", [False, True])
def test_products_of_small_numbers(head, registers, numerics):
    mma = Wgmma(head, a_in_registers=registers)
    swizzle = ("none", "32B", "64B", "128B")[mma.n // 8 % 4]
    steps = {"none": 2, "32B": 1, "64B": 2, "128B": 4}[swizzle]
    image, words, c, fragments, exact = problem(mma, steps, swizzle)
    text = kernel(mma, image.size, instructions(mma, words, ["1"] * steps), count=steps)
    result = run(text, mma, image, c, fragments, options=RunOptions(switches=Switches(numerics=numerics)))
    got = collect_sums(result.buffers["out"], mma.n, mma.types[0])
    assert np.array_equal(got.astype(np.float64), exact + c.astype(np.float64))
    assert result.findings == ()


@pytest.mark.parametrize("swizzle", ["32B", "64B"])
def test_descriptors_are_unsigned(swizzle):
    """Bit 63 is part of the swizzle; here each thread computes the descriptor, as CTAs of a cluster do."""
    mma = Wgmma("m64n40k16.f32.f16.f16")
    image, words, c, _, exact = problem(mma, 1, swizzle)
    assert words[0][0] >> 63
    each = "mul.wide.u32 %w, %t, 0; add.u64 %base, %base, %w;"
    result = run(kernel(mma, image.size, instructions(mma, words, ["1"]), before=each), mma, image, c, observer=Races())
    assert np.array_equal(collect_sums(result.buffers["out"], mma.n, "f32"), exact + c)


@pytest.mark.parametrize("policy", ["late", "seeded"])
def test_results_do_not_depend_on_when_groups_are_performed(policy):
    mma = Wgmma("m64n40k16.f32.f16.f16")
    image, words, c, _, exact = problem(mma, 4, "128B")
    first, second = instructions(mma, words, ["1", "1"]), instructions(mma, words, ["1", "1", "1", "1"])[-4:-2]
    work = [*first[:-1], *second, "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    result = run(kernel(mma, image.size, work), mma, image, c, options=RunOptions(policy=policy))
    assert np.array_equal(collect_sums(result.buffers["out"], mma.n, "f32"), exact + c)


def test_scale_d_and_negation():
    mma = Wgmma("m64n16k16.f32.bf16.bf16", scale_b=-1)
    image, words, c, _, _ = problem(mma, 2, "64B")
    text = kernel(mma, image.size, instructions(mma, words, ["%scale", "!%scale"]), before="setp.lt.u32 %scale, %t, 0;")
    got = collect_sums(run(text, mma, image, c).buffers["out"], mma.n, "f32")
    left, right = (
        read(image, tile(rows, 64, "64B", start), (rows, 32), "bf16") for rows, start in ((64, 0), (16, 32768))
    )
    assert np.array_equal(got, -(left @ right.T))
    kept = text.replace("setp.lt.u32 %scale", "setp.ge.u32 %scale").replace("!%scale, 1", "%scale, 1")
    assert np.array_equal(collect_sums(run(kept, mma, image, c).buffers["out"], mma.n, "f32"), c - left @ right.T)


def read(image, desc, shape, kind):
    """The matrix (rows, k) that lies in an image, as float32."""
    row, k = np.indices(shape)
    at = address(desc, row, k, STORED[kind].itemsize, False)
    raw = image[at[..., None] + np.arange(STORED[kind].itemsize)]
    return np.ascontiguousarray(raw).view(STORED[kind])[..., 0].astype(np.float32)


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_matrices_that_are_mn_major(swizzle, kind):
    mma = Wgmma(f"m64n64k16.f32.{kind}.{kind}", a_mn=True, b_mn=True)
    rng = np.random.default_rng(3)
    left, right, c = small(rng, (64, 16), kind), small(rng, (64, 16), kind), small(rng, (64, 64), "f32")
    image = np.zeros(65536, np.uint8)
    lbo, sbo = (1024, 128) if swizzle == "none" else (8 * WIDTH[swizzle], 8 * WIDTH[swizzle] * (128 // WIDTH[swizzle]))
    tiles = [SharedDescriptor(start=start, lbo=lbo, sbo=sbo, swizzle=swizzle) for start in (0, 32768)]
    lay(image, tiles[0], left, mn_major=True)
    lay(image, tiles[1], right, mn_major=True)
    text = kernel(mma, image.size, instructions(mma, [(word(tiles[0]), word(tiles[1]))], ["1"]))
    exact = left.astype(np.float32) @ right.astype(np.float32).T
    assert np.array_equal(collect_sums(run(text, mma, image, c).buffers["out"], 64, "f32"), exact + c)


def test_rows_that_start_inside_a_swizzle_atom():
    mma = Wgmma("m64n8k16.f32.f16.f16")
    image, words, c, _, _ = problem(mma, 1, "128B")
    rng = np.random.default_rng(5)
    left = small(rng, (80, 64), "f16")
    lay(image, tile(80, 128, "128B"), left)
    right = read(image, tile(8, 32, "128B", 32768), (8, 16), "f16")
    for row in (1, 3, 9, 13):
        text = kernel(mma, image.size, instructions(mma, [(words[0][0] + 8 * row + 2, words[0][1])], ["1"]))
        got = collect_sums(run(text, mma, image, c).buffers["out"], 8, "f32")
        assert np.array_equal(got, left[row : row + 64, 16:32].astype(np.float32) @ right.T + c)


def test_recorded_descriptors():
    """Descriptors of A that an H200 read: the elements that a wgmma with them multiplies."""
    recording = np.load(Path(__file__).parents[2] / "recordings" / "descriptors_h200.npz")
    cases = np.array([line.split() for line in recording["cases"].tolist()], np.int64)
    names = ["none", "128B", "64B", "32B"]
    for major in (0, 1):
        chosen = np.flatnonzero(cases[:, 5] == major)[::PART]
        words = [
            word(SharedDescriptor(start=start, lbo=lbo, sbo=sbo, base_offset=base, swizzle=names[layout]))
            for start, lbo, sbo, base, layout, _ in cases[chosen].tolist()
        ]
        found = np.zeros((len(chosen), 64, 16), np.int64)
        for digit in range(2):
            found += read_by_descriptor(words, digit, a_mn=bool(major)).astype(np.int64) << 10 * digit
        assert np.array_equal(found, recording["index"][chosen])


PART = 6
"""Of so many descriptors one is taken; `test_descriptor_layout` has them all."""

WINDOW = 131072


def read_by_descriptor(words: list[int], digit: int, a_mn: bool) -> np.ndarray:
    """A of every descriptor, (n, 64, 16): shared memory has the digits of its elements' numbers, B is the identity."""
    mma = Wgmma("m64n16k16.f32.f16.f16", a_mn=a_mn)
    image = np.zeros(WINDOW + 512, np.uint8)
    image[:WINDOW] = (np.arange(WINDOW // 2) >> 10 * digit & 1023).astype(np.float16).view(np.uint8)
    one = tile(16, 32, "none", WINDOW)
    lay(image, one, np.eye(16, dtype=np.float16))
    work = instructions(mma, [(0, word(one))], ["0"])
    work.insert(1, "mov.u32 %i, %ctaid.x; mul.wide.u32 %w, %i, 8; add.u64 %w, %p_a, %w;")
    work.insert(2, "ld.global.b64 %w, [%w]; add.u64 %da0, %base, %w;")
    text = kernel(mma, image.size, work)
    out = "mul.wide.u32 %w, %i, 4096; add.u64 %at, %at, %w;\nst.global.b32 [%at+0]"
    text = text.replace("st.global.b32 [%at+0]", out)
    buffers = {
        "image": image.view(np.uint32), "a": np.array(words, np.uint64), "c": np.zeros(1024, np.uint32),
        "out": np.zeros(len(words) * 1024, np.uint32),
    }  # fmt: skip
    result = execute(
        text,
        buffers,
        grid=(len(words), 1, 1),
        block=(128, 1, 1),
        shared_bytes=image.size,
        pointers=("image", "a", "c", "out"),
    )
    return np.stack([collect_sums(part, 16, "f32") for part in result.buffers["out"].reshape(len(words), -1)])


RANDOM = recordings("warpgroups_h200.npz")
OFTEN = RANDOM[::5]


def replay(recording: Recording) -> None:
    """Every byte that an H200 gave, by exact numerics."""
    assert recording.status == 1
    exact = execute_program(recording.program, options=RunOptions(switches=Switches(numerics="exact")))
    assert np.array_equal(exact.buffers["out"], recording.after["out"])


@pytest.mark.one_of(3)
@pytest.mark.parametrize("recording", OFTEN, ids=lambda recording: recording.name)
def test_random_numbers_on_an_h200(recording):
    replay(recording)


@pytest.mark.slow
@pytest.mark.parametrize("recording", [r for r in RANDOM if r not in OFTEN], ids=lambda recording: recording.name)
def test_more_random_numbers_on_an_h200(recording):
    replay(recording)


class Announced:
    """Shared memory of which only what is asked for has its bytes: the others are ones."""

    def __init__(self, image: np.ndarray) -> None:
        self.image = image

    def part(self, low: int, high: int) -> np.ndarray:
        room = np.full((1, len(self.image)), 0xFF, np.uint8)
        room[:, low:high] = self.image[low:high]
        return room


@pytest.mark.parametrize("start", [0, 4096])
@pytest.mark.parametrize("mn_major", [False, True])
@pytest.mark.parametrize("swizzle", ["none", "64B", "128B"])
def test_an_operand_asks_for_all_that_it_reads(swizzle, mn_major, start):
    """Writes that wait are performed for what is asked for alone."""
    rng = np.random.default_rng(0)
    matrix = rng.integers(-9, 9, (64, 16)).astype(np.float16)
    width = WIDTH[swizzle]
    tiled = SharedDescriptor(start=start, lbo=1024, sbo=width * 8, swizzle=swizzle)
    image = np.zeros(16384, np.uint8)
    lay(image, tiled, matrix, mn_major)
    operand = SmemMatrix(
        name="A", words=(word(tiled),), extent=64, rows=np.arange(64), columns=16, element="f16", mn_major=mn_major
    )
    assert np.array_equal(operand.fetch(Announced(image))(slice(None))[0], matrix)
