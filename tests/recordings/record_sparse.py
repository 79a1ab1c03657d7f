"""Launches one mma.sp of every kind and selector on random registers, and records what the lanes have after it.

    python tests/recordings/record_sparse.py sparse.json

Needs a Hopper GPU with its driver, which compiles the text, and nothing beside Python. Each lane has 16 words: four of
A, of B and of C each, and its metadata; numbers are small, so that every sum is exact.
"""

from __future__ import annotations

import ctypes
import json
import random
import struct
import sys

SEEDS = (5, 6)
PROGRAMS = 2
KINDS = (
    ("f32.f16.f16.f32", 16, 2), ("f32.f16.f16.f32", 32, 4), ("f16.f16.f16.f16", 16, 2), ("f16.f16.f16.f16", 32, 4),
    ("f32.bf16.bf16.f32", 16, 2), ("f32.bf16.bf16.f32", 32, 4), ("f32.tf32.tf32.f32", 8, 2),
    ("f32.tf32.tf32.f32", 16, 4), ("s32.s8.u8.s32", 32, 2), ("s32.u8.s8.s32", 64, 4), ("s32.s4.u4.s32", 64, 2),
    ("s32.u4.s4.s32", 128, 4), ("f32.e4m3.e5m2.f32", 64, 4),
)  # fmt: skip
"""Types of D, A, B and C, depth, and registers of A and B."""


def word(rng: random.Random, kind: str) -> int:
    """A register with small numbers of a type."""
    if kind == "f16":
        return int.from_bytes(struct.pack("<2e", rng.randint(-3, 3), rng.randint(-3, 3)), "little")
    if kind == "bf16":
        halves = [struct.pack("<f", rng.randint(-3, 3))[2:] for _ in range(2)]
        return int.from_bytes(b"".join(halves), "little")
    if kind in ("tf32", "f32"):
        return int.from_bytes(struct.pack("<f", rng.randint(-3, 3)), "little")
    if kind in ("e4m3", "e5m2"):
        return int.from_bytes(bytes(rng.choice((0, 0x38, 0x40, 0xB8, 0xC0)) for _ in range(4)), "little")
    return rng.randint(-999, 999) & 0xFFFFFFFF if kind == "s32" else rng.getrandbits(32)


def metadata(rng: random.Random, kind: str) -> int:
    """32 bits that name positions of eight chunks."""
    known = (4, 14) if kind == "tf32" else (4, 8, 12, 9, 13, 14)
    return sum(rng.choice(known) << 4 * at for at in range(8))


def listed(name: str, count: int) -> str:
    """A vector of registers."""
    return f"{{{', '.join(f'%{name}{at}' for at in range(count))}}}"


def text(types: str, depth: int, registers: int, selector: int) -> str:
    """A kernel with one instruction."""
    sums = 2 if types.startswith("f16") else 4
    loads = [f"ld.global.u32 %{'abce'[at // 4]}{at % 4}, [%p+{4 * at}];" for at in range(13)]
    stores = [f"st.global.u32 [%p+{4 * at}], %d{at};" for at in range(sums)]
    multiply = (
        f"mma.sp.sync.aligned.m16n8k{depth}.row.col.{types} {listed('d', sums)}, {listed('a', registers)}, "
        f"{listed('b', registers)}, {listed('c', sums)}, %e0, {selector};"
    )
    head = (
        ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 y)\n{\n"
        ".reg .b32 %a<4>, %b<4>, %c<4>, %d<4>, %e<4>, %t;\n.reg .b64 %p, %q;\nld.param.u64 %p, [y];\n"
        "mov.u32 %t, %laneid;\nmul.wide.u32 %q, %t, 64;\nadd.u64 %p, %p, %q;\n"
    )
    return head + "\n".join([*loads, multiply, *stores, "ret;", "}", ""])


def check(status: int) -> None:
    """Stop at an error of the driver."""
    if status:
        raise OSError(f"CUDA error {status}")


def main(file: str) -> None:
    """Record all kinds."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))
    check(cuda.cuMemAlloc_v2(ctypes.byref(memory), 2048))
    found: list[tuple[str, int, int, list[list[int]], list[list[int]]]] = []
    for seed in SEEDS:
        rng = random.Random(seed)
        for types, depth, registers in KINDS:
            left, right, addend = types.split(".")[1:]
            wide = left in ("f16", "bf16", "tf32")
            for selector in range((4 if wide else 2) // (registers // 2)):
                module, function = ctypes.c_void_p(), ctypes.c_void_p()
                check(cuda.cuModuleLoadData(ctypes.byref(module), text(types, depth, registers, selector).encode()))
                check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"k"))
                for _ in range(PROGRAMS):
                    lanes = [
                        [*(word(rng, kind) for kind in (left, right, addend) for _ in range(4)), metadata(rng, left)]
                        for _ in range(32)
                    ]
                    buffer = (ctypes.c_uint32 * 512)(*[value for lane in lanes for value in (*lane, 0, 0, 0)])
                    check(cuda.cuMemcpyHtoD_v2(memory, buffer, 2048))
                    arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(memory), ctypes.c_void_p))
                    check(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, arguments, None))
                    check(cuda.cuCtxSynchronize())
                    check(cuda.cuMemcpyDtoH_v2(buffer, memory, 2048))
                    results = [list(buffer[16 * lane : 16 * lane + 4]) for lane in range(32)]
                    found.append((types, depth, selector, lanes, results))
    with open(file, "w", encoding="ascii") as out:
        json.dump(found, out)


if __name__ == "__main__":
    main(sys.argv[1])
