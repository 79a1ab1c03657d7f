"""Hand-written kernels of the tensor core's other forms: a CTA pair, weight-stationary MMAs, shifted activations.

Each is a body of one thread in the frame of ``unit/machine/tensor_kernels``, which fills shared memory and tensor
memory by ordinary stores and tcgen05.st, commits, waits, and carries the result out.
"""

from __future__ import annotations

import numpy as np
from unit.machine.tensor_kernels import BASE, k_major, mma_text, tensor_kernel

from convc.ir.launch import LaunchSpec
from convc.ptx.descriptors import (
    InstructionDescriptor,
    SharedDescriptor,
    ZeroColumnMask,
    encode_instruction,
    encode_shared,
    encode_zero_mask,
)

Kernel = tuple[str, LaunchSpec, dict[str, np.ndarray]]
LANES = "mov.b32 %m0, 0x00100001; mov.b32 %m1, 0x10000100; mov.b32 %m2, 0x00010000; mov.b32 %m3, 0x01000010;"
MASK = ", {%m0, %m1, %m2, %m3}"


def _halves(rng: np.random.Generator, rows: int, k: int) -> np.ndarray:
    """Bytes of a K-major f16 operand of small whole numbers."""
    return k_major(rng.integers(-4, 5, (rows, k)).astype(np.float16).view(np.uint8))


def _at(start: int, rows: int) -> int:
    return encode_shared(SharedDescriptor(start=BASE + start, lbo=16 * rows, sbo=128, swizzle="none"))


def _shape(m: int, n: int, **more) -> int:
    return encode_instruction(
        InstructionDescriptor(kind="f16", d_type="f32", a_type="f16", b_type="f16", m=m, n=n, **more)
    )


def pair() -> Kernel:
    """Two CTAs multiply 256 x 32 x 32 together; both keep D out of some lanes."""
    rng = np.random.default_rng(5)
    image = np.stack([np.concatenate([_halves(rng, 16, 32), _halves(rng, 128, 32)]) for _ in range(2)])
    words = LANES + "".join(f"mov.b32 %m{i + 4}, %m{3 - i};" for i in range(4))
    mask = ", {" + ", ".join(f"%m{i}" for i in range(8)) + "}"
    steps = [
        mma_text(str(_at(1024 + 4096 * i, 128)), _at(512 * i, 16), _shape(256, 32), group=2, add=i > 0, mask=mask)
        for i in range(2)
    ]
    cells = rng.integers(0, 1 << 16, (2, 128, 32)).astype(np.uint32)
    return tensor_kernel(words + "\n".join(steps), image=image, cells=cells, shown=32, group=2)[:3]


def stationary() -> Kernel:
    """Weights of 64 rows against 128 columns in two banks, shifted by one column, some of them zero."""
    rng = np.random.default_rng(6)
    columns = ZeroColumnMask(generate=True, zeroed=1, used=19, starts=(3, 3, 3, 3), shift=1)
    image = np.concatenate([_halves(rng, 136, 16), _halves(rng, 64, 16)])
    body = f"mov.b64 %zm, {encode_zero_mask(columns)};\n"
    body += mma_text(str(_at(4352, 64)), _at(0, 136), _shape(64, 128, ws_max_shift=8), form=".ws", tail=", %zm")
    return tensor_kernel(body, image=image, shown=64)[:3]


def shifted() -> Kernel:
    """Three taps of a row of pixels: activations move down a lane, a copy refills the last, masks keep borders out."""
    rng = np.random.default_rng(7)
    image = np.concatenate([_halves(rng, 32, 16) for _ in range(3)] + [_halves(rng, 8, 16) for _ in range(2)])
    body = ""
    for tap in range(3):
        if tap:
            refill = encode_shared(SharedDescriptor(start=BASE + 2816 + 256 * tap, lbo=128, sbo=128, swizzle="none"))
            body += f"tcgen05.shift.cta_group::1.down [%c]; mov.b64 %a, {refill}; add.u32 %x4, %c, {31 << 16};\n"
            body += "tcgen05.cp.cta_group::1.4x256b [%x4], %a;\n"
        body += LANES + mma_text("[0]", _at(1024 * tap, 32), _shape(128, 32), d=32, add=tap > 0, mask=MASK) + "\n"
    return tensor_kernel(body, image=image, cells=_rows(rng), shown=64)[:3]


def shifting() -> Kernel:
    """Two taps, where the first MMA moves the activations itself."""
    rng = np.random.default_rng(8)
    image = np.concatenate([_halves(rng, 32, 16) for _ in range(2)])
    first = mma_text("[0]", _at(0, 32), _shape(128, 32), d=32, mods=".ashift")
    second = mma_text("[0]", _at(1024, 32), _shape(128, 32), d=32, add=True)
    return tensor_kernel(first + "\n" + second, image=image, cells=_rows(rng), shown=64)[:3]


def _rows(rng: np.random.Generator) -> np.ndarray:
    """Tensor memory with a row of 16 whole numbers in each lane, and ones behind."""
    cells = np.full((128, 64), 0x3F800000, np.uint32)
    cells[:, :8] = rng.integers(-4, 5, (128, 16)).astype(np.float16).view(np.uint32)
    return cells
