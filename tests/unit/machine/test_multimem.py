"""multimem: what several GPUs share is one copy on one GPU, so that it is loaded, stored and added to as any."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import execute, module

from convc.errors import MachineFault
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.sanitizer.run import check_kernel

REGISTERS = {8: "b8", 16: "b16", 32: "b32", 64: "b64"}
BITS = {
    "b32": 32, "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "e4m3x4": 32, "e5m2x4": 32,
    "b64": 64, "u64": 64, "s64": 64, "f64": 64, "f16": 16, "bf16": 16, "e4m3x2": 16, "e5m2x2": 16, "e4m3": 8, "e5m2": 8,
}  # fmt: skip
VECTORS = [
    "v2.f32",
    "v4.f32",
    "v8.f16",
    "v4.bf16x2",
    "v4.e4m3",
    "v8.e5m2",
    "v8.e4m3x2",
    "v4.e5m2x4",
    "v2.bf16",
    "v4.f16",
]


def listed(kind: str) -> tuple[str, int, int]:
    """The operand of a type with its vector, the number of its elements and the bits of each."""
    vector, _, single = kind.rpartition(".")
    count = int(vector[1:]) if vector else 1
    names = ", ".join(f"%v{at}" for at in range(count))
    return (f"{{{names}}}" if vector else names), count, BITS[single]


@pytest.mark.parametrize("kind", [*(name for name in BITS if BITS[name] >= 32), *VECTORS])
@pytest.mark.parametrize("order", ["", ".weak", ".relaxed.sys.global", ".acquire.gpu"])
def test_it_is_loaded_and_stored_like_global_memory(kind, order):
    operand, count, bits = listed(kind)
    single = kind.rpartition(".")[2]
    size = count * bits // 8
    sums = "and" if single in ("b32", "b64") else "min" if single[0] in "us" else "add"
    body = (
        f".reg .{REGISTERS[bits]} %v<8>;\n.reg .b64 %a, %b;\n.reg .b32 %t;\nmov.u32 %t, %tid.x;\n"
        f"mul.wide.u32 %a, %t, {size};\nadd.u64 %b, %a, %p_out;\nadd.u64 %a, %a, %p_x;\n"
        f"multimem.ld_reduce{order}.{sums}.{kind} {operand}, [%a];\n"
        f"multimem.st{order.replace('acquire', 'release')}.{kind} [%b], {operand};"
    )
    x = np.random.default_rng(1).integers(0, 256, 32 * size).astype(np.uint8)
    buffers = {"x": x, "out": np.zeros(32 * size, np.uint8)}
    done = execute(module(body, pointers=("x", "out")), buffers, pointers=("x", "out"))
    assert (done.buffers["out"] == x).all()


@pytest.mark.parametrize("name", ["multimem.red", "red"])
def test_it_is_added_to_like_global_memory(name):
    noftz = ".noftz" if name == "red" else ""  # which multimem does not say
    body = (
        ".reg .b32 %t, %f;\n.reg .b16 %h<4>;\nmov.u32 %t, %tid.x;\ncvt.rn.f32.u32 %f, %t;\n"
        f"{name}.release.sys.global.add.u32 [%p_out], %t;\n"
        f"{name}.release.sys.global.max.s32 [%p_out+4], %t;\n"
        f"{name}.release.sys.global.xor.b32 [%p_out+8], %t;\n"
        f"{name}.release.sys.global.add.v2.f32 [%p_out+16], {{%f, %f}};\n"
        f"cvt.rn.f16.f32 %h0, %f;\nmov.b16 %h1, %h0;\n"
        f"{name}.release.sys.global.add{noftz}.v2.f16 [%p_out+24], {{%h0, %h1}};\n"
    )
    out = execute(module(body), {"out": np.zeros(8, np.uint32)}).buffers["out"]
    assert out[:3].tolist() == [sum(range(32)), 31, 0]
    assert out[4:6].view(np.float32).tolist() == [496.0, 496.0]
    assert out[6:7].view(np.float16).tolist() == [496.0, 496.0]


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("multimem.red.add.u32 [%p_out], %t;", set()),
        ("multimem.st.u32 [%p_out], %t;", set()),
        ("multimem.st.weak.u32 [%p_out], %t;", {"race-global-memory"}),
    ],
)
def test_two_ctas_that_meet_race_where_one_of_them_is_weak(statement, found):
    launch = LaunchSpec(
        entry="k",
        grid=(2, 1, 1),
        block=(1, 1, 1),
        buffers={"out": BufferSpec(dtype="u32", shape=(4,))},
        params=(PointerParam(buffer="out"),),
    )
    text = module(f".reg .b32 %t;\nmov.u32 %t, 5;\n{statement}")
    checked = check_kernel(text, launch, {"out": np.zeros(4, np.uint32)})
    assert {finding.rule for finding in checked.findings} == found


def test_it_is_global_memory_alone():
    body = (
        ".reg .b64 %a;\n.reg .b32 %v;\nmov.u32 %v, 1024;\ncvt.u64.u32 %a, %v;\ncvta.shared.u64 %a, %a;\n"
        "multimem.st.u32 [%a], %v;"
    )
    with pytest.raises(MachineFault):
        execute(module(body), {"out": np.zeros(8, np.uint32)}, shared_bytes=1024)
