"""Probes of the tensor core and of tensor memory: one CTA, one thread that issues, 32 columns that come back."""

from __future__ import annotations

import numpy as np

from convc.probe.kernel import ProbeKernel, probe_kernel, probe_text
from convc.probe.probes import BLACKWELL, RuleProbe
from convc.ptx.descriptors import (
    BlockScaledDescriptor,
    InstructionDescriptor,
    SharedDescriptor,
    ZeroColumnMask,
    encode_block_scaled,
    encode_instruction,
    encode_shared,
    encode_zero_mask,
)

IMAGE_BYTES = 16384
"""Shared memory that a probe fills."""

COLUMNS = 32
"""Columns of tensor memory that are filled and come back."""

MORE_WORDS = 64
"""Words behind the columns."""

SHARED_BYTES = IMAGE_BYTES + 32

D = 16
"""First column of an accumulator that comes back."""

RAMP = np.arange(128 * COLUMNS, dtype=np.uint32).reshape(128, COLUMNS) + np.uint32(1 << 20)


def numbers(seed: int, *shape: int) -> np.ndarray:
    """Small whole numbers in f16, whose products and sums are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float16)


def k_major(matrix: np.ndarray) -> np.ndarray:
    """Bytes of a K-major operand without a swizzle, for LBO = 16 * rows and SBO = 128: 8 rows x 16 bytes a block."""
    rows = matrix.shape[0]
    data = matrix.reshape(rows, -1).view(np.uint8)
    return data.reshape(rows, -1, 16).transpose(1, 0, 2).reshape(-1)


def place(register: str, start: int, lbo: int, sbo: int, swizzle: str = "none") -> str:
    """Put the descriptor of a matrix at byte ``start`` of the image into a register."""
    word = encode_shared(SharedDescriptor(start=start, lbo=lbo, sbo=sbo, swizzle=swizzle))
    return f"    mov.b64 {register}, {word};\n    add.u64 {register}, {register}, %base;\n"


def plain(register: str, start: int, rows: int) -> str:
    """Put the descriptor of a matrix that `k_major` laid out into a register."""
    return place(register, start, 16 * rows, 128)


def f16_word(m: int, n: int, shift: int = 0) -> int:
    """The instruction descriptor of a product of f16 with sums in f32."""
    return encode_instruction(
        InstructionDescriptor(kind="f16", d_type="f32", a_type="f16", b_type="f16", m=m, n=n, ws_max_shift=shift)
    )


def mma(
    a: str,
    word: int,
    *,
    d: int = D,
    form: str = "",
    kind: str = "f16",
    mods: str = "",
    middle: str = "",
    last: str = "%no",
) -> str:
    """A tcgen05.mma to D at column ``d``; A is ``%a``, or the column of ``[8]``; B is ``%b``.

    It clears D, unless ``last`` is ``%yes``.
    """
    left = a
    lines = [f"    mov.b32 %id, {word};", f"    add.u32 %x, %c, {d};"]
    if a.startswith("["):
        lines.append(f"    add.u32 %y, %c, {a[1:-1]};")
        left = "[%y]"
    operation = f"tcgen05.mma{form}.cta_group::1.kind::{kind}{mods}"
    lines.append(f"    {operation} [%x], {left}, %b, %id{middle}, {last};\n")
    return "\n".join(lines)


def tensor_kernel(
    body: str, image: np.ndarray | None = None, cells: np.ndarray | None = None, every: str = ""
) -> ProbeKernel:
    """A kernel around instructions of one thread.

    Args:
        body: they have ``%c %base %more %bar`` of the frame, and may change ``%a %b %id %x %y %z %i %from %to``.
        image: bytes for the start of shared memory, at most `IMAGE_BYTES`. cells: uint32 (128, n), n <= `COLUMNS`.
        every: instructions of all threads in front of that.
    """
    shared = np.zeros(IMAGE_BYTES, np.uint8)
    if image is not None:
        shared[: image.size] = image
    memory = np.zeros((128, COLUMNS), np.uint32)
    if cells is not None:
        memory[:, : cells.shape[1]] = cells
    buffers = {"image": shared, "cells": memory, "out": np.zeros(128 * COLUMNS + MORE_WORDS, np.uint32)}
    text = probe_text("tensor", "sm_100a", body, every)
    return probe_kernel(text, buffers, threads=128, shared_bytes=SHARED_BYTES)


def _rows(seed: int = 5) -> np.ndarray:
    """Bytes to tell rows apart by."""
    return np.random.default_rng(seed).integers(0, 256, 4096, np.uint8)


def _refresh_lane(target: str) -> ProbeKernel:
    """Four rows are copied with the address of lane 31."""
    body = place("%a", 0, 128, 256) + f"    add.u32 %x, %c, {31 << 16};\n    tcgen05.cp.cta_group::1.4x256b [%x], %a;"
    return tensor_kernel(body, _rows(), RAMP)


def _shift_extent(target: str) -> ProbeKernel:
    """A shift with the address of the third sub-partition."""
    return tensor_kernel(f"    add.u32 %x, %c, {64 << 16 | 8};\n    tcgen05.shift.cta_group::1.down [%x];", cells=RAMP)


def _six_bit(target: str) -> ProbeKernel:
    """A copy that spreads elements of 6 bits out to bytes."""
    body = place("%a", 0, 128, 256) + "    tcgen05.cp.cta_group::1.128x128b.b8x16.b6x16_p32 [%c], %a;"
    return tensor_kernel(body, _rows(), RAMP)


def _unpack_upper(target: str) -> ProbeKernel:
    """Each thread stores two halves of a register into two cells."""
    every = """
    mov.b32 %v0, 0x12345678;
    tcgen05.st.sync.aligned.32x32b.x1.unpack::16b.b32 [%k], {%v0};
    tcgen05.wait::st.sync.aligned;
"""
    return tensor_kernel("", cells=RAMP | np.uint32(0xABC00000), every=every)


def _bank_copies(target: str) -> ProbeKernel:
    """A product with M = 32, whose A is another one in each 32 lanes."""
    b = numbers(7, 64, 16)
    body = plain("%b", 0, 64) + mma("[0]", f16_word(32, 64), form=".ws")
    return tensor_kernel(body, k_major(b), numbers(8, 128, 16).view(np.uint32))


def _zero_mask(target: str) -> ProbeKernel:
    """A product with M = 32 and N = 64 whose columns are shifted by one, and some of them zero."""
    mask = ZeroColumnMask(
        generate=True, zeroed=7, used=2, starts=(6, 6, 250, 3), zero_first=(True, False, True, True), shift=1
    )
    image = np.concatenate([k_major(numbers(9, 72, 16)), k_major(numbers(10, 32, 16))])
    body = plain("%b", 0, 72) + plain("%a", 72 * 32, 32) + f"    mov.b64 %zm, {encode_zero_mask(mask)};\n"
    return tensor_kernel(body + mma("%a", f16_word(32, 64, 8), form=".ws", last="%no, %zm"), image)


def _scale_id(target: str) -> ProbeKernel:
    """The descriptor names bytes 1 and 3 of the scale factors, the addresses bytes 2 and 0."""
    rng = np.random.default_rng(11)
    codes = np.array([0xC0, 0xB8, 0, 0x38, 0x40], np.uint8)  # -2 to 2 in e4m3
    image = np.concatenate([k_major(codes[rng.integers(0, 5, (rows, 32))]) for rows in (16, 128)])
    cells = np.zeros((128, 8), np.uint32)
    cells[:, :4] = np.tile(rng.integers(125, 130, (32, 16)).astype(np.uint8), (4, 1)).view(np.uint32)
    cells[:, 4] = np.tile(rng.integers(125, 130, (32, 4)).astype(np.uint8), (4, 1)).view(np.uint32)[:, 0]
    word = encode_block_scaled(
        BlockScaledDescriptor(
            kind="mxf8f6f4", a_type="e4m3", b_type="e4m3", scale_type="ue8m0", m=128, n=16, sfa_id=1, sfb_id=3
        )
    )
    body = plain("%b", 0, 16) + plain("%a", 16 * 32, 128)
    body += f"    add.u32 %k, %c, {2 << 30};\n    add.u32 %i, %c, 4;\n"
    product = mma("%a", word, kind="mxf8f6f4", mods=".block_scale", middle=", [%k], [%i]")
    # %k is the address of this thread's lane, which is needed again
    return tensor_kernel(f"{body}{product}    mov.b32 %k, %c;", image, cells)


def _e2m1_exponent(target: str) -> ProbeKernel:
    """Products of 0.5 with 0.5, 1, 1.5 and -0.5, to which numbers a little beyond -0.125 are added.

    Their last bit is inside of the window of 25 bits where 0.5 counts with the exponent of its value, else below it.
    """
    a = np.zeros((128, 32), np.uint8)
    b = np.zeros((16, 32), np.uint8)
    a[:, 0] = 1  # 0.5; bytes 0 to 7 of 16 have 16 elements
    b[:, 0] = np.tile(np.array([1, 2, 3, 9], np.uint8), 4)  # 0.5, 1, 1.5, -0.5
    image = np.concatenate([k_major(b), k_major(a)])
    last = np.arange(1, 129, dtype=np.uint32)[:, None] % 8 | np.uint32(0xBE000000)
    cells = np.zeros((128, COLUMNS), np.uint32)
    cells[:, D:] = last
    word = encode_instruction(
        InstructionDescriptor(kind="f8f6f4", d_type="f32", a_type="e2m1", b_type="e2m1", m=128, n=16)
    )
    body = plain("%b", 0, 16) + plain("%a", 16 * 32, 128)
    return tensor_kernel(body + mma("%a", word, kind="f8f6f4", last="%yes"), image, cells)


def _ashift_then_cp(target: str) -> ProbeKernel:
    """Behind products that take a while, one with .ashift, and a copy to the last lane of each sub-partition at once.

    Where the copy lands first, the move takes its rows to lanes 30, 62, 94 and 126.
    """
    image = np.concatenate([k_major(numbers(12, 256, 16)), _rows(13)])
    body = plain("%b", 0, 256) + place("%a", 256 * 32, 128, 256)
    for mods in ("",) * 8 + (".ashift.collector::a::discard",):
        body += mma("[0]", f16_word(128, 256), d=COLUMNS, mods=mods)
    body += f"    add.u32 %x, %c, {31 << 16};\n    tcgen05.cp.cta_group::1.4x256b [%x], %a;"
    return tensor_kernel(body, image, numbers(14, 128, 16).view(np.uint32))


ROW = 3
"""Row of an 8-row block that a descriptor starts at."""


def _row_start(target: str) -> ProbeKernel:
    """A product whose B, 128 bytes a row and swizzled, starts at the fourth row of a block."""
    lines = numbers(15, 24, 64).view(np.uint8).reshape(24, 8, 16)
    swizzled = np.stack([line[np.arange(8) ^ number % 8] for number, line in enumerate(lines)])
    image = np.concatenate([k_major(numbers(16, 128, 16)), swizzled.reshape(-1)])
    body = plain("%a", 0, 128) + place("%b", 4096 + 128 * ROW, 16, 1024, "128B")
    return tensor_kernel(body + mma("%a", f16_word(128, 16)), image)


def _row_word(start: int, base_offset: int = 0) -> str:
    """The descriptor of B in `_row_start` with other fields, as the text has it."""
    desc = SharedDescriptor(start=start, lbo=16, sbo=1024, swizzle="128B", base_offset=base_offset)
    return f"mov.b64 %b, {encode_shared(desc)};"


_OVERWRITE = """
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar];
filled:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;
    @!%p bra filled;
    tcgen05.fence::after_thread_sync;
    mov.u32 %i, 0;
clear:
    add.u32 %at, %s, %i;
    st.shared.u32 [%at], 0;
    add.u32 %i, %i, 4;
    setp.lt.u32 %p, %i, 2048;
    @%p bra clear;
    fence.proxy.async.shared::cta;
"""


def _collector(target: str) -> ProbeKernel:
    """A collector is filled with B; behind a commit B is set to zero in shared memory, and the collector used."""
    image = np.concatenate([k_major(numbers(17, 64, 16)), k_major(numbers(18, 32, 16))])
    body = plain("%b", 0, 64) + plain("%a", 2048, 32)
    body += mma("%a", f16_word(32, 64), d=0, form=".ws", mods=".collector::b0::fill") + _OVERWRITE
    return tensor_kernel(body + mma("%a", f16_word(32, 64), form=".ws", mods=".collector::b0::lastuse"), image)


_TWO_COMMITS = """
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar];
    add.u32 %x, %c, 16;
    mov.b32 %id, {word};
    tcgen05.mma.cta_group::1.kind::f16 [%x], %a, %b, %id, %no;
    add.u32 %at, %bar, 16;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%at];
second:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%at], 0;
    @!%p bra second;
    mbarrier.test_wait.parity.shared::cta.b64 %q, [%bar], 0;
    selp.u32 %y, 1, 2, %q;
    st.global.u32 [%more], %y;
"""


def _commit_order(target: str) -> ProbeKernel:
    """A commit behind products that take long, one behind a short product: is the first there when the second is?"""
    image = np.concatenate([k_major(numbers(19, 256, 16)), k_major(numbers(20, 128, 16))])
    body = "    add.u32 %at, %bar, 16;\n    mbarrier.init.shared::cta.b64 [%at], 1;\n"
    body += "    fence.mbarrier_init.release.cluster;\n" + plain("%b", 0, 256) + plain("%a", 256 * 32, 128)
    body += mma("%a", f16_word(128, 256), d=COLUMNS) * 8 + _TWO_COMMITS.format(word=f16_word(128, 16))
    return tensor_kernel(body, image)


_NO_WAIT = "selp.u32 %y, 1, 2, %q;"

TENSOR: tuple[RuleProbe, ...] = (
    RuleProbe(
        name="refresh_lane",
        question="Which lanes does tcgen05.cp.4x256b with the address of lane 31 write?",
        targets=BLACKWELL,
        switch="refresh_lane",
        kernel=_refresh_lane,
    ),
    RuleProbe(
        name="shift_extent",
        question="Does tcgen05.shift move all four sub-partitions, or that of its address?",
        targets=BLACKWELL,
        switch="shift_extent",
        kernel=_shift_extent,
    ),
    RuleProbe(
        name="ashift_then_cp",
        question="Can a tcgen05.cp land before the move of an .ashift in front of it?",
        targets=BLACKWELL,
        switch="ashift_then_cp",
        kernel=_ashift_then_cp,
        mixed="unordered",
    ),
    RuleProbe(
        name="unpack_upper",
        question="What does tcgen05.st.unpack::16b make of the upper half of a cell?",
        targets=BLACKWELL,
        switch="unpack_upper",
        kernel=_unpack_upper,
    ),
    RuleProbe(
        name="six_bit",
        question="Where in its byte of tensor memory does tcgen05.cp put a 6-bit element?",
        targets=BLACKWELL,
        switch="six_bit",
        kernel=_six_bit,
    ),
    RuleProbe(
        name="bank_copies",
        question="Which copy of A in tensor memory does each bank of tcgen05.mma.ws read?",
        targets=BLACKWELL,
        switch="bank_copies",
        kernel=_bank_copies,
    ),
    RuleProbe(
        name="zero_mask",
        question="Does the zero-column mask of tcgen05.mma.ws count columns after or before its shift?",
        targets=BLACKWELL,
        switch="zero_mask",
        kernel=_zero_mask,
    ),
    RuleProbe(
        name="scale_id",
        question="Is the scale id that of the instruction descriptor, or that of the address?",
        targets=BLACKWELL,
        switch="scale_id",
        kernel=_scale_id,
    ),
    RuleProbe(
        name="e2m1_exponent",
        question="With which exponent is a subnormal e2m1 number, 0.5, aligned in a sum?",
        targets=BLACKWELL,
        switch="e2m1_exponent",
        kernel=_e2m1_exponent,
        numerics="exact",
    ),
    RuleProbe(
        name="row_start",
        question="May a matrix descriptor start at a row that is no multiple of 8?",
        targets=BLACKWELL,
        rule="the XOR of a swizzle uses the address itself, wherever a matrix starts",
        kernel=_row_start,
        variants={
            "address": (),
            "start": ((_row_word(4096 + 128 * ROW), _row_word(4096 + 128 * ROW, ROW)),),
            "block": ((_row_word(4096 + 128 * ROW), _row_word(4096)),),
        },
    ),
    RuleProbe(
        name="collector",
        question="Does a collector keep B across a commit, when shared memory has changed?",
        targets=BLACKWELL,
        rule="the data of a collector are read again",
        kernel=_collector,
        variants={"read again": (), "kept": (("st.shared.u32 [%at], 0;", ""),)},
    ),
    RuleProbe(
        name="commit_order",
        question="Has the barrier of a commit completed when that of a later commit has?",
        targets=BLACKWELL,
        rule="the tensor pipe keeps the order of issue",
        kernel=_commit_order,
        variants={"ordered": (), "unordered": ((_NO_WAIT, "mov.u32 %y, 2;"),)},
        mixed="unordered",
    ),
)
"""The probes of this module."""
