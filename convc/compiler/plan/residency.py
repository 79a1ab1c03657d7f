"""Residency: how many CTAs an SM holds at a time, and how a kernel keeps that to what its tensor memory is enough for.

An SM takes a CTA as soon as it has the shared memory, the threads, the registers and the barriers for it (CUDA
programming guide, "Hardware Multithreading"). Columns of tensor memory do not count: a CTA that finds none left has
begun, and waits in ``tcgen05.alloc`` for one that ends (PTX manual, "Tensor Memory allocation"). The CTAs of a cluster
wait for each other while they hold columns, so that clusters which reach over the same SMs can wait in a circle, each
for columns that another one holds:

    SM 0: X0 has columns, Z1 waits      cluster X = (X0, X1) on SMs 0 and 1
    SM 1: Y0 has columns, X1 waits      cluster Y = (Y0, Y1) on SMs 1 and 2
    SM 2: Z0 has columns, Y1 waits      cluster Z = (Z0, Z1) on SMs 2 and 0

Where a CTA has no cluster a second one only waits for nothing. So every kernel asks for as much shared memory as lets
an SM hold no more CTAs than have columns, and what the hardware counts is what the planner counts.
"""

from __future__ import annotations

import functools

import msgspec

from convc.ir.arch import Arch, Registers

THREADS = 192
"""Threads of a CTA: six warps (`convc.compiler.schedules.skeleton`)."""

RESERVED_SHARED = 1024
"""Shared memory that a CTA takes beyond what it asks for (CUDA programming guide)."""

SHARED_STEP = 16
"""Bytes in which shared memory is asked for here."""

MOST_CTAS = 32
"""CTAs that an SM holds at most (CUDA programming guide)."""

WARP = 32
"""Threads of a warp."""

THREAD_REGISTERS = 56
"""What ptxas gives a thread, about, in steps of 8: of 23 golden kernels 28 to 78, half of them 52 at most; a pair that
walks, and has its SM for itself, takes 167."""


class MemoryNeed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The memory that a CTA needs: bytes of shared memory, and columns of tensor memory to allocate."""

    smem_bytes: int
    tmem_columns: int


def beside(need: MemoryNeed, arch: Arch) -> int:
    """CTAs that fit on an SM; one where the accumulator lies in registers, which each thread may take so many of."""
    if not need.tmem_columns:
        return 1
    return max(1, min(_by_shared(need, arch), _by_threads(arch), _by_registers()))


def limits(need: MemoryNeed, arch: Arch) -> dict[str, int]:
    """CTAs that an SM takes, by each thing that the hardware counts, for people."""
    return {
        "shared memory": _by_shared(need, arch),
        "threads": _by_threads(arch),
        "registers (estimated)": _by_registers(),
    }


def bytes_for(most: int, arch: Arch) -> int:
    """The least shared memory with which an SM holds that many CTAs and no more; 0 where it never holds more."""
    if most >= _by_threads(arch):
        return 0
    least = arch.rates.sm_shared_bytes // (most + 1) - RESERVED_SHARED + 1
    return -(-least // SHARED_STEP) * SHARED_STEP


def bytes_alone(arch: Arch) -> int:
    """The least shared memory with which an SM holds one CTA, a multiple of 16 bytes: more than half of what it has."""
    return bytes_for(1, arch)


def bytes_for_columns(columns: int, arch: Arch) -> int:
    """The least shared memory with which the CTAs of an SM have `columns` of tensor memory each; 0: any will do."""
    return bytes_for(arch.limits.tmem_columns // columns, arch) if 0 < columns <= arch.limits.tmem_columns else 0


def _by_shared(need: MemoryNeed, arch: Arch) -> int:
    return arch.rates.sm_shared_bytes // (need.smem_bytes + RESERVED_SHARED)


def _by_threads(arch: Arch) -> int:
    return min(MOST_CTAS, arch.rates.sm_threads // THREADS)


@functools.cache
def _by_registers() -> int:
    """CTAs that an SM has registers for: each of its quarters has its part of them, and warps of its own.

    A thread's registers are not known before ptxas has seen the text. What keeps a kernel to its columns does not rest
    on them, so that a wrong guess makes an estimate wrong, and no kernel.
    """
    own = Registers()
    warps = own.quarters * (own.pool // own.quarters // (WARP * THREAD_REGISTERS))
    return warps // (THREADS // WARP)
