"""Times convolutions compiled for sm_90a inside of themselves, on a Hopper GPU: when each CTA begins, works and ends.

    cd tests
    python -m recordings.record_spans timing/spans_h200

Writes two files: the times (.csv), and what was timed, texts and launches (.json.xz), so that the engine times the same
kernels however convc compiles them later. Needs what `convc launch` needs. One thread of each CTA reads clocks at a few
places that are put into the text; nothing else of it changes.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from recordings.hopper_cases import Case, cases
from support.recorded_kernels import write_kernels

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.gpu.contents import drawn
from convc.gpu.cuda import CudaDriver
from convc.gpu.perform import _launch, _prepared, _read  # a launch of which every repetition is looked at
from convc.gpu.plan import plan_launch
from convc.ir.launch import BufferSpec, KernelArtifact, LaunchSpec, PointerParam

CLOCKS = "clocks"
"""Buffer of the times, and parameter of the kernel."""

WORDS = 8
"""Of a CTA: globaltimer at entry and exit, clock64 at entry, behind the first meeting, behind its MMAs, at exit; SM."""

PROCESSES = 5
"""Processes that launch all kernels, one after the other: buffers lie elsewhere in each."""

LAUNCHES = 36
"""Launches of a kernel in a process, of which the first ones warm up."""

WARM_UP = 4

FIELDS = (
    "case", "width", "schedule", "tiling", "ctas", "span_us", "apart", "sm_ghz", "start", "multiply", "store",
    "together",
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
class Timed:
    """A kernel that is timed: itself, and how it was compiled."""

    kernel: KernelArtifact
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


def prepared(case: Case, options: ScheduleOptions) -> Timed:
    """Compile a case."""
    made = compile_problem(case.problem, options=options, block_n=case.block_n)
    tiling = f"{made.plan.tiling}{', walks' if made.plan.launch.persistent else ''}"
    return Timed(kernel=made.artifact, schedule=made.schedule, tiling=tiling)


def clocked(driver: CudaDriver, kernel: KernelArtifact) -> dict[str, float]:
    """Means over the middle half of a kernel's launches, and of a CTA medians over CTAs; nanoseconds and cycles."""
    text, launch = with_clocks(kernel.ptx, kernel.launch)
    plan = plan_launch(launch, text)
    contents = {
        buffer: drawn(spec, buffer, 1).reshape(-1).view(np.uint8)
        for buffer, spec in launch.buffers.items()
        if buffer not in ("output", CLOCKS)
    }
    found: list[np.ndarray] = []
    with _prepared(driver, plan, text.encode(), contents, driver.device().driver_version) as ready:
        for _ in range(LAUNCHES):
            _launch(driver, ready, plan, 20.0)
            size = plan.buffers[CLOCKS]
            found.append(_read(driver, ready.addresses[CLOCKS], CLOCKS, size).view(np.uint64).reshape(-1, WORDS))
    kept = [each.astype(np.int64) for each in found[WARM_UP:]]
    last = kept[-1]
    parts = {
        part: float(np.median(last[:, 3 + place] - last[:, 2 + place]))
        for place, part in enumerate(("start", "multiply", "store"))
    }
    return {
        "ctas": len(last),
        "span": _middle([float(each[:, 1].max() - each[:, 0].min()) for each in kept]),
        "rate": _middle([float(_rate(each)) for each in kept]),
        "together": _together(last),
        **parts,
    }


def _middle(values: list[float]) -> float:
    """The mean of the middle half: the GPU's timer goes in steps of 32 ns, and a few launches are held up."""
    quarter = len(values) // 4
    return float(np.mean(sorted(values)[quarter : len(values) - quarter]))


def _rate(ctas: np.ndarray) -> float:
    """Cycles of an SM in a nanosecond: of all CTAs together, as the timer's steps are coarse."""
    return (ctas[:, 5] - ctas[:, 2]).sum() / max(1, (ctas[:, 1] - ctas[:, 0]).sum())


def all_clocked(kernels: list[KernelArtifact]) -> list[dict[str, float]]:
    """What one process finds."""
    driver = CudaDriver()
    found = [clocked(driver, kernel) for kernel in kernels]
    driver.close()
    return found


def row_of(timed: Timed, found: list[dict[str, float]]) -> dict[str, Any]:
    """Medians over processes; ``apart``: by which part of the median the longest and the shortest span differ."""
    middle = {name: float(np.median([each[name] for each in found])) for name in found[0]}
    spans = [each["span"] for each in found]
    return {
        "schedule": timed.schedule,
        "tiling": timed.tiling,
        "span_us": round(middle["span"] / 1000, 3),
        "apart": round((max(spans) - min(spans)) / middle["span"], 3),
        "sm_ghz": round(middle["rate"], 3),
        **{name: int(middle[name]) for name in ("ctas", "start", "multiply", "store", "together")},
    }


def write(out: str, timed: Mapping[tuple[str, int | None], Timed]) -> None:
    """Time kernels in several processes, and write both files; a kernel's name is its case, and its tile's width."""
    kernels = [each.kernel for each in timed.values()]
    found: list[list[dict[str, float]]] = []
    for _ in range(PROCESSES):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found.append(pool.submit(all_clocked, kernels).result())
    with open(f"{out}.csv", "w", newline="") as file:
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()
        for (case, width), each, *ways in zip(timed, timed.values(), *found, strict=True):
            table.writerow({"case": case, "width": width, **row_of(each, ways)})
    named = {case if width is None else f"{case} {width}": each.kernel for (case, width), each in timed.items()}
    write_kernels(Path(f"{out}.json.xz"), named)


def _together(ctas: np.ndarray) -> int:
    """The most CTAs that lay on an SM at the same time."""
    most = 0
    for sm in np.unique(ctas[:, 6]):
        own = ctas[ctas[:, 6] == sm]
        most = max(most, int(((own[:, None, 2] >= own[None, :, 2]) & (own[:, None, 2] < own[None, :, 5])).sum(1).max()))
    return most


def asked() -> dict[tuple[str, int | None], tuple[Case, ScheduleOptions]]:
    """All timed cases, a CTA for each tile and as the planner compiles them; some of 1 x 1 with other widths too."""
    timed = [case for case in cases() if case.timed]
    some = [case for case in timed if case.schedule == "auto" and case.problem.operand == "f16"]
    once = {(case.name, None): (case, replace(case.options, persistent="off")) for case in timed}
    planned = {(f"{case.name}_auto", None): (case, case.options) for case in timed}
    others = {
        (case.name, width): (replace(case, block_n=width), replace(case.options, persistent="off"))
        for case in some
        for width in (64, 128, 256)
        if case.problem.out_channels % width == 0 and case.problem.kernel == (1, 1)
    }
    return {**once, **planned, **others}


def main(out: str) -> None:
    """Record all; what the planner makes is left out where it is a CTA for each tile too."""
    chosen = asked()
    with ProcessPoolExecutor(14, mp_context=get_context("spawn")) as pool:
        made = dict(zip(chosen, pool.map(prepared, *zip(*chosen.values(), strict=True)), strict=True))
    write(out, {key: each for key, each in made.items() if not key[0].endswith("_auto") or "walks" in each.tiling})


if __name__ == "__main__":
    main(*sys.argv[1:])
