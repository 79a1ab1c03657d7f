"""Tensor maps as bytes: our encoding, tensormap.replace, and maps that copies find in memory."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings.program_text import FIRST, INIT, WAIT, dump, entry
from support.examples import some
from support.kernels import execute, module
from tma_programs import execute_program

from convc.errors import MachineFault
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, StructParam
from convc.ir.tensormap import TensorMap
from convc.machine import run
from convc.machine.memory.global_memory import GlobalMemory
from convc.machine.tma.tensormap_bytes import RECORD, SIZE, SWIZZLES, TYPES, decode, encode, map_at, replace

IM2COL = TensorMap(
    mode="im2col",
    buffer="src",
    dtype="bf16",
    dims=(64, 9, 7, 2),
    strides=(128, 1152, 8064),
    channels=64,
    pixels=32,
    element_strides=(1, 2, 1, 1),
    lower=(-1, -2),
    upper=(0, -1),
    swizzle="128B",
    fill="nan",
    offset=64,
)
TILE = TensorMap(
    mode="tile", buffer="src", dtype="u8", dims=(64, 1 << 32), strides=(64,), box=(64, 256), element_strides=(1, 8)
)


@settings(max_examples=some(60), deadline=None)
@given(
    st.sampled_from([IM2COL, TILE]), st.sampled_from(TYPES), st.sampled_from(sum(SWIZZLES, ())), st.integers(0, 2**44)
)
def test_a_map_survives_its_bytes(tmap, dtype, swizzle, address):
    tmap = msgspec.structs.replace(tmap, dtype=dtype, swizzle=swizzle)
    raw = encode(tmap, address)
    assert len(raw) == SIZE
    assert decode(raw) == (msgspec.structs.replace(tmap, buffer="", offset=0), address)


@pytest.mark.parametrize("mode", ["im2col_w", "im2col_w128"])
def test_wide_maps_have_one_corner(mode):
    tmap = msgspec.structs.replace(IM2COL, mode=mode, lower=(-300,), upper=(7,))
    assert decode(encode(tmap, 0))[0] == msgspec.structs.replace(tmap, buffer="", offset=0)


def test_zero_bytes_are_a_blank_map():
    assert decode(bytes(SIZE))[0] == TensorMap(
        mode="tile", buffer="", dtype="u8", dims=(1,), strides=(), box=(1,), element_strides=(1,)
    )


def test_fields_do_not_overlap():
    used = np.zeros(SIZE, int)
    for kind, offset in RECORD.fields.values():
        used[offset : offset + kind.itemsize] += 1
    assert used.max() == 1


def test_every_field_can_be_replaced():
    raw = np.zeros((2, SIZE), np.uint8)
    for field, index, value in (
        ("rank", 0, 1),
        ("elemtype", 0, 6),
        ("swizzle_mode", 0, 3),
        ("swizzle_atomicity", 0, 1),
        ("fill_mode", 0, 1),
        ("interleave_layout", 0, 0),
        ("global_address", 0, np.array([1 << 40, (1 << 40) + 512])),
        ("global_dim", 0, 64),
        ("global_dim", 1, 20),
        ("global_stride", 0, 128),
        ("box_dim", 0, 64),
        ("box_dim", 1, 4),
        ("element_stride", 0, 1),
        ("element_stride", 1, 2),
    ):
        replace(raw, field, index, value)
    memory = GlobalMemory()
    memory.add("x", np.zeros(8192, np.uint8))
    expected = TensorMap(
        mode="tile",
        buffer="x",
        dtype="f16",
        dims=(64, 20),
        strides=(128,),
        box=(64, 4),
        element_strides=(1, 2),
        swizzle="128B_atom32",
        fill="nan",
    )
    for map_bytes, offset in zip(raw, (0, 512), strict=True):
        assert map_at(map_bytes.tobytes(), memory, 0)[0] == msgspec.structs.replace(expected, offset=offset)


@pytest.mark.parametrize(
    ("field", "index", "value", "message"),
    [
        ("rank", 0, 5, r"\.rank must be in 0\.\.4, got 5"),
        ("elemtype", 0, 16, r"\.elemtype must be in 0\.\.15, got 16"),
        ("fill_mode", 0, 2, r"\.fill_mode must be in 0\.\.1"),
        ("global_stride", 4, 16, r"\.global_stride has 4 numbers, got index 4"),
    ],
)
def test_values_that_no_map_has(field, index, value, message):
    with pytest.raises(MachineFault, match=message):
        replace(np.zeros((1, SIZE), np.uint8), field, index, value)


def test_other_bytes_are_no_map():
    with pytest.raises(MachineFault, match="not a tensor map that the simulator can decode"):
        decode(bytes([1] * SIZE))
    with pytest.raises(MachineFault, match="not a tensor map that the simulator can decode"):
        replace(np.ones((1, SIZE), np.uint8), "rank", 0, 1)
    raw = np.zeros((1, SIZE), np.uint8)
    replace(raw, "interleave_layout", 0, 2)
    with pytest.raises(MachineFault, match="no interleaved layouts, got 32B"):
        decode(raw.tobytes())


# --- maps in global memory -------------------------------------------------------------------------------------------

LINES = TensorMap(
    mode="tile", buffer="src", dtype="f16", dims=(64, 20), strides=(128,), box=(64, 1), element_strides=(1, 1)
)
BODY = (
    FIRST + INIT + "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 128;\n"
    "fence.proxy.tensormap::generic.acquire.gpu [%p_desc], 128;\n"
    "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%s], [%p_desc, {0, 7}], [%bar];\n"
    + WAIT.format(W="LOADED", parity=0)
    + "fence.proxy.async.shared::cta;\n"
    + dump(128)
    + "END:"
)


def load_through(desc: bytes) -> np.ndarray:
    src = np.random.default_rng(5).integers(0, 256, 20 * 128, dtype=np.uint8)
    program = {
        "text": entry(BODY, 0, ("src", "out", "desc")),
        "maps": [],
        "numbers": [],
        "grid": [1, 1, 1],
        "cluster": [1, 1, 1],
        "block": [32, 1, 1],
        "shared": (96 << 10) + 64,
    }
    buffers = {"src": src, "out": np.zeros(128, np.uint8), "desc": np.frombuffer(desc, np.uint8)}
    got = execute_program(program, buffers).buffers["out"]
    assert np.array_equal(got, src[7 * 128 : 8 * 128])
    return got


def test_a_copy_uses_a_map_that_lies_in_a_buffer():
    load_through(encode(LINES, 1 << 40))


@pytest.mark.parametrize(
    ("desc", "message"),
    [
        (bytes([7] * SIZE), "not a tensor map that the simulator can decode"),
        (encode(LINES, (1 << 40) + 16), r"the tensor must be inside buffer 'src' of 2560 bytes"),
        (encode(LINES, 9 << 40), "describes a tensor at 0x90000000000, which is in no buffer"),
        (encode(msgspec.structs.replace(LINES, box=(60, 1)), 1 << 40), r"box\[0\] .* multiple of 16 bytes"),
        (bytes(64), "does not hold a tensor map"),
    ],
)
def test_a_copy_refuses_bytes_that_are_no_good_map(desc, message):
    with pytest.raises(MachineFault, match=message):
        load_through(desc)


COPIED = """.reg .b32 %t, %v, %w, %s, %one; .reg .b64 %p, %d; .reg .pred %q;
mov.u32 %t, %tid.x; mov.u32 %s, smem; mad.lo.u32 %w, %t, 4, %s; mul.wide.u32 %d, %t, 4; add.u64 %p, %m_tile, %d;
ld.u32 %v, [%p]; st.shared.u32 [%w], %v; bar.warp.sync -1;
setp.ne.u32 %q, %t, 0;
@!%q tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%s], %p_other;
bar.warp.sync -1;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%p_map], [%s], 128;
mad.lo.u32 %w, %t, 16, %s; add.u32 %w, %w, 1024; st.shared.v4.u32 [%w], {%t, %t, %t, %t};
fence.proxy.async.shared::cta; bar.warp.sync -1; add.u32 %w, %s, 1024;
@!%q cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%p_map, {4, 8}], [%w];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""


def test_maps_from_parameters():
    """A kernel copies a map out of parameter space, gives the copy another tensor, and stores by it."""
    tmap = TensorMap(
        mode="tile", buffer="one", dtype="u32", dims=(12, 20), strides=(48,), box=(8, 16), element_strides=(1, 1),
        swizzle="none", offset=16,
    )  # fmt: skip
    buffers = {
        "one": np.zeros(256, np.uint32),
        "other": np.zeros(240, np.uint32),
        "map": np.zeros(32, np.uint32),
    }
    text = module(COPIED, maps=("tile",), pointers=("other", "map"), shared=".extern .shared .align 1024 .b8 smem[];")
    result = execute(text, buffers, shared_bytes=2048, maps=(tmap,), pointers=("other", "map"))
    wanted = np.zeros((20, 12), np.uint32)
    wanted[8:, 4:] = (np.arange(96) // 4).reshape(12, 8)
    assert np.array_equal(result.buffers["other"].reshape(20, 12), wanted)
    assert not result.buffers["one"].any()
    assert decode(result.buffers["map"].tobytes()) == (msgspec.structs.replace(tmap, buffer="", offset=0), 2 << 40)


def test_bytes_of_no_encoder_are_refused():
    """A structure with 128 bytes that are no map."""
    launch = LaunchSpec(
        entry="k",
        grid=(1, 1, 1),
        block=(1, 1, 1),
        shared_bytes=1024,
        buffers={"out": BufferSpec(dtype="u32", shape=(4,))},
        params=(StructParam(bytes="11" * SIZE), PointerParam(buffer="out")),
    )
    text = module(
        ".reg .b32 %s; mov.u32 %s, smem; cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%m_tile, {0}], [%s];",
        maps=("tile",),
        shared=".extern .shared .align 1024 .b8 smem[];",
    )
    with pytest.raises(MachineFault, match="not a tensor map that the simulator can decode"):
        run(text, launch, {"out": np.zeros(4, np.uint32)})
