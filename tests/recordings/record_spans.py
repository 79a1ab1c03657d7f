"""Times convolutions compiled for sm_90a inside of themselves, on a Hopper GPU: when each CTA begins, works and ends.

    cd tests
    python -m recordings.record_spans timing/spans_h200.csv

Needs what `convc launch` needs. One thread of each CTA reads clocks at a few places that are put into the text; nothing
else of it changes.
"""

from __future__ import annotations

import csv
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import msgspec
import numpy as np
from recordings.hopper_cases import Case, cases

from convc.compiler.compile import compile_problem
from convc.gpu.contents import drawn
from convc.gpu.cuda import CudaDriver
from convc.gpu.perform import _launch, _prepared, _read  # a launch of which every repetition is looked at
from convc.gpu.plan import plan_launch
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam

CLOCKS = "clocks"
"""Buffer of the times, and parameter of the kernel."""

WORDS = 8
"""Of a CTA: globaltimer at entry and exit, clock64 at entry, behind the first meeting, behind its MMAs, at exit; SM."""

LAUNCHES = 9
"""Launches of a kernel, of which the first ones warm up."""

WARM_UP = 3

FIELDS = (
    "case", "width", "schedule", "tiling", "ctas", "span_us", "sm_ghz", "start", "multiply", "store", "together",
)  # fmt: skip

_BEGIN = """
    .reg .b64 %began, %ended, %clock<4>, %clocks;
    .reg .b32 %at<3>;
    .reg .pred %first;
    mov.u64 %began, %globaltimer;
    mov.u64 %clock0, %clock64;
    mov.u64 %clock2, %clock0;
    mov.u32 %thread, %tid.x;"""

_END = """
    mov.u64 %clock3, %clock64;
    mov.u64 %ended, %globaltimer;
    setp.ne.u32 %first, %thread, 0;
    @%first bra clocks_end;
    mov.u32 %at0, %ctaid.y;
    mov.u32 %at1, %nctaid.x;
    mov.u32 %at2, %ctaid.x;
    mad.lo.u32 %at0, %at0, %at1, %at2;
    ld.param.u64 %clocks, [clocks];
    cvta.to.global.u64 %clocks, %clocks;
    mul.wide.u32 %ended_at, %at0, 64;
    add.u64 %clocks, %clocks, %ended_at;
    mov.u32 %at1, %smid;
    cvt.u64.u32 %ended_at, %at1;
    st.global.v2.u64 [%clocks], {%began, %ended};
    st.global.v2.u64 [%clocks+16], {%clock0, %clock1};
    st.global.v2.u64 [%clocks+32], {%clock2, %clock3};
    st.global.u64 [%clocks+48], %ended_at;
clocks_end:
    ret;
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocked:
    """A kernel with clocks: its text and launch, and how it was compiled."""

    text: str
    launch: LaunchSpec
    schedule: str
    tiling: str


def with_clocks(text: str, launch: LaunchSpec) -> tuple[str, LaunchSpec]:
    """Put clocks into the text of a convolution for sm_90a, and one more buffer into its launch."""
    text, parameters = re.subn(r"\n\)\n\.reqntid", f",\n    .param .u64 {CLOCKS}\n)\n.reqntid", text, count=1)
    text, begins = re.subn(
        r"\n    mov\.u32 %thread, %tid\.x;", _BEGIN.replace("%ended,", "%ended, %ended_at,"), text, count=1
    )
    text, meets = re.subn(
        r"(step=start\.sync.*\n\s*\{\n\s*bar\.sync 0;\n\s*\})", r"\1\n    mov.u64 %clock1, %clock64;", text, count=1
    )
    text, done = re.subn(r"(wgmma\.wait_group\.sync\.aligned 0;\n\s*\})", r"\1\n    mov.u64 %clock2, %clock64;", text)
    text, ends = re.subn(r"\n    ret;\n\}", _END, text, count=1)
    assert (parameters, begins, meets, ends) == (1, 1, 1, 1), "the text is not one of convc"
    assert done >= 1, "the text has no wgmma"
    clocks = BufferSpec(dtype="u64", shape=(launch.ctas, WORDS))
    buffers = {**launch.buffers, CLOCKS: clocks}
    return text, msgspec.structs.replace(launch, buffers=buffers, params=(*launch.params, PointerParam(buffer=CLOCKS)))


def prepared(case: Case) -> Clocked:
    """Compile a case."""
    compiled = compile_problem(case.problem, options=case.options, block_n=case.block_n)
    artifact = compiled.artifact
    text, launch = with_clocks(artifact.ptx, artifact.launch)
    return Clocked(text=text, launch=launch, schedule=compiled.schedule, tiling=str(compiled.plan.tiling))


def spans(driver: CudaDriver, made: Clocked) -> dict[str, Any]:
    """Medians over launches, and of a CTA over CTAs, in microseconds and in cycles."""
    plan = plan_launch(made.launch, made.text)
    contents = {
        buffer: drawn(spec, buffer, 1).reshape(-1).view(np.uint8)
        for buffer, spec in made.launch.buffers.items()
        if buffer not in ("output", CLOCKS)
    }
    found: list[np.ndarray] = []
    with _prepared(driver, plan, made.text.encode(), contents, driver.device().driver_version) as ready:
        for _ in range(LAUNCHES):
            _launch(driver, ready, plan, 20.0)
            size = plan.buffers[CLOCKS]
            found.append(_read(driver, ready.addresses[CLOCKS], CLOCKS, size).view(np.uint64).reshape(-1, WORDS))
    kept = [each.astype(np.int64) for each in found[WARM_UP:]]
    span = [int(each[:, 1].max() - each[:, 0].min()) for each in kept]
    rate = [float(np.median((each[:, 5] - each[:, 2]) / np.maximum(1, each[:, 1] - each[:, 0]))) for each in kept]
    last = kept[-1]
    start, multiply, store = (int(np.median(last[:, 3 + part] - last[:, 2 + part])) for part in range(3))
    return {
        "schedule": made.schedule,
        "tiling": made.tiling,
        "ctas": len(last),
        "span_us": round(float(np.median(span)) / 1000, 3),
        "sm_ghz": round(float(np.median(rate)), 3),
        "start": start,
        "multiply": multiply,
        "store": store,
        "together": _together(last),
    }


def _together(ctas: np.ndarray) -> int:
    """The most CTAs that lay on an SM at the same time."""
    most = 0
    for sm in np.unique(ctas[:, 6]):
        own = ctas[ctas[:, 6] == sm]
        most = max(most, int(((own[:, None, 2] >= own[None, :, 2]) & (own[:, None, 2] < own[None, :, 5])).sum(1).max()))
    return most


def widths() -> list[tuple[Case, int | None]]:
    """All timed cases as the planner compiles them (None), and layers with 1 x 1 kernels with tiles of other widths."""
    timed = [case for case in cases() if case.timed]
    some = [case for case in timed if case.schedule == "auto" and case.problem.operand == "f16"]
    others = [
        (replace(case, block_n=width), width)
        for case in some
        for width in (64, 128, 256)
        if case.problem.out_channels % width == 0 and case.problem.kernel == (1, 1)
    ]
    return [*((case, None) for case in timed), *others]


def main(out: str, pattern: str = ".") -> None:
    """Record the timed cases whose name matches."""
    chosen = [(case, width) for case, width in widths() if re.search(pattern, case.name)]
    driver = CudaDriver()
    with ProcessPoolExecutor(14, mp_context=get_context("spawn")) as pool, open(out, "w", newline="") as file:
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()
        for (case, width), made in zip(chosen, pool.map(prepared, [case for case, _ in chosen]), strict=True):
            table.writerow({"case": case.name, "width": width, **spans(driver, made)})
    driver.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
