"""What tensor maps `check` refuses, and in which words. (That its limits are the driver's: test_tma_recordings.)"""

from __future__ import annotations

import msgspec
import pytest

from convc.errors import LaunchError
from convc.ir.tensormap import TensorMap, check

TILE = TensorMap(
    mode="tile",
    buffer="w",
    dtype="f16",
    dims=(64, 9, 32),
    strides=(128, 1152),
    box=(64, 1, 32),
    element_strides=(1, 1, 1),
    swizzle="128B",
)
IM2COL = TensorMap(
    mode="im2col",
    buffer="x",
    dtype="f16",
    dims=(64, 9, 7, 3),
    strides=(128, 1152, 8064),
    channels=64,
    pixels=128,
    element_strides=(1, 1, 1, 1),
    lower=(-1, -1),
    upper=(-1, -1),
    swizzle="128B",
)
WIDE = msgspec.structs.replace(IM2COL, mode="im2col_w", lower=(-1,), upper=(-1,))
IM2COL_5D = msgspec.structs.replace(
    IM2COL,
    dims=(64, 9, 7, 3, 1),
    strides=(128, 1152, 8064, 24192),
    element_strides=(1,) * 5,
    lower=(-1, -1, 0),
    upper=(-1, -1, 0),
)


PADDED = msgspec.structs.replace(TILE, dtype="b4x16_p64", dims=(128, 9, 32), box=(128, 1, 8))


@pytest.mark.parametrize("tmap", [TILE, IM2COL, WIDE, IM2COL_5D, PADDED])
def test_the_base_maps_are_good_and_fit_exactly(tmap):
    check(tmap, tmap.tensor_bytes)
    with pytest.raises(LaunchError, match="the tensor must be inside buffer"):
        check(tmap, tmap.tensor_bytes - 1)


@pytest.mark.parametrize(
    ("tmap", "changes", "message"),
    [
        (TILE, {"mode": "tiled"}, "mode must be one of tile, im2col, im2col_w, im2col_w128, got 'tiled'"),
        (TILE, {"dtype": "s8"}, r"dtype \(tensorDataType\) must be one of u8, .*, got 's8'"),
        (TILE, {"swizzle": "96B"}, "swizzle must be one of none, 32B, .*, got '96B'"),
        (TILE, {"fill": "inf"}, r"fill \(oobFill\) must be zero or nan, got 'inf'"),
        (TILE, {"fill": "nan", "dtype": "u16"}, r"fill \(oobFill\) must be zero for u16, got nan"),
        (TILE, {"dims": ()}, r"number of dims \(tensorRank\) must be 1 to 5 in mode tile, got 0"),
        (TILE, {"dims": (1,) * 6}, r"\(tensorRank\) must be 1 to 5 in mode tile, got 6"),
        (IM2COL, {"dims": (64, 9)}, r"\(tensorRank\) must be 3 to 5 in mode im2col, got 2"),
        (TILE, {"offset": 8}, r"offset \(globalAddress\) must be a multiple of 16, got 8"),
        (TILE, {"offset": -16}, r"offset \(globalAddress\) must be a multiple of 16, got -16"),
        (TILE, {"dims": (64, 0, 32)}, r"dims\[1\] \(globalDim\[1\]\) must be in 1\.\.2\^32, got 0"),
        (TILE, {"strides": (128,)}, r"strides \(globalStrides\) must be rank - 1 = 2 numbers"),
        (TILE, {"strides": (120, 1152)}, r"strides\[0\] \(globalStrides\[0\]\) must be a multiple of 16 .*120"),
        (TILE, {"strides": (128, 1 << 40)}, r"strides\[1\] .* below 2\^40"),
        (TILE, {"element_strides": (1, 1)}, r"element_strides \(elementStrides\) must be rank = 3 numbers"),
        (TILE, {"element_strides": (1, 9, 1)}, r"\[1\] \(elementStrides\[1\]\) must be in 1\.\.8, got 9"),
        (TILE, {"element_strides": (0, 1, 1)}, r"element_strides\[0\] .* in 1\.\.8, got 0"),
        (TILE, {"box": (64, 1)}, r"box \(boxDim\) must be rank = 3 numbers"),
        (TILE, {"box": (64, 0, 32)}, r"box\[1\] \(boxDim\[1\]\) must be in 1\.\.256, got 0"),
        (TILE, {"box": (64, 1, 257)}, r"box\[2\] \(boxDim\[2\]\) must be in 1\.\.256, got 257"),
        (TILE, {"box": (60, 1, 32)}, r"box\[0\] \(boxDim\[0\]\) times the element size .* 16 bytes, got 120 bytes"),
        (TILE, {"box": (128, 1, 32)}, r"at most the 128-byte span of swizzle 128B, got 256 bytes"),
        (TILE, {"swizzle": "64B"}, r"at most the 64-byte span of swizzle 64B, got 128 bytes"),
        (TILE, {"box": (64, 8, 256)}, r"one copy must be at most 233472 bytes \(shared memory\), got 262144 bytes"),
        (TILE, {"pixels": 64}, "pixels must be left out in mode tile, got 64"),
        (TILE, {"lower": (0,)}, "lower must be left out in mode tile"),
        (IM2COL, {"box": (64,)}, r"box \(boxDim\) must be left out in mode im2col"),
        (IM2COL, {"channels": 0}, r"channels \(channelsPerPixel\) must be in 1\.\.256, got 0"),
        (IM2COL, {"channels": 264}, r"channels \(channelsPerPixel\) must be in 1\.\.256, got 264"),
        (IM2COL, {"channels": 60}, r"channels \(channelsPerPixel\) times the element size .* got 120 bytes"),
        (IM2COL, {"channels": 72}, "at most the 128-byte span"),
        (IM2COL, {"pixels": 0}, r"pixels \(pixelsPerColumn\) must be in 1\.\.1024, got 0"),
        (IM2COL, {"pixels": 1025}, r"pixels \(pixelsPerColumn\) must be in 1\.\.1024, got 1025"),
        (IM2COL, {"lower": (-1,)}, r"lower \(pixelBoxLowerCorner\) must be 2 number\(s\) in mode im2col"),
        (IM2COL, {"lower": (-129, 0)}, r"\(pixelBoxLowerCorner\) must be in -128\.\.127 for a map of rank 4"),
        (IM2COL, {"upper": (0, 128)}, r"upper\[1\] \(pixelBoxUpperCorner\) must be in -128\.\.127"),
        (IM2COL_5D, {"lower": (0, 0, -17)}, r"lower\[2\] .* must be in -16\.\.15 for a map of rank 5"),
        (IM2COL, {"upper": (-1, -8)}, "the bounding box along H must be at least one pixel wide, got 0"),
        (WIDE, {"lower": (-1, -1)}, r"lower \(pixelBoxLowerCornerWidth\) must be 1 number\(s\) in mode im2col_w"),
        (WIDE, {"lower": (-32769,)}, r"lower\[0\] \(pixelBoxLowerCornerWidth\) must be in -32768\.\.32767"),
        (TILE, {"dtype": "b4x16", "dims": (63, 9, 32)}, r"dims\[0\] .* a multiple of 2 for b4x16, got 63"),
        (TILE, {"dtype": "b4x16", "box": (33, 1, 1)}, r"times the element size must be a multiple of 16 bytes"),
        (TILE, {"dtype": "b4x16", "fill": "nan"}, "must be zero for b4x16, got nan"),
        (PADDED, {"dims": (64, 9, 32)}, r"dims\[0\] .* a multiple of 128 for b4x16_p64, got 64"),
        (PADDED, {"offset": 16}, r"offset \(globalAddress\) must be a multiple of 32 for b4x16_p64, got 16"),
        (PADDED, {"strides": (80, 1152)}, r"strides\[0\] .* a multiple of 32 for b4x16_p64, got 80"),
        (PADDED, {"box": (64, 1, 8)}, r"box\[0\] must be 128 for b4x16_p64, got 64"),
        (PADDED, {"swizzle": "128B_atom64", "dtype": "b6x16_p32"}, "one of none, 128B, 128B_atom32 for b6x16_p32"),
        (WIDE, {"swizzle": "none"}, "swizzle must be 64B, 128B or 128B_atom32 in mode im2col_w, got none"),
        (WIDE, {"mode": "im2col_w128", "swizzle": "32B", "channels": 16}, "swizzle must be 64B, 128B or 128B_atom32"),
    ],
)
def test_messages(tmap, changes, message):
    with pytest.raises(LaunchError, match=message) as caught:
        check(msgspec.structs.replace(tmap, **changes), 1 << 60, "parameter 'map_a'")
    assert caught.value.where == "parameter 'map_a'"


def test_interleaved_maps_are_refused_by_name():
    described = msgspec.json.encode(msgspec.structs.asdict(TILE) | {"interleave": "16B"})
    with pytest.raises(msgspec.ValidationError, match="unknown field `interleave`"):
        msgspec.json.decode(described, type=TensorMap)


def test_hints_say_what_to_do():
    with pytest.raises(LaunchError) as caught:
        check(msgspec.structs.replace(TILE, strides=(120, 1152)), 1 << 60)
    assert caught.value.hint == "pad the innermost dimension in memory to 16 bytes"


def test_w128_needs_no_pixels_and_w_allows_wide_corners():
    check(msgspec.structs.replace(WIDE, mode="im2col_w128", pixels=0), 1 << 60)
    check(msgspec.structs.replace(WIDE, lower=(-300,)), 1 << 60)


@pytest.mark.parametrize(
    ("tmap", "rows", "row_bytes", "pitch"),
    [
        (TILE, 32, 128, 128),
        (msgspec.structs.replace(TILE, box=(24, 4, 5), element_strides=(1, 3, 2), swizzle="64B"), 2 * 3, 48, 64),
        (msgspec.structs.replace(TILE, box=(24, 4, 5), swizzle="none"), 20, 48, 48),
        (IM2COL, 128, 128, 128),
        (msgspec.structs.replace(WIDE, mode="im2col_w128", pixels=0), 128, 128, 128),
        (PADDED, 8, 128, 128),
        (msgspec.structs.replace(TILE, dtype="b4x16", swizzle="none"), 32, 32, 32),
    ],
)
def test_geometry_of_one_copy(tmap, rows, row_bytes, pitch):
    assert (tmap.rows, tmap.row_bytes, tmap.row_pitch) == (rows, row_bytes, pitch)
