"""Times copies of 128 rows by what a row is, on a Hopper GPU: bytes in the tile, in the tensor, and between pixels.

    cd tests
    python -m recordings.record_rows timing/rows_h200.csv

Needs what `convc launch` needs. One thread copies into a ring of eight stages, and waits for each before it is used
again; a CTA has 128 pixels of its own, and copies those of eight filter rows. L2 holds everything.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from convc.gpu.cuda import CudaDriver
from convc.gpu.perform import perform
from convc.gpu.plan import EncodedMap, LaunchPlan, plan_launch
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, ScalarParam, TensorMapParam
from convc.ir.tensormap import TensorMap

ROWS = 128
STAGES = 8
ROUNDS = 64
WARM_UP = 8
EXTENT = 224
IMAGES = 8
SWIZZLES = {32: "32B", 64: "64B", 128: "128B"}
OUTSIDE = 100
"""An image that there is not: all of its rows are filled with zeros."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What is copied.

    Attributes:
        mode: of the copies: im2col or tile.
        box: bytes of a row in shared memory. real: those of them that the tensor has.
        pitch: bytes from one pixel to the next. step: pixels from one row of the copy to the next.
        swizzled: by the span of a row.
        outside: all rows lie outside of the tensor.
        promoted: the map asks L2 for more at a time, as a number of CUtensorMapL2promotion.
    """

    mode: str
    box: int
    real: int
    pitch: int
    step: int = 1
    swizzled: bool = True
    outside: bool = False
    promoted: int = 0

    @property
    def tensor_map(self) -> TensorMap:
        """Of images of 224 x 224 pixels."""
        pixels = (64 * self.step, 2 * self.step, 1)
        own = {"box": (self.box // 2, *pixels)} if self.mode == "tile" else {"channels": self.box // 2, "pixels": ROWS}
        corners = {} if self.mode == "tile" else {"lower": (0, 0), "upper": (0, -7)}
        width = EXTENT if self.mode == "tile" else self.columns * self.step
        return TensorMap(
            mode=self.mode,
            buffer="pixels",
            dtype="f16",
            dims=(self.real // 2, width, EXTENT, IMAGES),
            strides=(self.pitch, self.pitch * EXTENT, self.pitch * EXTENT * EXTENT),
            element_strides=(1, self.step, self.step, 1),
            swizzle=SWIZZLES[self.box] if self.swizzled else "none",
            **own,
            **corners,
        )

    @property
    def columns(self) -> int:
        """Pixels that the copies of an image's row take."""
        return 112 if self.mode == "im2col" else 128


def variants() -> list[Rows]:
    """Everything that is timed."""
    found: list[Rows] = []
    for mode in ("im2col", "tile"):
        for step in (1, 2):
            shapes = ((32, 16, 16), (64, 16, 16), (128, 16, 16), (32, 32, 32), (64, 64, 64), (128, 128, 128))
            found += [Rows(mode=mode, box=box, real=real, pitch=pitch, step=step) for box, real, pitch in shapes]
        found += [
            Rows(mode=mode, box=16, real=16, pitch=16, swizzled=False),
            Rows(mode=mode, box=64, real=64, pitch=64, swizzled=False),
            Rows(mode=mode, box=32, real=32, pitch=128),
            Rows(mode=mode, box=64, real=64, pitch=128),
            Rows(mode=mode, box=64, real=48, pitch=48),
            Rows(mode=mode, box=64, real=56, pitch=16),
            Rows(mode=mode, box=64, real=64, pitch=16),
            Rows(mode=mode, box=64, real=56, pitch=64),
            Rows(mode=mode, box=32, real=24, pitch=32),
            Rows(mode=mode, box=64, real=64, pitch=64, outside=True),
            Rows(mode=mode, box=32, real=16, pitch=16, outside=True),
            Rows(mode=mode, box=128, real=128, pitch=128, outside=True),
        ]
    found += [Rows(mode="im2col", box=box, real=16, pitch=16, promoted=3) for box in (32, 64)]
    found.append(Rows(mode="im2col", box=64, real=56, pitch=16, promoted=3))
    return found


BEGIN = """.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 ring[];

.visible .entry rows(
    .param .align 64 .b8 map[128], .param .u64 cycles, .param .u32 columns, .param .u32 step, .param .u32 image
)
{
    .reg .b64 %map, %cycles, %from, %to, %at;
    .reg .b32 %cta, %w, %h, %n, %columns, %step, %i, %phase, %ring, %full;
    .reg .pred %p;
    mov.b64 %map, map;
    cvta.param.u64 %map, %map;
    ld.param.u64 %cycles, [cycles];
    ld.param.u32 %columns, [columns];
    ld.param.u32 %step, [step];
    ld.param.u32 %n, [image];
    mov.u32 %cta, %ctaid.x;
    mul.lo.u32 %i, %cta, 128;
    rem.u32 %w, %i, %columns;
    mul.lo.u32 %w, %w, %step;
    div.u32 %h, %i, %columns;
    rem.u32 %h, %h, 64;
    mul.lo.u32 %h, %h, %step;
    mov.u32 %ring, ring;
"""


def text_of(rows: Rows) -> str:
    """The kernel: its first rounds warm up."""
    size = rows.box * ROWS
    full = STAGES * size
    lines = [BEGIN, f"    add.u32 %full, %ring, {full};"]
    lines += [f"    mbarrier.init.shared::cta.b64 [%full+{8 * stage}], 1;" for stage in range(STAGES)]
    lines += ["    fence.mbarrier_init.release.cluster;", "    mov.u32 %i, 0;", "    mov.u32 %phase, 0;"]
    lines += [line for stage in range(STAGES) for line in _copy(rows, stage)]
    lines.append("again:")
    for stage in range(STAGES):
        lines += [*_wait(f"wait{stage}", stage), *_copy(rows, stage)]
    lines += [
        "    xor.b32 %phase, %phase, 1;",
        "    add.u32 %i, %i, 1;",
        f"    setp.ne.u32 %p, %i, {WARM_UP};",
        "    @%p bra timed;",
        "    mov.u64 %from, %clock64;",
        "timed:",
        f"    setp.lt.u32 %p, %i, {WARM_UP + ROUNDS};",
        "    @%p bra again;",
        "    mov.u64 %to, %clock64;",
    ]
    lines += [line for stage in range(STAGES) for line in _wait(f"last{stage}", stage)]
    lines += [
        "    sub.u64 %to, %to, %from;",
        "    mul.wide.u32 %at, %cta, 8;",
        "    add.u64 %cycles, %cycles, %at;",
        "    st.global.u64 [%cycles], %to;",
        "    ret;",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _wait(label: str, stage: int) -> list[str]:
    """Wait until a stage has landed."""
    return [
        f"{label}:",
        f"    mbarrier.try_wait.parity.shared::cta.b64 %p, [%full+{8 * stage}], %phase;",
        f"    @!%p bra {label};",
    ]


def _copy(rows: Rows, stage: int) -> list[str]:
    """A copy of the pixels of one filter row into a stage."""
    size = rows.box * ROWS
    place = "[%copied], [%map, {0, %w, %copied_h, %n}], [%filled]"
    copy = "cp.async.bulk.tensor.4d.shared::cluster.global"
    row = stage % 7
    if rows.mode == "im2col":
        issue = (
            f"{copy}.im2col.mbarrier::complete_tx::bytes [%copied], [%map, {{0, %w, %h, %n}}], [%filled], {{0, {row}}};"
        )
    else:
        issue = f"{copy}.tile.mbarrier::complete_tx::bytes {place};"
    return [
        "    {",
        "    .reg .b32 %copied, %filled, %copied_h;",
        f"    add.u32 %copied, %ring, {stage * size};",
        f"    add.u32 %filled, %full, {8 * stage};",
        f"    add.u32 %copied_h, %h, {row};",
        f"    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%filled], {size};",
        f"    {issue}",
        "    }",
    ]


def launch_of(rows: Rows, ctas: int) -> LaunchSpec:
    """One CTA on each of so many SMs."""
    return LaunchSpec(
        entry="rows",
        grid=(ctas, 1, 1),
        block=(1, 1, 1),
        shared_bytes=max(STAGES * ROWS * rows.box + 8 * STAGES, 120 << 10),
        buffers={
            "pixels": BufferSpec(dtype="f16", shape=(EXTENT * EXTENT * IMAGES * max(64, rows.pitch) // 2,)),
            "cycles": BufferSpec(dtype="u64", shape=(ctas,)),
        },
        params=(
            TensorMapParam(map=rows.tensor_map),
            PointerParam(buffer="cycles"),
            ScalarParam(dtype="u32", value=rows.columns),
            ScalarParam(dtype="u32", value=rows.step),
            ScalarParam(dtype="u32", value=OUTSIDE if rows.outside else 0),
        ),
    )


def promoted(plan: LaunchPlan, number: int) -> LaunchPlan:
    """The launch with a map that asks L2 for more at a time."""
    first = plan.params[0]
    (patch,) = first.patches
    assert isinstance(patch, EncodedMap)
    after = tuple((name, number if name == "l2Promotion" else value) for name, value in patch.call.after)
    changed = replace(patch, call=replace(patch.call, after=after))
    return replace(plan, params=(replace(first, patches=(changed,)), *plan.params[1:]))


def main(out: str) -> None:
    """Time all variants, on one SM and on all."""
    driver = CudaDriver()
    lines = ["mode,box,real,pitch,step,swizzled,outside,promoted,ctas,cycles"]
    for rows in variants():
        for ctas in (1, 132):
            text = text_of(rows)
            plan = promoted(plan_launch(launch_of(rows, ctas), text), rows.promoted)
            done = perform(driver, plan, text.encode(), {})
            cycles = float(np.median(done.buffers["cycles"].view(np.uint64))) / (ROUNDS * STAGES)
            what = (rows.mode, rows.box, rows.real, rows.pitch, rows.step, int(rows.swizzled), int(rows.outside))
            lines.append(",".join(map(str, (*what, rows.promoted, ctas, f"{cycles:.1f}"))))
            print(lines[-1], flush=True)
            Path(out).write_text("\n".join(lines) + "\n")
    driver.close()


if __name__ == "__main__":
    main(sys.argv[1])
