"""The tensor loader against a slow oracle, for many CTAs and repeated copies, and its faults."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest
import tma_oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.errors import LaunchError, MachineFault
from convc.ir.element_types import ELEMENT_TYPES
from convc.ir.tensormap import SWIZZLE_SPAN, TensorMap
from convc.machine.tma.cache import WalkCache
from convc.machine.tma.load import TensorLoader
from convc.machine.tma.source import round_tf32

SHARED = 20 << 10
UNTOUCHED = 0xCD
WIDE_SWIZZLES = ("64B", "128B", "128B_atom32")


def make_memory(size: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def make_map(rng: random.Random) -> TensorMap:
    """A random valid map with a small tensor and box."""
    mode = rng.choice(["tile", "im2col", "im2col", "im2col_w", "im2col_w128"])
    dtype = rng.choice(["u8", "f16", "bf16", "f32", "f64"])
    size = ELEMENT_TYPES[dtype].bytes
    unit = 16 // size
    rank = rng.randint(1, 5) if mode == "tile" else rng.randint(3, 5)
    swizzle = rng.choice(WIDE_SWIZZLES if mode.startswith("im2col_w") else tuple(SWIZZLE_SPAN))
    inner = rng.randint(1, (SWIZZLE_SPAN[swizzle] or 64) // 16) * unit
    dims = (rng.randint(1, 9 * unit), *(rng.randint(1, 6) for _ in range(rank - 1)))
    strides, line = [], dims[0] * size
    for extent in dims[1:]:
        strides.append(-(-line // 16) * 16 + 16 * rng.randint(0, 1))
        line = strides[-1] * extent
    fields = {"box": (inner, *(rng.randint(1, 4) for _ in range(rank - 1)))}
    if mode != "tile":
        bounded = rank - 2 if mode == "im2col" else 1
        lower = tuple(rng.randint(-2, 2) for _ in range(bounded))
        upper = tuple(max(rng.randint(-2, 2), low - n + 1) for n, low in zip(dims[1:], lower, strict=False))
        fields = {"channels": inner, "pixels": rng.randint(1, 40), "lower": lower, "upper": upper}
    return TensorMap(
        mode=mode,
        buffer="x",
        dtype=dtype,
        dims=dims,
        strides=tuple(strides),
        offset=16 * rng.randint(0, 2),
        element_strides=tuple(rng.choice([1, 1, 2, 3]) for _ in dims),
        swizzle=swizzle,
        fill=rng.choice(["zero", "nan"]) if dtype != "u8" else "zero",
        **fields,
    )


def make_coords(rng: random.Random, tmap: TensorMap) -> tuple[int, ...]:
    """Start coordinates that the mode allows, in and out of the tensor."""
    unit = 16 // tmap.element_bytes
    coords = [unit * rng.randint(-2, tmap.dims[0] // unit + 1)]
    for axis, extent in enumerate(tmap.dims[1:]):
        low, high = -3, extent + 2
        if axis < len(tmap.lower):
            high = extent + tmap.upper[axis] - 1
            low = tmap.lower[axis] if tmap.mode == "im2col" else tmap.lower[axis] - 4
        coords.append(rng.randint(low, high))
    return tuple(coords)


def make_offsets(rng: random.Random, tmap: TensorMap) -> tuple[int, ...]:
    if tmap.mode == "tile":
        return ()
    if tmap.mode == "im2col":
        return tuple(rng.randint(0, 3) for _ in range(tmap.rank - 2))
    return rng.randint(0, 3), rng.randint(0, 3)


def fresh(ctas: int) -> np.ndarray:
    return np.full((ctas, SHARED + 1024), UNTOUCHED, np.uint8)


@settings(max_examples=some(150), deadline=None)
@given(st.integers(0, 10**9))
def test_one_copy_is_what_the_oracle_says(seed):
    rng = random.Random(seed)
    tmap = make_map(rng)
    memory = make_memory(tmap.offset + tmap.tensor_bytes + rng.randint(0, 40), seed)
    address, coords, offsets = 128 * rng.randint(0, 9), make_coords(rng, tmap), make_offsets(rng, tmap)
    smem, expected = fresh(1), fresh(1)
    count, filled, touched = tma_oracle.copy(tmap, memory, expected[0], address, coords, offsets)
    result = TensorLoader(tmap, memory).load(smem, address, coords, offsets)
    assert np.array_equal(smem, expected)
    assert (result.bytes, result.filled) == (count, filled)
    assert {address + p for start, stop in result.written for p in range(start, stop)} == touched
    assert all(stop < later for (_, stop), (later, _) in zip(result.written, result.written[1:], strict=False))


@settings(max_examples=some(60), deadline=None)
@given(st.integers(0, 10**9))
def test_many_ctas_at_once_are_one_copy_each(seed):
    """Uniform numbers and arrays mixed, with and without equal coordinates, on a subset of the CTAs."""
    rng = random.Random(seed)
    tmap = make_map(rng)
    memory = make_memory(tmap.offset + tmap.tensor_bytes, seed)
    ctas = rng.randint(1, 7)
    taking_part = sorted(rng.sample(range(ctas), rng.randint(1, ctas)))
    distinct = [make_coords(rng, tmap) for _ in range(rng.randint(1, 3))]
    chosen = [rng.choice(distinct) for _ in taking_part]
    columns = [np.array(column, rng.choice([np.int32, np.int64])) for column in zip(*chosen, strict=True)]
    coords = tuple(int(c[0]) if (c == c[0]).all() and rng.random() < 0.5 else c for c in columns)
    offsets, address = make_offsets(rng, tmap), 128 * rng.randint(0, 9)
    smem, expected = fresh(ctas), fresh(ctas)
    rows = None if len(taking_part) == ctas else np.array(taking_part)
    result = TensorLoader(tmap, memory).load(smem, address, coords, offsets, rows)
    single = [
        TensorLoader(tmap, memory).load(expected[cta : cta + 1], address, own, offsets)
        for cta, own in zip(taking_part, chosen, strict=True)
    ]
    assert np.array_equal(smem, expected)
    assert result.filled == sum(own.filled for own in single)


@settings(max_examples=some(40), deadline=None)
@given(st.integers(0, 10**9))
def test_a_loader_that_remembers_copies_like_a_new_one(seed):
    """A K loop: the same starts again with other channels, offsets and addresses, among other starts."""
    rng = random.Random(seed)
    tmap = make_map(rng)
    memory = make_memory(tmap.offset + tmap.tensor_bytes, seed)
    loader = TensorLoader(tmap, memory)
    loader.walks = WalkCache(tmap, rng.choice([0, 20_000, 1 << 20]))
    starts = [make_coords(rng, tmap)[1:] for _ in range(2)]
    starts.append((*starts[0][:-1], *starts[1][-1:]))  # as the first, from another last coordinate on
    for _ in range(6):
        coords = (make_coords(rng, tmap)[0], *rng.choice(starts))
        offsets, address = make_offsets(rng, tmap), 128 * rng.randint(0, 9)
        smem, expected = fresh(2), fresh(2)
        assert loader.load(smem, address, coords, offsets) == TensorLoader(tmap, memory).load(
            expected, address, coords, offsets
        )
        assert np.array_equal(smem, expected)


def test_coordinates_are_32_bit_registers():
    tmap = TensorMap(
        mode="tile", buffer="x", dtype="f16", dims=(16, 4), strides=(32,), box=(16, 2), element_strides=(1, 1)
    )
    memory = make_memory(tmap.tensor_bytes)
    smem, expected = fresh(2), fresh(2)
    loader = TensorLoader(tmap, memory)
    loader.load(expected, 0, (-8, np.array([-1, 3])))
    loader.load(smem, 0, (np.uint32(2**32 - 8), np.array([2**32 - 1, 3], np.uint32)))
    assert np.array_equal(smem, expected)
    loader.load(smem, 0, (2**32 - 8, np.array([2**32 - 1, 3], np.int64)))
    assert np.array_equal(smem, expected)


def test_a_dimension_may_be_longer_than_a_coordinate_can_say():
    tmap = TensorMap(
        mode="tile", buffer="x", dtype="u8", dims=(16, 1 << 32), strides=(0,), box=(16, 2), element_strides=(1, 1)
    )
    smem = fresh(1)
    TensorLoader(tmap, np.arange(16, dtype=np.uint8)).load(smem, 0, (0, 2**31 - 2))
    assert smem[0, :33].tolist() == [*range(16), *range(16), UNTOUCHED]


def test_the_walks_kept_are_bounded():
    tmap = TensorMap(
        mode="tile", buffer="x", dtype="f16", dims=(64, 64), strides=(128,), box=(64, 64), element_strides=(1, 1)
    )
    cache = WalkCache(tmap, 3000)
    steps = np.arange(64)
    first = cache.find((0,), steps, 1)
    assert cache.find((0,), steps, 1) is first
    for start in range(1, 20):
        cache.find((start,), steps, 1)
        assert sum(walk.size for walk in cache._walks.values()) == cache._bytes <= 3000
    assert cache.find((0,), steps, 1) is not first


# --- im2col::w and im2col::w::128 ------------------------------------------------------------------------------------


def image_rows(width: int, **fields) -> TensorMap:
    """W x 3 x 2 pixels of 64 bytes; byte 0 of a pixel is W + 1, byte 1 H, byte 2 N."""
    defaults = {
        "mode": "im2col_w",
        "buffer": "x",
        "dtype": "u8",
        "dims": (64, width, 3, 2),
        "strides": (64, 64 * width, 192 * width),
        "channels": 64,
        "swizzle": "64B",
    }
    return TensorMap(**(defaults | fields))


def pixels_of(tmap: TensorMap, coords, offsets) -> list[tuple[int, int, int] | None]:
    """(W, H, N) of every shared row, None where it was filled."""
    width = tmap.dims[1]
    memory = np.zeros((2, 3, width, 64), np.uint8)
    memory[..., 0] = np.arange(width) + 1
    memory[..., 1] = np.arange(3)[:, None]
    memory[..., 2] = np.arange(2)[:, None, None]
    smem = fresh(1)
    result = TensorLoader(tmap, memory.reshape(-1)).load(smem, 0, coords, offsets)
    rows = result.bytes // 64
    place = np.arange(rows) * 64
    place ^= (place >> 7 & 3) << 4
    found = [smem[0, p : p + 3].tolist() for p in place]
    return [(w - 1, h, n) if w else None for w, h, n in found]


def widths(tmap: TensorMap, coords, offsets) -> list[int | None]:
    return [pixel and pixel[0] for pixel in pixels_of(tmap, coords, offsets)]


def test_wide_example_with_stride_2():
    """PTX manual, im2col::w example (a): 9 pixels wide, box -1..0, stride 2; two buffers share a row's pixels."""
    tmap = image_rows(9, lower=(-1,), upper=(0,), element_strides=(1, 2, 1, 1), pixels=4)
    assert widths(tmap, (0, -1, 1, 0), (1, 0)) == [None, 1, 3, 5, 7]
    assert widths(tmap, (0, -1, 1, 0), (0, 1)) == [0, 2, 4, 6]
    assert widths(msgspec.structs.replace(tmap, pixels=5), (0, -1, 1, 0), (0, 1)) == [0, 2, 4, 6, 8]


def test_wide_example_with_stride_3():
    """PTX manual, example (b): 7 pixels wide, box -1..-1, stride 3; W = 7 lies outside the tensor."""
    tmap = image_rows(7, lower=(-1,), upper=(-1,), element_strides=(1, 3, 1, 1), pixels=3)
    assert widths(tmap, (0, -1, 0, 0), (0, 0)) == [None, 2, 5]
    assert widths(tmap, (0, -1, 0, 0), (0, 1)) == [0, 3, 6]
    assert widths(tmap, (0, -1, 0, 0), (0, 2)) == [1, 4, None]


def test_wide_walk_runs_along_one_row_and_then_to_the_next_image():
    tmap = image_rows(3, lower=(0,), upper=(0,), element_strides=(1, 1, 1, 1), pixels=6)
    assert pixels_of(tmap, (0, 1, 2, 0), (1, 0)) == [
        (1, 2, 0),
        (2, 2, 0),
        (0, 2, 1),
        (1, 2, 1),
        (2, 2, 1),
        None,
        None,
    ]


def test_wide_walk_may_start_left_of_its_box():
    tmap = image_rows(3, lower=(1,), upper=(0,), element_strides=(1, 1, 1, 1), pixels=6)
    assert widths(tmap, (0, -1, 2, 0), (0, 0)) == [None, 0, 1, 2, 1, 2]


def test_wide_walk_reads_fill_in_a_row_outside_the_image():
    tmap = image_rows(3, lower=(0,), upper=(0,), element_strides=(1, 1, 1, 1), pixels=3)
    assert widths(tmap, (0, 0, -1, 0), (0, 0)) == [None, None, None]
    assert widths(tmap, (0, 0, 3, 0), (0, 0)) == [None, None, None]


def test_w128_puts_halo_pixel_h_of_group_g_into_row_128_plus_4h_plus_g():
    tmap = image_rows(200, lower=(-1,), upper=(0,), element_strides=(1, 1, 1, 1), mode="im2col_w128")
    found = widths(tmap, (0, -1, 0, 0), (2, 0))
    assert len(found) == 128 + 4 * 2
    assert found[:128] == [None, *range(127)]
    assert found[128:132] == [31, 63, 95, 127]
    assert found[132:] == [32, 64, 96, 128]
    assert widths(tmap, (0, -1, 0, 0), (0, 1)) == list(range(128))


# --- tf32 and changing memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (0x3F800000, 0x3F800000),  # exact
        (0x3F801000, 0x3F800000),  # tie, to even
        (0x3F803000, 0x3F804000),  # tie, to even
        (0x3F801001, 0x3F802000),
        (0xBF800FFF, 0xBF800000),
        (0x3FFFFFFF, 0x40000000),  # carry into the exponent
        (0x7F7FF000, 0x7F800000),  # overflow
        (0x00001001, 0x00002000),  # subnormal
        (0xFF800000, 0xFF800000),  # infinity
        (0xFF800001, 0x7FFFE000),  # NaN
        (0xFFFFFFFF, 0x7FFFE000),  # NaN whose rounding would wrap around
    ],
)
def test_tf32_rounding(bits, expected):
    assert round_tf32(np.array([bits], np.uint32)).tolist() == [expected]


def test_tf32_map_rounds_and_notices_new_memory_when_told():
    tmap = TensorMap(
        mode="tile", buffer="x", dtype="tf32", dims=(8, 1), strides=(32,), box=(8, 1), element_strides=(1, 1)
    )
    memory = np.full(8, 1.0, np.float32)
    loader, smem = TensorLoader(tmap, memory.view(np.uint8)), fresh(1)
    loader.load(smem, 0, (0, 0))
    assert smem[0, :32].view(np.float32).tolist() == [1.0] * 8
    memory[:] = 1.0 + 2**-12
    loader.invalidate()
    loader.load(smem, 0, (0, 0))
    assert smem[0, :32].view(np.float32).tolist() == [1.0] * 8
    memory[:] = 3.0 + 2**-9
    loader.invalidate()
    loader.load(smem, 0, (0, 0))
    assert smem[0, :32].view(np.float32).tolist() == [3.0 + 2**-9] * 8


def test_plain_maps_see_memory_as_it_is():
    tmap = TensorMap(
        mode="tile", buffer="x", dtype="u8", dims=(16, 1), strides=(16,), box=(16, 1), element_strides=(1, 1)
    )
    memory = np.zeros(32, np.uint8)
    loader, smem = TensorLoader(tmap, memory), fresh(1)
    loader.load(smem, 0, (0, 0))
    memory[:] = 7
    loader.load(smem, 0, (0, 0))
    assert smem[0, :17].tolist() == [7] * 16 + [UNTOUCHED]


# --- faults ----------------------------------------------------------------------------------------------------------

PIXELS = TensorMap(
    mode="im2col",
    buffer="x",
    dtype="f16",
    dims=(64, 9, 7, 3),
    strides=(128, 1152, 8064),
    channels=64,
    pixels=16,
    element_strides=(1, 1, 1, 1),
    lower=(-1, -1),
    upper=(-1, -1),
    swizzle="128B",
)
WIDE = msgspec.structs.replace(PIXELS, mode="im2col_w128", lower=(-1,), upper=(-1,))


@pytest.mark.parametrize(
    ("tmap", "address", "coords", "offsets", "mode", "message"),
    [
        (PIXELS, 64, (0, 0, 0, 0), (0, 0), None, "multiple of 128, got 0x40"),
        (PIXELS, SHARED, (0, 0, 0, 0), (0, 0), None, "ends at 0x5800, but the CTA has 0x5400 bytes"),
        (PIXELS, -1024, (0, 0, 0, 0), (0, 0), None, "shared address -0x400"),
        (PIXELS, 0, (4, 0, 0, 0), (0, 0), None, r"coordinate 0 .* multiple of 16 bytes, got element 4 of 2 byte"),
        (PIXELS, 0, (np.array([0, 4]), 0, 0, 0), (0, 0), None, "got element 4 of 2 byte"),
        (PIXELS, 0, (0, -2, 0, 0), (0, 0), None, r"coordinate -2 along W, expected -1 <= start < 8"),
        (PIXELS, 0, (0, 8, 0, 0), (0, 0), None, r"coordinate 8 along W, expected -1 <= start < 8"),
        (PIXELS, 0, (0, 0, np.array([0, 6]), 0), (0, 0), None, r"coordinate 6 along H, expected -1 <= start < 6"),
        (WIDE, 0, (0, 8, 0, 0), (0, 0), None, r"coordinate 8 along W, expected start < 8"),
        (PIXELS, 0, (0, 0, 0, 0), (0,), None, r"mode im2col .* takes 2 offset operand\(s\), got 1"),
        (PIXELS, 0, (0, 0, 0, 0), (0, 256), None, r"offset along H must be in 0\.\.255 .* rank 4, got 256"),
        (WIDE, 0, (0, 0, 0, 0), (32, 0), None, r"wHalo must be in 0\.\.31 for mode im2col_w128, got 32"),
        (WIDE, 0, (0, 0, 0, 0), (0, 32), None, r"wOffset must be in 0\.\.31"),
        (PIXELS, 0, (0, 0, 0), (0, 0), None, "rank 4 takes 4 coordinates, got 3"),
        (PIXELS, 0, (0, 0, 0, 0), (0, 0), "tile", "copies in mode tile, its tensor map is of mode im2col"),
    ],
)
def test_faults(tmap, address, coords, offsets, mode, message):
    loader, smem = TensorLoader(tmap, make_memory(tmap.tensor_bytes)), fresh(2)
    for _ in range(2):  # a fault must not leave anything behind that lets the second try pass
        with pytest.raises(MachineFault, match=message):
            loader.load(smem, address, coords, offsets, mode=mode)


def test_a_loader_refuses_a_wrong_map():
    with pytest.raises(LaunchError, match="the tensor must be inside buffer 'x' of 1024 bytes"):
        TensorLoader(PIXELS, make_memory(1024))
