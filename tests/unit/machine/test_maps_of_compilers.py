"""Tensor maps where compilers put them: inside structures of parameters, in constant memory, and made in global memory.

CuTe DSL hands a kernel one structure, with a map at some offset of it, and a driver's 128 bytes there.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from test_driver_maps import LOAD, chosen

from convc.errors import MachineFault
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, ScalarParam, StructField, StructParam, TensorMapParam
from convc.machine import run
from convc.sanitizer.run import check_kernel

AT = 192
"""Where in the structure the map begins."""

HEAD = """.version 8.7
.target sm_100a
.address_size 64
.shared .align 8 .b64 bar;
.extern .shared .align 1024 .b8 smem[];
{declared}
.visible .entry k(.param .align 64 .b8 args[384])
{{
.reg .b64 %p_out, %p_map, %m_tile, %e; .reg .b32 %length, %z; .reg .pred %one;
ld.param.u64 %p_out, [args]; ld.param.u64 %p_map, [args+8]; ld.param.u32 %length, [args+16];
{where}
{body}
ret;
}}
"""
PARAM = f"mov.b64 %m_tile, args; cvta.param.u64 %m_tile, %m_tile; add.u64 %m_tile, %m_tile, {AT};"
CONST = "mov.b64 %m_tile, tile; cvta.const.u64 %m_tile, %m_tile;"
MADE = (
    PARAM + "mov.u32 %z, %tid.x; mul.wide.u32 %e, %z, 4; add.u64 %m_tile, %m_tile, %e; ld.u32 %z, [%m_tile];"
    "add.u64 %e, %p_map, %e; st.global.u32 [%e], %z; bar.sync 0; mov.b64 %m_tile, %p_map;"
    "fence.proxy.tensormap::generic.release.gpu; fence.proxy.tensormap::generic.acquire.gpu [%m_tile], 128;"
)
PREFETCH = {
    PARAM: f"prefetch.param.tensormap [args+{AT}]; prefetch.tensormap [%m_tile];",
    CONST: "prefetch.tensormap [%m_tile];",
    MADE: "prefetch.tensormap [%m_tile];",
}


@pytest.mark.parametrize(
    ("where", "described"), [(PARAM, True), (PARAM, False), (MADE, True), (MADE, False), (CONST, False)]
)
def test_a_map_is_read_where_it_lies(where, described):
    """The same copy by a map that a launch file describes, and by one whose bytes are a driver's."""
    tmap, raw = chosen()
    data = np.random.default_rng(5).integers(1, 1 << 30, tmap.tensor_bytes // 4 + 64).astype(np.uint32)
    size = int(np.prod(tmap.box)) * 4
    raw = (1 << 40).to_bytes(8, "little") + raw[8:]  # where the first buffer lies
    map_fields = (StructField(at=AT, param=TensorMapParam(map=msgspec.structs.replace(tmap, buffer="x"))),)
    launch = LaunchSpec(
        entry="k",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        shared_bytes=max(size, 1024),
        buffers={
            "x": BufferSpec(dtype="u32", shape=data.shape),
            "out": BufferSpec(dtype="u32", shape=(size // 4,)),
            "map": BufferSpec(dtype="u32", shape=(32,)),
        },
        params=(
            StructParam(
                bytes=(bytes(AT) + raw + bytes(384 - AT - 128)).hex(),
                fields=(
                    StructField(at=0, param=PointerParam(buffer="out")),
                    StructField(at=8, param=PointerParam(buffer="map")),
                    StructField(at=16, param=ScalarParam(dtype="u32", value=7)),
                    *(map_fields if described else ()),
                ),
            ),
        ),
    )
    declared = f".const .align 64 .b8 tile[128] = {{{', '.join(map(str, raw))}}};" if where == CONST else ""
    body = LOAD.format(bytes=size, before="", where="%m_tile")
    text = HEAD.format(declared=declared, where=where + PREFETCH[where], body=body)
    buffers = {"x": data, "out": np.zeros(size // 4, np.uint32), "map": np.zeros(32, np.uint32)}
    found = run(text, launch, buffers).buffers["out"]
    rows, columns = tmap.box[1], tmap.box[0]
    expected = np.zeros((rows, columns), np.uint32)
    tensor = data[: tmap.strides[0] // 4 * tmap.dims[1]].reshape(tmap.dims[1], -1)[:, : tmap.dims[0]]
    part = tensor[1 : 1 + rows, :columns]
    expected[: part.shape[0], : part.shape[1]] = part
    assert np.array_equal(found.reshape(rows, columns), expected)
    assert check_kernel(text, launch, buffers).findings == ()


def test_a_place_that_holds_no_map_is_a_fault():
    """Constant memory ends behind the first half of the map."""
    body = LOAD.format(bytes=128, before="", where="%m_tile")
    text = HEAD.format(declared=".const .align 64 .b8 tile[64];", where=CONST, body=body)
    launch = LaunchSpec(
        entry="k",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        shared_bytes=1024,
        buffers={"out": BufferSpec(dtype="u32", shape=(32,))},
        params=(StructParam(fields=(StructField(at=0, param=PointerParam(buffer="out")),)),),
    )
    with pytest.raises(MachineFault, match="does not hold a tensor map"):
        run(text, launch, {"out": np.zeros(32, np.uint32)})
