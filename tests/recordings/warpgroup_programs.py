"""Programs about wgmma: products of random numbers, A in registers and in shared memory, in every type and layout.

    cd tests
    python -m recordings.warpgroup_programs programs.json
    python -m recordings.record_programs programs.json warpgroups_h200.npz

Launches and files are those of `copy_programs`. Shared memory is filled with numbers of an operand's type, accumulators
and fragments of A come from buffers as the threads hold them, and D goes back the same way, so that nothing but wgmma
says where elements are and how sums are rounded.
"""

from __future__ import annotations

import json
import random
import sys

from recordings.program_text import BAR, FIRST, INIT, WAIT, case, entry

FLOATS = [("f32", "f16", "f16", 16), ("f16", "f16", "f16", 16), ("f32", "bf16", "bf16", 16), ("f32", "tf32", "tf32", 8)]
EIGHTS = [(d, a, b, 32) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
INTEGERS = [("s32", a, b, 32) for a in ("s8", "u8") for b in ("s8", "u8")]
SPANS = {0: 128, 1: 128, 2: 64, 3: 32}
"""Bytes of a row, or of a block without swizzle, by the code of the swizzle."""

IMAGE = 64 << 10


def descriptor(rng: random.Random, at: int, mn_major: bool) -> int:
    """An operand that lies within 32 KiB from ``at`` on, relative to the start of shared memory."""
    code = rng.randrange(4)
    unit = 8 * SPANS[code] if code else 128
    sbo = unit if code and rng.random() < 0.7 else 16 * rng.randint(1, 60)
    lbo = unit * rng.randint(1, 3) if mn_major or not code else 16
    start = at + 16 * rng.choice([0, 0, 2, 4, 6, 8 * rng.randint(0, 9)])
    return start >> 4 | lbo >> 4 << 16 | sbo >> 4 << 32 | code << 62


def product(rng: random.Random, types: tuple[str, str, str, int], n: int, in_registers: bool) -> dict:
    """One to three wgmma that accumulate."""
    d, a, b, k = types
    count = rng.randint(1, 3)
    registers = n // 4 if d == "f16" else n // 2
    short = a in ("f16", "bf16")
    a_mn, b_mn = short and not in_registers and rng.random() < 0.3, short and rng.random() < 0.3
    tail = [] if d == "s32" else [str(rng.choice([1, 1, -1])) for _ in "ab"]
    tail += ([] if in_registers else [str(int(a_mn))]) + [str(int(b_mn))] if short else []
    saturate = ".satfinite" if d == "s32" and rng.random() < 0.4 else ""
    head = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}{saturate}.{d}.{a}.{b}"
    sums = f"{{{', '.join(f'%d{i}' for i in range(registers))}}}"
    body = ".reg .b32 %d<128>, %a<4>; .reg .b64 %o, %f, %w, %da, %db; .reg .pred %z;\n"
    body += FIRST.replace("END", "JOIN") + INIT
    body += f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {IMAGE};\n"
    body += "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
    body += f"[%s], [%p_src], {IMAGE}, [%bar];\n" + WAIT.format(W="FETCHED", parity=0) + "JOIN: bar.sync 0;\n"
    body += f"mul.wide.u32 %o, %t, {4 * registers}; add.u64 %f, %p_c, %o; add.u64 %o, %p_out, %o;\n"
    body += "mul.wide.u32 %w, %t, 16; add.u64 %w, %p_a, %w; shr.u32 %x, %s, 4; setp.eq.u32 %z, %x, 0;\n"
    body += "".join(f"ld.global.b32 %d{i}, [%f+{4 * i}];\n" for i in range(registers))
    body += "".join(f"ld.global.b32 %a{i}, [%w+{4 * i}];\n" for i in range(4)) + "wgmma.fence.sync.aligned;\n"
    for step in range(count):
        left, right = descriptor(rng, 0, a_mn), descriptor(rng, 20 << 10, b_mn)
        body += f"cvt.u64.u32 %w, %x; add.u64 %da, %w, {left}; add.u64 %db, %w, {right};\n"
        first = "{%a0, %a1, %a2, %a3}" if in_registers else "%da"
        scale = "%z" if step == 0 and rng.random() < 0.2 else "1"
        body += f"{head} {', '.join([sums, first, '%db', scale, *tail])};\n"
    body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
    body += "".join(f"st.global.b32 [%o+{4 * i}], %d{i};\n" for i in range(registers))
    where = "registers" if in_registers else "shared"
    name = f"wgmma {d} {a} {b} n{n} {where} {count}"
    seed = rng.randrange(1 << 30)
    small = 512 * registers
    buffers = {
        "src": (f"spread {'e5m2' if 'e5m2' in (a, b) else b}", seed, IMAGE),
        "a": (f"spread {a}", seed + 1, 2048),
        "c": (f"spread {d}", seed + 2, small),
        "out": ("zero", seed, small),
    }
    return case(name, entry(body, 0, tuple(buffers)), buffers, block=[128, 1, 1], shared=BAR + 64)


def programs(seed: int = 14) -> list[dict]:
    """All of them."""
    rng = random.Random(seed)
    found = []
    for types in FLOATS + EIGHTS + INTEGERS:
        for in_registers in (False, True):
            sizes = [8, 16, 24, 8 * rng.choice([4, 6, 8])] + [16] * (types in FLOATS)
            found += [product(rng, types, n, in_registers) for n in sizes]
    return found


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump(programs(), file)
