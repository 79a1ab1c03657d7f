"""Tensor maps as the driver of a GPU encoded them: every recorded one is read back, and kernels use such bytes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from support.kernels import module
from tma_recordings import FOLDER, SWIZZLES, read

from convc.errors import MachineFault
from convc.gpu.tensormaps import DATA_TYPES
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, StructField, StructParam, TensorMapParam
from convc.ir.tensormap import TensorMap
from convc.machine import run
from convc.machine.tma.driver_maps import decode_driver_map
from convc.machine.tma.tensormap_bytes import SIZE, decode, replace


def recorded() -> Iterator[tuple[TensorMap, int, int, bytes]]:
    """(map, interleave, address, bytes) of the maps of all types."""
    with np.load(FOLDER / "maps_h200.npz") as stored:
        lines = stored["cases"].tolist()
        maps = stored["maps"]
    for line, raw in zip(lines, maps, strict=True):
        numbers = iter([int(word) for word in line.split()])
        _, im2col, rank, dtype, interleave, swizzle, _, fill, address = (next(numbers) for _ in range(9))

        def take(count: int, numbers: Iterator[int] = numbers) -> tuple[int, ...]:
            return tuple(next(numbers) for _ in range(count))

        fields: dict[str, object] = {"dims": take(rank), "strides": take(rank - 1)}
        if im2col:
            fields |= {"channels": next(numbers), "pixels": next(numbers)}
            fields |= {"lower": take(rank - 2), "upper": take(rank - 2)}
        else:
            fields["box"] = take(rank)
        tmap = TensorMap(
            mode="im2col" if im2col else "tile",
            buffer="",
            dtype=DATA_TYPES[dtype],
            element_strides=take(rank),
            swizzle=SWIZZLES[swizzle],
            fill="nan" if fill else "zero",
            **fields,
        )
        yield tmap, interleave, address, raw.tobytes()


def test_maps_of_all_types_are_read_back():
    seen = 0
    for tmap, interleave, address, raw in recorded():
        if interleave:
            with pytest.raises(MachineFault, match=f"no interleaved layouts, got {16 * interleave}B"):
                decode(raw)
            continue
        assert decode(raw) == (tmap, address)
        seen += 1
    assert seen > 500


def test_maps_of_recorded_copies_are_read_back():
    with np.load(FOLDER / "tma_h200.npz") as stored:
        maps = stored["maps"]
    for case, raw in zip(read("tma_h200.npz", address_fields=False), maps, strict=True):
        assert decode(raw.tobytes())[0] == msgspec.structs.replace(case.tmap, buffer="", offset=0)


def test_every_bit_without_a_meaning_is_a_fault():
    raw = next(raw for _, interleave, _, raw in recorded() if not interleave)
    words = np.frombuffer(raw, np.uint32)
    for word, bit in [(2, 2), (2, 19), (2, 31), (13, 15), (13, 23), (15, 10), (17, 0), (20, 3), (31, 31)]:
        changed = words.copy()
        changed[word] |= np.uint32(1 << bit)
        with pytest.raises(MachineFault, match=f"word {word} is"):
            decode_driver_map(changed.tobytes())
    for field in (5 << 4, 12 << 7):  # rank 6, type 12
        changed = words.copy()
        changed[2] = np.uint32(field)
        with pytest.raises(MachineFault, match="word 2 is"):
            decode_driver_map(changed.tobytes())


def test_of_a_map_that_says_so_only_the_first_half_counts():
    """As CuTe DSL leaves it: bit 1 of word 2 is set, and behind the 16 words lies anything."""
    tmap, _, address, raw = next(case for case in recorded() if not case[1])
    words = np.frombuffer(raw, np.uint32).copy()
    words[16:] = np.arange(7, 23)
    with pytest.raises(MachineFault, match="word 17 is"):
        decode_driver_map(words.tobytes())
    words[2] |= np.uint32(2)
    assert decode(words.tobytes()) == (tmap, address)
    words[15] |= np.uint32(1 << 20)
    with pytest.raises(MachineFault, match="word 15 is"):
        decode_driver_map(words.tobytes())


def test_elements_of_four_bits():
    """256 of them are a row of 128 bytes."""
    words = np.zeros(32, np.uint32)
    words[2] = 11 << 7 | 1 << 4 | 3 << 13 | 2
    words[[3, 8, 9, 13, 14]] = 8, 255, 63, 255 << 24, 127
    tmap, address = decode(words.tobytes())
    assert (tmap.dtype, tmap.dims, tmap.box) == ("b4x16", (256, 64), (256, 128))
    assert (tmap.strides, tmap.swizzle, address) == ((128,), "128B", 0)


def chosen() -> tuple[TensorMap, bytes]:
    """A recorded map in two dimensions, of elements of four bytes, whose box has several rows."""
    with np.load(FOLDER / "tma_h200.npz") as stored:
        maps = stored["maps"]
    return next(
        (msgspec.structs.replace(case.tmap, buffer="", offset=0), raw.tobytes())
        for case, raw in zip(read("tma_h200.npz", address_fields=False), maps, strict=True)
        if case.tmap.rank == 2 and case.tmap.mode == "tile" and case.tmap.dtype == "u32" and case.tmap.box[1] > 2
        and case.tmap.swizzle == "none" and case.tmap.element_strides == (1, 1)
    )  # fmt: skip


LOAD = """.reg .pred %q; .reg .b32 %s, %b, %t, %i, %v; .reg .b64 %o, %d;
mov.u32 %s, smem; mov.u32 %t, %tid.x; mov.u32 %b, bar; setp.eq.u32 %q, %t, 0;
@%q mbarrier.init.shared.b64 [%b], 1; fence.mbarrier_init.release.cluster; bar.sync 0; {before}
@%q mbarrier.arrive.expect_tx.shared.b64 _, [%b], {bytes};
@%q cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [{where}, {{0, 1}}], [%b];
W: mbarrier.try_wait.parity.shared.b64 %q, [%b], 0; @!%q bra W;
shl.b32 %i, %t, 2;
L: add.u32 %v, %i, %s; ld.shared.u32 %v, [%v]; cvt.u64.u32 %d, %i; add.u64 %o, %p_out, %d; st.global.u32 [%o], %v;
add.u32 %i, %i, 128; setp.lt.u32 %q, %i, {bytes}; @%q bra L;"""


def loaded(
    param: StructParam | TensorMapParam, tmap: TensorMap, before: str = "", where: str = "%m_tile"
) -> np.ndarray:
    size = int(np.prod(tmap.box)) * 4
    data = np.random.default_rng(3).integers(1, 1 << 30, tmap.tensor_bytes // 4 + 64).astype(np.uint32)
    launch = LaunchSpec(
        entry="k",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        shared_bytes=max(size, 1024),
        buffers={
            "x": BufferSpec(dtype="u32", shape=data.shape),
            "other": BufferSpec(dtype="u32", shape=data.shape),
            "map": BufferSpec(dtype="u32", shape=(32,)),
            "out": BufferSpec(dtype="u32", shape=(size // 4,)),
        },
        params=(param, *(PointerParam(buffer=name) for name in ("out", "map", "other"))),
    )
    text = module(
        LOAD.format(bytes=size, before=before, where=where),
        maps=("tile",),
        pointers=("out", "map", "other"),
        shared=".shared .align 8 .b64 bar;\n.extern .shared .align 1024 .b8 smem[];\n",
    )
    buffers = {"x": data, "other": data + 1, "map": np.zeros(32, np.uint32), "out": np.zeros(size // 4, np.uint32)}
    return run(text, launch, buffers).buffers["out"]


def test_a_launch_file_may_have_the_bytes_of_the_driver():
    """The address is the first field, in whose place a launch file puts that of a buffer."""
    tmap, raw = chosen()
    given = StructParam(bytes=raw.hex(), fields=(StructField(at=0, param=PointerParam(buffer="x")),))
    plain = TensorMapParam(map=msgspec.structs.replace(tmap, buffer="x"))
    expected = loaded(plain, tmap)
    assert expected.any()
    assert np.array_equal(loaded(given, tmap), expected)


def test_a_copy_of_such_bytes_keeps_what_is_not_replaced():
    """A kernel takes the map out of parameter space, gives the copy another tensor, and loads by it."""
    tmap, raw = chosen()
    given = StructParam(bytes=raw.hex(), fields=(StructField(at=0, param=PointerParam(buffer="x")),))
    plain = TensorMapParam(map=msgspec.structs.replace(tmap, buffer="other"))
    edit = (
        "mul.wide.u32 %d, %t, 4; add.u64 %o, %m_tile, %d; ld.u32 %v, [%o]; "
        "add.u64 %o, %p_map, %d; st.global.u32 [%o], %v; "
        "bar.sync 0; @%q tensormap.replace.tile.global_address.global.b1024.b64 [%p_map], %p_other; "
        "fence.proxy.tensormap::generic.acquire.gpu [%p_map], 128;"
    )
    assert np.array_equal(loaded(given, tmap, edit, "%p_map"), loaded(plain, tmap))


def test_an_edited_map_is_ours():
    tmap, raw = chosen()
    edited = np.frombuffer(raw, np.uint8).copy().reshape(1, SIZE)
    replace(edited, "box_dim", 1, 2)
    assert decode(edited.tobytes())[0] == msgspec.structs.replace(tmap, box=(tmap.box[0], 2))
