"""A kernel that keeps one thread busy for a number of cycles, and says how many nanoseconds they took.

It has two uses. Launched in front of what is timed, it keeps the GPU busy until everything behind it is queued, so that
the time of the host is not measured. And it measures the clock of the SMs: the driver's own figures are the highest
clock, or need another library. ``%globaltimer`` moves in steps of up to a microsecond, so over a millisecond the
measure errs by about a thousandth.
"""

from __future__ import annotations

from convc.gpu.plan import LaunchPlan, plan_launch
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, ScalarParam

TEXT = """\
.version 7.0
.target sm_70
.address_size 64

.visible .entry sm_clock(.param .u64 out, .param .u64 cycles)
{
    .reg .pred %early;
    .reg .b64 %out, %wanted, %start, %now, %cycles, %from, %to;
    ld.param.u64 %out, [out];
    ld.param.u64 %wanted, [cycles];
    mov.u64 %from, %globaltimer;
    mov.u64 %start, %clock64;
again:
    mov.u64 %now, %clock64;
    sub.u64 %cycles, %now, %start;
    setp.lt.u64 %early, %cycles, %wanted;
    @%early bra again;
    mov.u64 %to, %globaltimer;
    sub.u64 %to, %to, %from;
    st.global.u64 [%out], %cycles;
    st.global.u64 [%out+8], %to;
    ret;
}
"""


def clock_plan(cycles: int) -> LaunchPlan:
    """The launch of the kernel; its buffer ``out`` holds cycles and nanoseconds afterwards, u64 (2,)."""
    launch = LaunchSpec(
        entry="sm_clock",
        grid=(1, 1, 1),
        block=(1, 1, 1),
        buffers={"out": BufferSpec(dtype="u64", shape=(2,))},
        params=(PointerParam(buffer="out"), ScalarParam(dtype="u64", value=cycles)),
    )
    return plan_launch(launch, TEXT)
