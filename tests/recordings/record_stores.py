"""Times stores of global memory by the places that the lanes of a warp write, on a Hopper GPU.

    cd tests
    python -m recordings.record_stores timing/stores_h200.csv

Needs what `convc launch` needs. A warp writes 16 bytes a lane, again and again to places of its own; one CTA of four
warps runs alone, then one on each SM.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from convc.gpu.cuda import CudaDriver
from convc.gpu.perform import perform
from convc.gpu.plan import plan_launch
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam

PATTERNS = {
    "32 rows of 1 half": (1, 1024, 0),
    "16 rows of 2 halves": (2, 1024, 32),
    "8 rows of 4 halves": (4, 1024, 32),
    "16 rows of 2 halves apart": (2, 1024, 64),
    "16 rows of 1 sector": (2, 1024, 16),
    "8 rows of 2 sectors": (4, 1024, 16),
    "4 rows of 4 sectors": (8, 1024, 16),
    "all in a row": (32, 0, 16),
}
"""Where the lanes of a warp write, by what that is: lanes in a row, bytes from row to row and from lane to lane."""

WARPS = 4
ROUNDS = 32
UNROLLED = 8
WARP_BYTES = 1 << 17

TEXT = """.version 8.0
.target sm_90a
.address_size 64

.visible .entry stores(.param .u64 places, .param .u64 memory, .param .u64 cycles)
{{
    .reg .b64 %places, %memory, %cycles, %from, %to, %at, %own;
    .reg .b32 %lane, %warp, %x, %cta, %i;
    .reg .pred %p;
    ld.param.u64 %places, [places];
    ld.param.u64 %memory, [memory];
    ld.param.u64 %cycles, [cycles];
    mov.u32 %lane, %laneid;
    mov.u32 %x, %tid.x;
    shr.u32 %warp, %x, 5;
    mov.u32 %cta, %ctaid.x;
    mul.wide.u32 %own, %lane, 4;
    add.u64 %places, %places, %own;
    ld.global.u32 %x, [%places];
    mad.lo.u32 %i, %cta, {warps}, %warp;
    mul.wide.u32 %own, %i, {warp_bytes};
    add.u64 %memory, %memory, %own;
    cvt.u64.u32 %own, %x;
    add.u64 %memory, %memory, %own;
    mul.wide.u32 %own, %i, 8;
    add.u64 %cycles, %cycles, %own;
    mov.u32 %i, 0;
    bar.sync 0;
    mov.u64 %from, %clock64;
again:
{body}
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, {rounds};
    @%p bra again;
    mov.u64 %to, %clock64;
    sub.u64 %to, %to, %from;
    st.global.u64 [%cycles], %to;
    ret;
}}
"""


def places_of(lanes: int, row: int, step: int) -> np.ndarray:
    """Byte of each lane, uint32 (32,)."""
    lane = np.arange(32, dtype=np.uint32)
    return lane // lanes * row + lane % lanes * step


def main(out: str) -> None:
    """Measure all patterns."""
    body = "".join(
        f"    st.global.v4.b32 [%memory+{32768 * (index // 2 % 4) + 16 * (index % 2)}], {{%x, %lane, %warp, %i}};\n"
        for index in range(UNROLLED)
    )
    text = TEXT.format(warps=WARPS, warp_bytes=WARP_BYTES, body=body, rounds=ROUNDS)
    driver = CudaDriver()
    lines = ["pattern,ctas,cycles"]
    for name, pattern in PATTERNS.items():
        places = places_of(*pattern)
        for ctas in (1, 132):
            launch = LaunchSpec(
                entry="stores",
                grid=(ctas, 1, 1),
                block=(32 * WARPS, 1, 1),
                buffers={
                    "places": BufferSpec(dtype="u32", shape=(32,)),
                    "memory": BufferSpec(dtype="u8", shape=(ctas * WARPS * WARP_BYTES,)),
                    "cycles": BufferSpec(dtype="u64", shape=(ctas * WARPS,)),
                },
                params=tuple(PointerParam(buffer=each) for each in ("places", "memory", "cycles")),
            )
            done = perform(driver, plan_launch(launch, text), text.encode(), {"places": places.view(np.uint8)})
            cycles = np.median(done.buffers["cycles"].view(np.uint64)) / (ROUNDS * UNROLLED * WARPS)
            lines.append(f"{name},{ctas},{cycles:.1f}")
            print(lines[-1], flush=True)
    driver.close()
    Path(out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
