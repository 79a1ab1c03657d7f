"""A launch file becomes data: bytes of parameters, places for addresses, and calls of the driver's encoders."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from unit.machine.tma_recordings import FOLDER, read

from convc import ptx
from convc.errors import LaunchError
from convc.gpu.contents import digest, drawn, filled
from convc.gpu.plan import Address, EncodedMap, declared_parameters, plan_launch
from convc.gpu.tensormaps import LAST_DRIVER_TO_FIX, SMALL_TENSOR_BYTES, encode_call, fixed
from convc.ir.element_types import BUFFER_TYPES
from convc.ir.launch import (
    BufferSpec,
    LaunchSpec,
    PointerParam,
    ScalarParam,
    StructField,
    StructParam,
    TensorMapParam,
)
from convc.ir.tensormap import TensorMap

TESTS = Path(__file__).parents[2]

TILE = TensorMap(
    mode="tile", buffer="a", offset=32, dtype="f16", dims=(64, 8), strides=(128,), box=(64, 4), element_strides=(1, 1),
    swizzle="128B", fill="nan",
)  # fmt: skip


def spec(*params, **more) -> LaunchSpec:
    buffers = {"a": BufferSpec(dtype="f16", shape=(2048,)), "b": BufferSpec(dtype="f32", shape=(16,))}
    return LaunchSpec(entry="k", grid=(4, 1, 1), block=(32, 1, 1), buffers=buffers, params=params, **more)


TEXTS = sorted(path for folder in ("foreign", "golden") for path in (TESTS / folder).rglob("*.ptx"))


@pytest.mark.one_of(3)
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_text_declares_as_many_parameters_as_the_reader_finds(path):
    text = path.read_text("utf-8")
    kernels = ptx.parse(text, path.name).kernels
    assert kernels
    for kernel in kernels:
        assert declared_parameters(text, kernel.name) == len(kernel.params), kernel.name


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", None),
        (".visible .entry kk(.param .u64 a) { }", None),
        (".visible .entry k() { }", 0),
        (".visible .entry k { .param .b32 p; }", 0),
        (".visible .entry k( // (.param\n .param .u64 .ptr .global .align 16 a, /* ) .param */ .param .b8 m[128])", 2),
        (".entry k$1(.param .u32 a) .entry k(.param .u64 .param_a, .param .align 64 .b8 m[128], .param .u32 n)", 3),
    ],
)
def test_what_a_text_declares(text, count):
    assert declared_parameters(text, "k") == count
    assert plan_launch(spec(), text).declared == count


def test_parameters_are_bytes_with_places():
    struct = StructParam(
        bytes="01" * 8 + "ff" * 16,
        fields=(
            StructField(at=8, param=PointerParam(buffer="a", offset=4)),
            StructField(at=16, param=ScalarParam(dtype="s32", value=-2)),
        ),
    )
    plan = plan_launch(spec(PointerParam(buffer="b"), ScalarParam(dtype="f16", value=1.5), struct))
    pointer, number, whole = plan.params
    assert (pointer.data, pointer.patches) == (bytes(8), (Address(at=0, buffer="b", offset=0),))
    assert number.data == np.float16(1.5).tobytes()
    assert whole.data == b"\1" * 8 + bytes(8) + b"\xfe\xff\xff\xff" + b"\xff" * 4
    assert whole.patches == (Address(at=8, buffer="a", offset=4),)
    assert not whole.grows
    assert plan.bytes == 4096 + 64


def test_a_map_is_a_call_of_its_encoder():
    (param,) = plan_launch(spec(TensorMapParam(map=TILE))).params
    (patch,) = param.patches
    assert isinstance(patch, EncodedMap)
    call = patch.call
    assert (len(param.data), call.function, call.buffer, call.offset) == (128, "cuTensorMapEncodeTiled", "a", 32)
    assert dict(call.before) == {"tensorDataType": 6, "tensorRank": 2}
    names = "globalDim globalStrides boxDim elementStrides interleave swizzle l2Promotion oobFill"
    assert [name for name, _ in call.after] == names.split()
    assert [value for _, value in call.after] == [(64, 8), (128,), (64, 4), (1, 1), 0, 3, 0, 1]
    assert call.tensor_bytes == 1024


@pytest.mark.parametrize(("mode", "number"), [("im2col_w", 0), ("im2col_w128", 1)])
def test_a_wide_map_has_a_mode_and_one_corner(mode, number):
    wide = TensorMap(
        mode=mode, buffer="x", dtype="f16", dims=(64, 9, 9, 2), strides=(128, 1152, 10368), lower=(-1,), upper=(-2,),
        channels=64, pixels=64, element_strides=(1, 1, 1, 1), swizzle="128B",
    )  # fmt: skip
    call = encode_call(wide)
    assert call.function == "cuTensorMapEncodeIm2colWide"
    corners = ("pixelBoxLowerCornerWidth", -1), ("pixelBoxUpperCornerWidth", -2)
    tail = ("interleave", 0), ("mode", number), ("swizzle", 3), ("l2Promotion", 0), ("oobFill", 0)
    assert call.after[2:4] == corners
    assert call.after[-5:] == tail


def test_what_the_text_asks_of_the_launch_is_seen():
    text = ".version 8.6\n.target sm_90a // Hopper\n griddepcontrol.wait; mov.u32 %r1, %envreg2;"
    plan = plan_launch(spec(cluster=(2, 1, 1)), text)
    assert (plan.target, plan.cooperative, plan.dependent, plan.cluster) == ("sm_90a", True, True, (2, 1, 1))
    plain = plan_launch(spec())
    assert (plain.target, plain.cooperative, plain.dependent) == ("", False, False)


@pytest.mark.parametrize(
    ("param", "said"),
    [
        (PointerParam(buffer="b", offset=65), "offset into buffer 'b' must be in 0..64"),
        (PointerParam(buffer="b", offset=-1), "offset into buffer 'b' must be in 0..64"),
        (PointerParam(buffer="c"), "names buffer 'c'"),
        (ScalarParam(dtype="u8", value=256), "256 does not fit in u8"),
        (ScalarParam(dtype="u8", value=1.5), "does not fit in u8"),
        (StructParam(bytes="00", fields=(StructField(at=0, param=PointerParam(buffer="a")),)), "has 1 bytes"),
        (TensorMapParam(map=msgspec.structs.replace(TILE, dims=(64, 80))), "inside buffer 'a'"),
    ],
)
def test_what_cannot_be_launched_is_refused(param, said):
    with pytest.raises(LaunchError, match=said):
        plan_launch(spec(param))


def test_drawn_numbers_are_small_and_differ_by_name_and_seed():
    for dtype in BUFFER_TYPES:
        values = drawn(BufferSpec(dtype=dtype, shape=(50, 20)), "x", 1).astype(np.float64)
        assert sorted(set(values.reshape(-1))) == (list(range(7)) if dtype[0] == "u" else list(range(-3, 4)))
    one = BufferSpec(dtype="s32", shape=(100,))
    assert len({digest(drawn(one, name, seed)) for name in "xy" for seed in range(3)}) == 6
    launch = spec()
    assert set(filled(launch, {}, None)) == set()
    assert set(filled(launch, {}, 1)) == {"a", "b"}
    with pytest.raises(LaunchError, match="takes f32"):
        filled(launch, {"b": np.zeros(3)}, None)


def test_a_digest_tells_order_and_bytes():
    data = np.arange(9, dtype=np.uint8)
    assert digest(np.zeros(0)) == "0" * 16
    assert len({digest(data), digest(data[::-1]), digest(data[:8]), digest(data[:-1] + 1)}) == 4


@pytest.fixture(scope="module")
def recorded() -> list[tuple[TensorMap, np.ndarray]]:
    """1000 tensor maps with the 128 bytes of an H200's driver, as words."""
    with np.load(FOLDER / "tma_h200.npz") as stored:
        maps = stored["maps"]
    return [(case.tmap, words) for case, words in zip(read("tma_h200.npz", False), maps.view("<u4"), strict=True)]


def test_the_drivers_bytes_hold_what_the_planned_calls_say(recorded):
    """The format is not public. Extents, strides, box and steps were found in it, and agree in every recorded map."""
    for tmap, words in recorded:
        call = encode_call(tmap)
        said = dict(call.after)
        assert [int(word) + 1 for word in words[8 : 8 + tmap.rank]] == list(said["globalDim"])
        assert [int(word) * 16 for word in words[3 : 2 + tmap.rank]] == list(said["globalStrides"])
        assert ((int(words[2]) >> 4 & 7) + 1) == dict(call.before)["tensorRank"]
        assert (call.function == "cuTensorMapEncodeIm2col") == (int(words[2]) & 1)
        inner = said["boxDim"][0] if "boxDim" in said else said["channelsPerPixel"]
        assert (int(words[13]) >> 24) + 1 == inner


def test_the_fix_for_small_tensors_clears_one_bit(recorded):
    small = b"\xff" * 128
    changed = np.frombuffer(small, "<u8") ^ np.frombuffer(fixed(small, SMALL_TENSOR_BYTES - 1, 13010), "<u8")
    assert changed.tolist() == [0, 1 << 21, *[0] * 14]
    assert fixed(small, SMALL_TENSOR_BYTES, 13010) == small
    assert fixed(small, 64, LAST_DRIVER_TO_FIX + 10) == small
    for tmap, words in recorded:
        assert fixed(words.tobytes(), tmap.tensor_bytes, 13000) == words.tobytes(), "on Hopper nothing changes"
