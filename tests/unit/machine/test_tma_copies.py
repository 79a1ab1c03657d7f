"""Tensor copies through PTX that no recorded GPU has: gather4, wide im2col, CTA pairs, types of less than a byte."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
import tma_oracle
from recordings.program_text import DRAIN, FIRST, INIT, WAIT, dump, entry, fetch
from tma_programs import execute_program, launch_of

from convc.errors import MachineFault
from convc.ir.tensormap import TensorMap
from convc.machine.launch import writer_of
from convc.machine.tma.load import TensorLoader
from convc.machine.tma.store import store
from convc.support.ptxas import assemble, find_ptxas

LINES = TensorMap(
    mode="tile",
    buffer="src",
    dtype="f16",
    dims=(64, 20),
    strides=(128,),
    box=(64, 1),
    element_strides=(1, 1),
    swizzle="128B",
)
TINY = msgspec.structs.replace(LINES, dims=(64, 4), swizzle="none")
WIDE = TensorMap(
    mode="im2col_w",
    buffer="src",
    dtype="f16",
    dims=(64, 9, 7, 2),
    strides=(128, 1152, 8064),
    channels=64,
    pixels=32,
    element_strides=(1, 1, 1, 1),
    lower=(-1,),
    upper=(0,),
    swizzle="128B",
)


def load(form: str, operands: str, size: int, before: str = "", tail: str = "") -> str:
    """Thread 0 loads ``size`` bytes to the start of shared memory."""
    return (
        FIRST + INIT + before + f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {size};\n"
        f"cp.async.bulk.tensor.{form} [%s], [%m0, {operands.replace('|', '], [%bar]', 1)}{tail};\n"
        + WAIT.format(W="LOADED", parity=0)
        + "fence.proxy.async.shared::cta;\n"
    )


TX = "mbarrier::complete_tx::bytes"
SWEEP = (
    "createpolicy.fractional.L2::evict_first.b64 %e, 1.0;\n"
    "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%m0, {0, 0}];\n"
    "cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%m0, {0, 0, 1, 2, 3}];\n"
    "cp.async.bulk.prefetch.L2.global [%p_src], 128;\n"
)
BODIES = {
    "gather4": load(f"2d.shared::cta.global.tile::gather4.{TX}", "{0, 7, -1, 3, 99}|", 512),
    "wide": load(f"4d.shared::cta.global.im2col::w.{TX}", "{0, -1, 3, 1}|", 34 * 128, "mov.b16 %h, 2;\n", ", {%h, 1}"),
    "wide 128": load(
        f"4d.shared::cta.global.im2col::w::128.{TX}", "{0, -1, 3, 0}|", 136 * 128, "mov.b16 %h, 2;\n", ", {%h, 0}"
    ),
    "hints": load(f"2d.shared::cta.global.tile.{TX}.L2::cache_hint", "{0, 4}|", 128, SWEEP, ", %e"),
    "scatter4": FIRST + fetch("%s", "%p_src", "512")
    + "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%m0, {0, 7, 19, 3, 99}], [%s];\n" + DRAIN,
    "masked": FIRST + fetch("%s", "%p_src", "512") + "mov.b16 %h, 0x00F3;\n"
    + "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%p_out], [%s], 64, %h;\n" + DRAIN,
    "zeros": FIRST + fetch("%s", "%p_src", "512") + "st.bulk.weak.shared::cta [%s+8], 40, 0;\n"
    + "fence.proxy.async.shared::cta;\n",
}  # fmt: skip


def text(name: str, size: int) -> str:
    body = BODIES[name] + (dump(size) if size else "") + "END:"
    return entry(body, 1, ("src", "out")).replace("sm_90a", "sm_100a")


def program_of(name: str, tmap: TensorMap, size: int) -> dict:
    """A body with one tensor map, as a program."""
    return {
        "text": text(name, size),
        "maps": [msgspec.structs.asdict(tmap)],
        "numbers": [],
        "grid": [1, 1, 1],
        "cluster": [1, 1, 1],
        "block": [32, 1, 1],
        "shared": (96 << 10) + 64,
    }


def launch(name: str, tmap: TensorMap, src: np.ndarray, size: int, out: int = 0) -> np.ndarray:
    """Run a body, and give back the first ``size`` bytes of shared memory, or ``out``."""
    result = execute_program(program_of(name, tmap, size), {"src": src, "out": np.full(out or size, 0xCD, np.uint8)})
    assert result.findings == ()
    return result.buffers["out"]


def noise(size: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, size, dtype=np.uint8)


def test_ptxas_accepts_every_text():
    whole = ""
    for number, name in enumerate(BODIES):
        module = text(name, 512).replace(".entry k(", f".entry k{number}(")
        whole += module if not number else module[module.index(".visible") :]
    assert find_ptxas() is not None
    assert assemble(whole).cubin


def test_gather4_takes_four_lines_and_fills_those_outside():
    src = noise(LINES.tensor_bytes)
    got = launch("gather4", LINES, src, 512)
    expected = np.zeros((4, 128), np.uint8)
    expected[0], expected[2] = src.reshape(20, 128)[[7, 3]]
    order = np.arange(512) ^ ((np.arange(512) >> 7 & 7) << 4)
    assert np.array_equal(got[order], expected.reshape(-1))


def test_gather4_refuses_a_box_of_several_lines():
    tmap = msgspec.structs.replace(LINES, box=(64, 4))
    with pytest.raises(MachineFault, match=r"map of rank 2 whose box is one line, got box \(64, 4\)"):
        launch("gather4", tmap, noise(tmap.tensor_bytes), 512)


def test_scatter4_writes_four_lines_and_skips_those_outside():
    tmap = msgspec.structs.replace(LINES, buffer="out", swizzle="none")
    src = noise(512)
    got = launch("scatter4", tmap, src, 0, tmap.tensor_bytes).reshape(20, 128)
    assert np.array_equal(got[[7, 19, 3]], src.reshape(4, 128)[:3])
    assert (got[[i for i in range(20) if i not in (7, 19, 3)]] == 0xCD).all()


def test_writer_of_a_byte_that_a_tensor_store_wrote():
    tmap = msgspec.structs.replace(LINES, buffer="out", swizzle="none")
    program = program_of("scatter4", tmap, 0)
    buffers = {"src": noise(512), "out": np.zeros(tmap.tensor_bytes, np.uint8)}
    found = writer_of(program["text"], launch_of(program, buffers), buffers, "out", 19 * 128 + 5)
    assert (found.cta, found.warp, found.lanes) == (0, 0, (0,))
    assert "scatter4" in program["text"].splitlines()[found.line - 1]
    assert writer_of(program["text"], launch_of(program, buffers), buffers, "out", 18 * 128 + 5) is None


@pytest.mark.parametrize(("name", "mode", "offsets", "start"), [
    ("wide", "im2col_w", (2, 1), (0, -1, 3, 1)), ("wide 128", "im2col_w128", (2, 0), (0, -1, 3, 0)),
])  # fmt: skip
def test_wide_im2col(name, mode, offsets, start):
    tmap = msgspec.structs.replace(WIDE, mode=mode)
    src = noise(tmap.tensor_bytes)
    expected = np.zeros(64 << 10, np.uint8)
    count, *_ = tma_oracle.copy(tmap, src, expected, 1024, start, offsets)
    assert np.array_equal(launch(name, tmap, src, count), expected[1024 : 1024 + count])


def test_the_instruction_and_the_map_must_agree_on_the_mode():
    with pytest.raises(MachineFault, match="copies in mode im2col_w128, its tensor map is of mode im2col_w"):
        launch("wide 128", WIDE, noise(WIDE.tensor_bytes), 1024)


def test_cache_hints_and_prefetches_change_nothing():
    src = noise(LINES.tensor_bytes)
    assert np.array_equal(launch("hints", LINES, src, 128), src[512:640])


def test_a_byte_mask_picks_bytes_of_every_16():
    src = noise(512)
    got = launch("masked", TINY, src, 0, 64)
    chosen = np.isin(np.arange(64) % 16, (0, 1, 4, 5, 6, 7))
    assert np.array_equal(got, np.where(chosen, src[:64], 0xCD))


def test_st_bulk_zeroes_shared_memory():
    src = noise(512)
    got = launch("zeros", TINY, src, 64)
    assert np.array_equal(got, np.concatenate([src[:8], np.zeros(40, np.uint8), src[48:64]]))


# --- clusters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("form", "count"), [("", 2), (".cta_group::1", 2), (".cta_group::2", 4)])
def test_multicast_signals_each_destination_or_the_pair_members_of_one_parity(form, count):
    """Rank 0 multicasts a line to both CTAs; with .cta_group::2 all bytes count on barriers of its own parity."""
    body = (
        ".reg .b32 %rank, %cta, %n; mov.u32 %rank, %cluster_ctarank; mov.u32 %cta, %ctaid.x;\n"
        + FIRST
        + INIT
        + f"mov.u32 %n, {64 * count}; mul.lo.u32 %x, %rank, %n;\n"
        + ("sub.u32 %n, %n, %x;\n" if count == 4 else "mov.u32 %n, 128;\n")
        + "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %n;\n"
        "setp.ne.u32 %p, %rank, 0; @%p bra SENT;\n mov.b16 %h, 3;\n"
        f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.{TX}.multicast::cluster{form} "
        "[%s], [%m0, {0, %cta}], [%bar], %h;\nSENT:\n"
        + WAIT.format(W="LOADED", parity=0)
        + "mul.wide.u32 %d, %cta, 128; add.u64 %d, %d, %p_out;\n"
        + dump(128, "%d")
        + "END:"
    )
    src = noise(LINES.tensor_bytes)
    program = {
        "text": entry(body, 1, ("src", "out")).replace("sm_90a", "sm_100a"),
        "numbers": [],
        "grid": [4, 1, 1],
        "maps": [msgspec.structs.asdict(LINES)],
        "cluster": [2, 1, 1],
        "block": [32, 1, 1],
        "shared": (96 << 10) + 64,
    }
    result = execute_program(program, {"src": src, "out": np.zeros(512, np.uint8)})
    assert np.array_equal(result.buffers["out"].reshape(4, 128), src.reshape(20, 128)[[0, 0, 2, 2]])
    assert result.counters.tma_loads["src"].count == 4


# --- types of less than a byte ---------------------------------------------------------------------------------------


def packed(dtype: str, dims: tuple[int, ...], stride: int, **fields) -> TensorMap:
    given = {"box": (128, 4), "element_strides": (1, 1), "swizzle": "none"} | fields
    return TensorMap(mode="tile", buffer="x", dtype=dtype, dims=dims, strides=(stride,), **given)


@pytest.mark.parametrize(("dtype", "data", "stride"), [("b4x16_p64", 8, 128), ("b6x16_p32", 12, 192)])
@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_padded_types_are_spread_out_with_undefined_padding(dtype, data, stride, swizzle):
    tmap = packed(dtype, (256, 3), stride + 32, swizzle=swizzle)
    memory, smem = noise(tmap.tensor_bytes + 40), np.zeros((1, 2048), np.uint8)
    result = TensorLoader(tmap, memory).load(smem, 1024, (128, -1))
    assert result.bytes == 512
    rows = np.full((4, 8, 16), 0xFF, np.uint8)
    rows[0] = 0
    for line in range(3):
        start = line * (stride + 32) + 8 * data
        rows[line + 1, :, :data] = memory[start : start + 8 * data].reshape(8, data)
    place = np.arange(512)
    if swizzle == "128B":
        place = place ^ ((place >> 7 & 7) << 4)
    assert np.array_equal(smem[0, 1024 + place], rows.reshape(-1))
    with pytest.raises(MachineFault, match="multiple of 128 elements, got element 64"):
        TensorLoader(tmap, memory).load(smem, 1024, (64, 0))


@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_stores_pack_the_low_six_bits_of_every_byte(swizzle):
    """Type b6p2x16: line 2 of the tensor gets row 0 of the box, lines past the end nothing."""
    tmap = packed("b6x16_p32", (256, 3), 224, swizzle=swizzle)
    memory, smem = noise(tmap.tensor_bytes + 40), noise(2048)[None].copy()
    before = memory.copy()
    result = store(TensorLoader(tmap, memory), smem, 1024, (128, 2))
    assert (result.bytes, result.read) == (512, ((0, 512),))
    place = np.arange(128)
    if swizzle == "128B":
        place = place ^ ((place >> 7 & 7) << 4)
    number = sum((int(byte) & 63) << (6 * i) for i, byte in enumerate(smem[0, 1024 + place]))
    before[2 * 224 + 96 : 2 * 224 + 192] = np.frombuffer(number.to_bytes(96, "little"), np.uint8)
    assert np.array_equal(memory, before)


def test_what_types_with_padding_cannot_do():
    smem = np.zeros((1, 2048), np.uint8)
    four, six = (packed(dtype, (256, 3), 224) for dtype in ("b4x16_p64", "b6x16_p32"))
    with pytest.raises(MachineFault, match="no tensor stores of b4x16_p64"):
        store(TensorLoader(four, noise(four.tensor_bytes)), smem, 1024, (0, 0))
    with pytest.raises(MachineFault, match=r"no asynchronous reduction \.add of b6x16_p32"):
        store(TensorLoader(six, noise(six.tensor_bytes)), smem, 1024, (0, 0), operation="add")


@pytest.mark.parametrize("operation", [None, "add"])
@pytest.mark.parametrize("swizzle", ["none", "32B", "128B", "128B_atom32"])
@pytest.mark.parametrize("lines", [(0, 0, 8), (1, 3, 6)], ids=["alike", "apart"])
def test_ctas_store_from_other_lines_of_a_swizzle(lines, swizzle, operation):
    """As each of them does alone."""
    box = (8 if swizzle in ("none", "32B") else 32, 4)
    tmap = TensorMap(
        mode="tile", buffer="x", dtype="u32", dims=(32, 12), strides=(128,), box=box, element_strides=(1, 1),
        swizzle=swizzle,
    )  # fmt: skip
    shared, before = noise(3 * 4096).reshape(3, 4096), noise(tmap.tensor_bytes)
    together, alone = before.copy(), before.copy()
    coords = np.array([0, 4, 8])
    store(TensorLoader(tmap, together), shared, 128 * np.array(lines), (0, coords), operation=operation)
    for cta, line in enumerate(lines):
        store(TensorLoader(tmap, alone), shared[cta : cta + 1], 128 * line, (0, 4 * cta), operation=operation)
    assert np.array_equal(together, alone)
    assert not np.array_equal(together, before)


def test_packed_4_bit_elements_are_copied_as_bytes():
    tmap = packed("b4x16", (66, 3), 48, box=(64, 2))
    memory, smem = noise(tmap.tensor_bytes + 16), np.full((1, 1024), 0xCD, np.uint8)
    assert TensorLoader(tmap, memory).load(smem, 0, (32, 1)).bytes == 64
    expected = np.zeros((2, 32), np.uint8)
    expected[:, :17] = [memory[s : s + 17] for s in (48 + 16, 96 + 16)]
    assert np.array_equal(smem[0, :64], expected.reshape(-1))
    with pytest.raises(MachineFault, match="multiple of 16 bytes, got element 16 of 4 bits"):
        TensorLoader(tmap, memory).load(smem, 0, (16, 1))
