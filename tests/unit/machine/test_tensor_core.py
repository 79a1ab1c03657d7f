"""tcgen05 through whole kernels: one product of two tiles, in every layout the simulator has, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernels import execute, module

from convc.errors import MachineFault
from convc.ir.tensormap import TensorMap
from convc.machine import RunResult
from convc.ptx.descriptors import InstructionDescriptor, SharedDescriptor, encode_instruction, encode_shared

N, ATOMS = 32, 4
BODY = """
.reg .b32 %s, %t, %w, %lane, %bar, %slot, %z, %c, %i, %from, %v<32>, %id;
.reg .b64 %a, %b, %to; .reg .pred %p, %skip, %add;
mov.u32 %s, smem; mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; mov.b32 %z, 0;
add.u32 %bar, %s, 65536; add.u32 %slot, %s, 65552;
setp.ne.u32 %skip, %w, 0;
@%skip bra READY;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], {columns};
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
{{ .reg .pred %one; elect.sync _|%one, 0xffffffff; @!%one bra IDLE;
mbarrier.init.shared::cta.b64 [%bar], 1; mbarrier.init.shared::cta.b64 [%bar+8], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {bytes};
{loads}
LOADED: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra LOADED;
ld.shared.b32 %c, [%slot];
mov.b32 %i, {idesc};
{mmas}
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar+8];
IDLE: bar.warp.sync 0xffffffff; }}
READY: bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar+8], 0; @!%p bra WAIT;
tcgen05.fence::after_thread_sync;
ld.shared.b32 %c, [%slot]; shl.b32 %from, %w, 21; add.u32 %from, %from, %c;
tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{values}}}, [%from];
tcgen05.wait::ld.sync.aligned;
mul.wide.u32 %to, %t, 128; add.u64 %to, %to, %p_out;
{stores}
tcgen05.fence::before_thread_sync; bar.sync 0;
@!%skip tcgen05.dealloc.cta_group::1.sync.aligned.b32 %c, {columns};
"""
SHARED = ".extern .shared .align 1024 .b8 smem[];\n"
SIZE = {"f16": 2, "bf16": 2, "tf32": 4}


def tile_map(name: str, array: np.ndarray, dtype: str, box: tuple[int, int]) -> TensorMap:
    rows, columns = array.shape
    return TensorMap(
        mode="tile",
        buffer=name,
        dtype=dtype,
        dims=(columns, rows),
        strides=(array.itemsize * columns,),
        element_strides=(1, 1),
        box=box,
        swizzle="128B",
    )


def product(
    a: np.ndarray,
    b: np.ndarray,
    *,
    operand: str = "f16",
    d_type: str = "f32",
    m: int = 128,
    transpose: bool = False,
    add_first: bool = False,
    columns: int = 32,
    edit: tuple[str, str] = ("", ""),
    **flags: bool,
) -> RunResult:
    """Run D = A B^T with operands (rows, k) of the right element size; ``transpose`` stores them (k, rows)."""
    size = SIZE[operand]
    k = 32 // size * ATOMS
    storage = {2: np.uint16, 4: np.uint32}[size]
    raw_a, raw_b = (np.ascontiguousarray(v.T if transpose else v).view(storage) for v in (a, b))
    dtype = {2: "u16", 4: "u32"}[size]
    width = 128 // size
    if transpose:
        boxes_a = [(i * width, 0, i * k * 128) for i in range(m // width)]
        boxes_b, box_a, box_b = [(0, 0, 0)], (width, k), (N, k)
        desc = {"sbo": 1024, "lbo": k * 128}
        step = 16 // size * 2 * 128 // 16
    else:
        boxes_a, boxes_b, box_a, box_b = [(0, 0, 0)], [(0, 0, 0)], (width, m), (width, N)
        desc = {"sbo": 1024, "lbo": 16}
        step = 2
    loads = [
        f"mov.b32 %id, {x}; cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
        f"[%s+{base + at}], [%m_{name}, {{%id, %z}}], [%bar];"
        for name, boxes, base in (("a", boxes_a, 0), ("b", boxes_b, 32768))
        for x, _, at in boxes
    ]
    start = 1024  # dynamic shared memory follows the system's KiB
    words = {
        name: encode_shared(SharedDescriptor(start=start + base, swizzle="128B", **desc))
        for name, base in (("a", 0), ("b", 32768))
    }
    mmas = []
    for atom in range(ATOMS):
        mmas += [
            f"mov.b64 %a, {words['a'] + atom * step}; mov.b64 %b, {words['b'] + atom * step};",
            f"setp.eq.u32 %add, %z, {0 if atom or add_first else 1};",
            f"tcgen05.mma.cta_group::1.kind::{'tf32' if operand == 'tf32' else 'f16'} [%c], %a, %b, %i, %add;",
        ]
    idesc = encode_instruction(
        InstructionDescriptor(
            kind="tf32" if operand == "tf32" else "f16",
            d_type=d_type,
            a_type=operand,
            b_type=operand,
            m=m,
            n=N,
            transpose_a=transpose,
            transpose_b=transpose,
            **flags,
        )
    )
    body = BODY.format(
        columns=columns,
        bytes=size * k * (m + N),
        loads="\n".join(loads),
        idesc=idesc,
        mmas="\n".join(mmas),
        values=", ".join(f"%v{i}" for i in range(32)),
        stores="\n".join(f"st.global.b32 [%to+{4 * i}], %v{i};" for i in range(32)),
    )
    text = module(body, maps=("a", "b"), shared=SHARED)
    assert edit[0] in text
    buffers = {"out": np.zeros((128, 32), np.uint32), "a": raw_a, "b": raw_b}
    maps = (tile_map("a", raw_a, dtype, box_a), tile_map("b", raw_b, dtype, box_b))
    return execute(
        text.replace(*edit, 1) if edit[0] else text, buffers, block=(128, 1, 1), shared_bytes=65600, maps=maps
    )


def small_integers(rows: int, operand: str, seed: int) -> np.ndarray:
    import ml_dtypes

    kind = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32}[operand]
    k = 32 // SIZE[operand] * ATOMS
    return np.random.default_rng(seed).integers(-4, 5, (rows, k)).astype(kind)


@pytest.mark.parametrize("operand", ["f16", "bf16", "tf32"])
def test_k_major_product_is_exact(operand):
    a, b = small_integers(128, operand, 1), small_integers(N, operand, 2)
    result = product(a, b, operand=operand)
    assert result.findings == ()
    got = result.buffers["out"].view(np.float32)
    assert np.array_equal(got, a.astype(np.float64) @ b.astype(np.float64).T)
    assert result.counters.mma == ATOMS
    assert result.counters.multiply_adds == 128 * N * a.shape[1]


@pytest.mark.parametrize("operand", ["f16", "bf16"])
def test_mn_major_product_is_exact(operand):
    a, b = small_integers(128, operand, 3), small_integers(N, operand, 4)
    result = product(a, b, operand=operand, transpose=True)
    # N = 32 fills half of a swizzle row of B, so its other half stays unwritten, and unread
    assert result.findings == ()
    assert np.array_equal(result.buffers["out"].view(np.float32), a.astype(np.float64) @ b.astype(np.float64).T)


def test_m_64_uses_16_of_every_32_lanes():
    a, b = small_integers(64, "f16", 5), small_integers(N, "f16", 6)
    result = product(a, b, m=64)
    got = result.buffers["out"].view(np.float32).reshape(4, 32, 32)
    assert np.array_equal(got[:, :16].reshape(64, 32), a.astype(np.float64) @ b.astype(np.float64).T)
    assert [f.rule for f in result.findings] == ["tensor-memory-unwritten"]  # the load reads all 32 lanes


def test_f16_accumulator_sits_in_the_low_half_of_a_cell():
    a, b = small_integers(128, "f16", 7), small_integers(N, "f16", 8)
    got = product(a, b, d_type="f16").buffers["out"]
    assert (got >> 16 == 0).all()
    assert np.array_equal(got.astype(np.uint16).view(np.float16), a.astype(np.float64) @ b.astype(np.float64).T)


def test_negating_one_operand_turns_the_sign_and_both_leave_it():
    a, b = small_integers(128, "f16", 9), small_integers(N, "f16", 10)
    plain = product(a, b).buffers["out"].view(np.float32)
    assert np.array_equal(product(a, b, negate_a=True).buffers["out"].view(np.float32), -plain)
    assert np.array_equal(product(a, b, negate_a=True, negate_b=True).buffers["out"].view(np.float32), plain)


def test_special_values_propagate():
    a, b = small_integers(128, "f16", 11), small_integers(N, "f16", 12)
    a[3, 5], a[4, 6] = np.inf, np.nan
    b[:, 5:7] = 1
    got = product(a, b).buffers["out"].view(np.float32)
    assert np.isposinf(got[3]).all()
    assert np.isnan(got[4]).all()
    assert np.isfinite(np.delete(got, [3, 4], axis=0)).all()


def test_adding_to_an_accumulator_that_nobody_wrote_is_reported():
    a, b = small_integers(128, "f16", 13), small_integers(N, "f16", 14)
    result = product(a, b, add_first=True)
    assert [f.rule for f in result.findings] == ["tensor-memory-unwritten"]
    assert "4096 of its cells were never written" in result.findings[0].message
    assert np.isnan(result.buffers["out"].view(np.float32)).all()


def test_an_operand_that_was_not_loaded_is_reported():
    a, b = small_integers(128, "f16", 15), small_integers(N, "f16", 16)
    result = product(a, b, edit=("[%s+32768], [%m_b", "[%s+49152], [%m_b"))
    assert [f.rule for f in result.findings] == ["shared-memory-unwritten"]
    assert "operand B" in result.findings[0].message


def test_tensor_memory_must_be_freed():
    a, b = small_integers(128, "f16", 17), small_integers(N, "f16", 18)
    result = product(a, b, edit=("@!%skip tcgen05.dealloc.cta_group::1.sync.aligned.b32 %c, 32;", ""))
    assert [f.rule for f in result.findings] == ["tensor-memory-leak"]


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (("[%slot], 32;", "[%slot], 64;"), MachineFault, "dealloc of 32 columns at 0x0, which is not an allocation"),
        (("tcgen05.mma.cta_group::1.kind::f16 [%c]", "add.u32 %c, %c, 16; tcgen05.mma.cta_group::1.kind::f16 [%c]"),
         MachineFault, "accumulator columns 16..47 are not allocated"),
        (("shl.b32 %from, %w, 21;", "mov.b32 %from, 2097152;"), MachineFault, "warp 2 can access lanes 64..95"),
        (("tcgen05.mma.cta_group::1.kind::f16 [%c], %a, %b, %i, %add;",
          "tcgen05.mma.cta_group::1.kind::i8 [%c], %a, %b, %i, %add;"),
         MachineFault, "D type of kind::i8 must be one of s32, got f32"),
        (("mov.b32 %i, ", "mov.b32 %i, 0x4"), MachineFault, "instruction descriptor"),
    ],
)  # fmt: skip
def test_mistakes_are_named(edit, error, message):
    a, b = small_integers(128, "f16", 19), small_integers(N, "f16", 20)
    with pytest.raises(error) as caught:
        product(a, b, edit=edit)
    assert message in str(caught.value)
    assert caught.value.span is not None
