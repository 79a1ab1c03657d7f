"""wmma: fragments, loads, stores and sums, held against recordings of a real GPU (recordings/matrices_h100.npz)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
from recordings.program_text import contents
from sum_oracle import expected
from support.kernels import execute, module
from tma_programs import COMPLETED, FOLDER, execute_program, launch_of

from convc.errors import MachineFault
from convc.ir.findings import Verdict
from convc.machine import RunOptions, RunResult
from convc.machine.base.switches import Switches
from convc.sanitizer.run import check_kernel

MISALIGNED = -716
ROUNDED = "no multiple of"
"""Where the GPU goes on and takes another stride than the one given, the simulator stops."""


def recorded(every: int) -> Iterator[tuple[dict, int, dict[str, np.ndarray]]]:
    """Every so many of the programs, with the GPU's status and the buffers behind it."""
    with np.load(FOLDER / "matrices_h100.npz") as stored:
        data = {key: stored[key] for key in stored.files}
    programs, start = json.loads(data["programs"].tobytes()), 0
    for number, (program, status) in enumerate(zip(programs, data["status"].tolist(), strict=True)):
        after = {}
        for name, (kind, seed, size) in program["buffers"].items() if status == COMPLETED else ():
            changed = data["changed"][start : start + size]
            start += size
            if number % every == 0:
                after[name] = changed ^ contents(kind, seed, size)
        if number % every == 0:
            yield program, status, after


def attempt(program: dict) -> tuple[RunResult | None, str]:
    """The result of a program, or the simulator's fault."""
    try:
        return execute_program(program), ""
    except MachineFault as fault:
        return None, str(fault)


@pytest.mark.parametrize("every", [29, pytest.param(1, marks=pytest.mark.slow)])
def test_every_program_leaves_the_recorded_bytes_or_faults(every):
    kinds = set()
    for program, status, after in recorded(every):
        kinds.add((program["name"].split()[0], status))
        result, fault = attempt(program)
        if result is None:
            assert ROUNDED in fault, program["name"]
            assert status == MISALIGNED or "stride +" in program["name"], program["name"]
            continue
        assert status == COMPLETED, program["name"]
        assert result.findings == (), program["name"]
        assert all(np.array_equal(result.buffers[name], data) for name, data in after.items()), program["name"]
    assert kinds == {(kind, COMPLETED) for kind in ("load", "store", "mma", "align")} | {("align", MISALIGNED)}


def product(types: str, c_kind: str, d_kind: str, shape: str = "m16n16k16", a_kind: str = "f16") -> str:
    """One warp multiplies matrices that lie by rows."""
    n, k = {"m16n16k16": (16, 16), "m16n16k8": (16, 8)}[shape]
    registers = {"a": 8 if a_kind == "f16" else 4, "c": 8 if c_kind == "f32" else 4, "d": 8 if d_kind == "f32" else 4}

    def listed(name: str) -> str:
        return "{" + ", ".join(f"%{name}{i}" for i in range(registers["a" if name == "b" else name])) + "}"

    head = "sync.aligned.row"
    return module(
        ".reg .b32 %a<8>, %b<8>, %c<8>, %d<8>;\n"
        f"wmma.load.a.{head}.{shape}.global.{a_kind} {listed('a')}, [%p_a], {k};\n"
        f"wmma.load.b.{head}.{shape}.global.{a_kind} {listed('b')}, [%p_b], {n};\n"
        f"wmma.load.c.{head}.{shape}.global.{c_kind} {listed('c')}, [%p_c], {n};\n"
        f"wmma.mma.{head}.row.{shape}.{types} {listed('d')}, {listed('a')}, {listed('b')}, {listed('c')};\n"
        f"wmma.store.d.{head}.{shape}.global.{d_kind} [%p_d], {listed('d')}, {n};\n",
        pointers=("a", "b", "c", "d"),
    )


def values(shape: tuple[int, int], dtype: type, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 2.0 ** rng.uniform(-8, 2, shape)).astype(dtype)


@pytest.mark.parametrize("c_kind", ["f16", "f32"])
@pytest.mark.parametrize("d_kind", ["f16", "f32"])
def test_sums_of_mixed_types(c_kind, d_kind):
    """C of f16 is widened, D of f16 beside a C of f32 is rounded from the sum in f32."""
    dtypes = {"f16": np.float16, "f32": np.float32}
    a, b, c = values((16, 16), np.float16, 1), values((16, 16), np.float16, 2), values((16, 16), dtypes[c_kind], 3)
    given = {"a": a, "b": b, "c": c, "d": np.zeros((16, 16), dtypes[d_kind])}
    text = product(f"{d_kind}.{c_kind}", c_kind, d_kind)
    options = RunOptions(switches=Switches(numerics="exact"))
    got = execute(text, given, pointers=("a", "b", "c", "d"), options=options).buffers["d"].reshape(16, 16)
    inner = "f16" if c_kind == d_kind == "f16" else "f32"
    want = expected(a.astype(float), b.astype(float).T, c.astype(float), ("f16", "f16"), inner)
    assert np.array_equal(got, want.astype(np.float32).astype(dtypes[d_kind]))


def test_tf32_is_two_sums():
    low = np.uint32(0xFFFFE000)
    a, b = (
        (values(shape, np.float32, seed).view(np.uint32) & low).view(np.float32)
        for shape, seed in (((16, 8), 4), ((8, 16), 5))
    )
    c = values((16, 16), np.float32, 6)
    given = {"a": a, "b": b, "c": c, "d": np.zeros((16, 16), np.float32)}
    text = product("f32.tf32.tf32.f32", "f32", "f32", "m16n16k8", "tf32")
    options = RunOptions(switches=Switches(numerics="exact"))
    got = execute(text, given, pointers=("a", "b", "c", "d"), options=options).buffers["d"].reshape(16, 16)
    want = c.astype(float)
    for k in (slice(0, 4), slice(4, 8)):
        want = expected(a[:, k].astype(float), b[k].astype(float).T, want, ("tf32", "tf32"), "f32")
    assert np.array_equal(got.astype(float), want)


LOAD = "wmma.load.c.sync.aligned.row.m16n16k16.{space}f32 {{%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}}, [{at}], {stride};"


def loading(body: str = "", *, guard: str = "", space: str = "global.", at: str = "%p_x", stride: str = "16") -> str:
    load = LOAD.format(space=space, at=at, stride=stride)
    return module(
        ".reg .f32 %f<8>; .reg .b32 %s, %id; .reg .b64 %o; .reg .pred %g; .shared .align 128 .b8 tile[1024];\n"
        f"mov.u32 %s, tile; mov.u32 %id, %tid.x; setp.lt.u32 %g, %id, 16;\n{body}\n{guard}{load}",
        pointers=("x", "out"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (loading(guard="@%g "), r"wmma\.load must be executed by all 32 lanes of a warp"),
        (loading("mul.wide.u32 %o, %id, 64; add.u64 %p_x, %p_x, %o;"), r"the address of wmma\.load must be the same"),
        (loading(stride="%id"), r"the stride of wmma\.load must be the same"),
        (loading(stride="17"), "the stride of the matrix is no multiple of 8 bytes"),
        (loading("add.u64 %p_x, %p_x, 4;"), "the start of the matrix is no multiple of 8 bytes"),
        (loading(stride="-16"), "outside|no buffer|before"),
        (loading("mov.u64 %p_x, -1024;"), "no buffer"),
        (loading("sub.u64 %o, -8192, %p_x; and.b64 %o, %o, -128; add.u64 %p_x, %p_x, %o;"), "no buffer"),
        (loading(stride="24"), "of buffer 'x', which has 1024 bytes"),
        (loading(space="shared.", at="%s", stride="24"), "but the CTA has"),
    ],
)
def test_faults(text, message):
    given = {"x": np.zeros(256, np.float32), "out": np.zeros(1, np.uint32)}
    with pytest.raises(MachineFault, match=message):
        execute(text, given, pointers=("x", "out"))


def test_shared_memory_that_nobody_wrote_is_reported():
    given = {"x": np.zeros(256, np.float32), "out": np.zeros(1, np.uint32)}
    result = execute(loading(space="shared.", at="%s"), given, pointers=("x", "out"))
    assert [finding.rule for finding in result.findings] == ["shared-memory-unwritten"]
    assert "wmma.load.shared reads" in result.findings[0].message


def test_a_warp_that_reads_what_another_stores_is_a_race():
    body = (
        "setp.lt.u32 %g, %id, 32; mov.b32 %f0, 0; mov.b32 %f1, 0; mov.b32 %f2, 0; mov.b32 %f3, 0; mov.b32 %f4, 0;"
        "mov.b32 %f5, 0; mov.b32 %f6, 0; mov.b32 %f7, 0;\n"
        "@%g wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%s], {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, 16;\n{}\n"
    )
    given = {"x": np.zeros(256, np.float32), "out": np.zeros(1, np.uint32)}
    verdicts = []
    for between in ("", "bar.sync 0;"):
        text = loading(body.replace("{}", between), space="shared.", at="%s")
        buffers = {name: data.view(np.uint8).reshape(-1) for name, data in given.items()}
        shape = {"grid": [1, 1, 1], "block": [64, 1, 1], "cluster": [1, 1, 1], "shared": 0, "maps": [], "numbers": []}
        verdicts.append(check_kernel(text, launch_of(shape, buffers), buffers).verdict)
    assert verdicts[0] == Verdict.error
    assert verdicts[1] == Verdict.clean
