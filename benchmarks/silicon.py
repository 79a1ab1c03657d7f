"""``python -m benchmarks.silicon [--layers NAME ...] [--write FILE.csv]``: 75 layers on the GPU of this machine.

Each layer is timed as cuDNN runs it (where PyTorch is installed: the faster of both memory formats, benchmark on, no
bias), as convc's estimates choose its kernel, and as `convc tune` does; beside these stand the timing engine's time of
the kernel that the estimates choose, and the same numbers as they were recorded here. It needs a GPU.

Times are microseconds of a launch among many in a row. Layers are of batch 1, 4 and 16: thirteen of
`tests/recordings/blind_layers.py`, and twelve more that the timing engine was compared with while it was written.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import math
import re
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.layers import square
from convc.api.bench import Bench, bench_of, tuned_layer
from convc.api.options import ScheduleOptions, TuneOptions
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import shared_problem
from convc.errors import ConvcError
from convc.ir.problem import ConvProblem
from convc.timing.kernel import time_kernel
from convc.timing.parameters import read_chip
from tests.recordings.blind_layers import BATCHES, blind

RECORDED = Path(__file__).with_name("silicon.csv")
PAGE = Path(__file__).resolve().parents[1] / "convc" / "docs" / "tuning.md"
MARKED = re.compile(r"(<!-- begin silicon -->\n).*?(<!-- end silicon -->)", re.DOTALL)

MORE = {
    "vgg.conv2_1": square(64, 128, 112, kernel=3),
    "vgg.conv4_2": square(512, 512, 28, kernel=3),
    "mobilenet.narrow": square(96, 24, 56),
    "mobilenet.expand": square(32, 192, 28),
    "mobilenet.last": square(320, 1280, 7),
    "densenet.grow": square(128, 32, 28, kernel=3),
    "densenet.deep": square(992, 128, 7),
    "inception.wide": square(48, 64, 35, kernel=5),
    "diffusion.640": square(640, 640, 32, kernel=3),
    "detect.pyramid": square(256, 256, 100, kernel=3),
    "segment.dilated": square(512, 512, 28, kernel=3, pad=2, dilation=(2, 2)),
    "yolo.stride": square(64, 128, 160, kernel=3, stride=2),
}
"""Layers of `tests/recordings/record_unseen.py`."""

FIELDS = ("cudnn", "auto", "tuned", "engine")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A layer on a GPU: microseconds, None where there are none, and the kernel that tuning takes."""

    layer: str
    device: str
    cudnn: float | None
    auto: float | None
    tuned: float | None
    engine: float | None
    kernel: str


def layers() -> dict[str, ConvProblem]:
    """All 75 by name."""
    found = dict(blind())
    for name, problem in MORE.items():
        found |= {f"{name}_b{batch}": dataclasses.replace(problem, batch=batch) for batch in BATCHES}
    return found


def measure(name: str, problem: ConvProblem, bench: Bench, chip: str) -> Row:
    """Time a layer in all ways."""
    done = tuned_layer(shared_problem(problem), (name,), bench)
    for title, reason in done.lost:
        print(f"lost: {name}: {title}: {reason}", file=sys.stderr)
    tuned = None if done.record is None else done.record.tuned
    return Row(
        layer=name,
        device=bench.report.where,
        cudnn=cudnn(problem),
        auto=None if tuned is None else tuned.estimated,
        tuned=None if tuned is None else tuned.microseconds,
        engine=engine(problem, bench.options, chip),
        kernel="" if tuned is None else tuned.title,
    )


def engine(problem: ConvProblem, options: ScheduleOptions, chip: str) -> float | None:
    """The timing engine's microseconds of the kernel that the estimates choose, with the gap to the next launch."""
    try:
        made = compile_problem(problem, options=options)
        order = made.plan.launch.order.timed
        timed = time_kernel(made.artifact.ptx, made.artifact.launch, {}, read_chip(chip), order=order)
    except ConvcError as error:
        print(f"no time by the engine: {error}", file=sys.stderr)
        return None
    return timed.microseconds + timed.gap


def cudnn(problem: ConvProblem) -> float | None:
    """Microseconds of PyTorch's convolution, a launch among many in a CUDA graph; None without PyTorch.

    Of one dimension it is asked as one of two, of height 1. The bias, which PyTorch adds in a kernel of its own, is
    left out.
    """
    try:
        # Imported where it is asked for: it need not be installed.
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    torch.backends.cudnn.benchmark = True
    volume = problem.rank == 3
    call = torch.nn.functional.conv3d if volume else torch.nn.functional.conv2d
    flat = problem.rank == 1
    one = (1,) if flat else ()
    pad = (0, *problem.pad_lo) if flat else problem.pad_lo
    times: list[float] = []
    for layout in (torch.contiguous_format, torch.channels_last_3d if volume else torch.channels_last):
        shape = (problem.batch, problem.in_channels, *one, *problem.in_extent)
        x = torch.randn(shape, dtype=torch.float16, device="cuda").contiguous(memory_format=layout)
        taps = (problem.out_channels, problem.in_channels // problem.groups, *one, *problem.kernel)
        w = torch.randn(taps, dtype=torch.float16, device="cuda").contiguous(memory_format=layout)

        def once(x: Any = x, w: Any = w) -> None:
            call(x, w, None, (*one, *problem.stride), pad, (*one, *problem.dilation), problem.groups)

        times.append(_streamed(torch, once))
    return min(times)


def _streamed(torch: Any, once: Any, row: int = 20, turns: int = 9) -> float:
    """Microseconds of a call among ``row`` in a CUDA graph, the median of some turns."""
    for _ in range(5):
        once()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(row):
            once()
    times: list[float] = []
    for _ in range(turns):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * start.elapsed_time(end) / row)
    return statistics.median(times)


def read(file: Path = RECORDED) -> dict[str, Row]:
    """The recorded numbers by layer."""
    with file.open(newline="") as opened:
        return {row["layer"]: _row(row) for row in csv.DictReader(opened)}


def _row(row: Mapping[str, str]) -> Row:
    numbers = {name: float(row[name]) if row[name] else None for name in FIELDS}
    return Row(layer=row["layer"], device=row["device"], kernel=row["kernel"], **numbers)


def write(rows: Sequence[Row], file: Path) -> None:
    """Record numbers."""
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(["layer", "device", *FIELDS, "kernel"])
        for row in rows:
            writer.writerow([row.layer, row.device, *(_number(getattr(row, name)) for name in FIELDS), row.kernel])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def table(rows: Sequence[Row], ours: Mapping[str, Row] | None = None) -> Iterator[str]:
    """Lines of Markdown: times, and how many times as long as cuDNN convc takes; beside ``ours`` the recorded ones."""
    beside = "" if ours is None else " | recorded: cuDNN / auto / tuned"
    yield f"| layer | cuDNN | auto | tuned | engine | auto / tuned | tuned / cuDNN | kernel{beside} |"
    yield f"| --- |{' ---: |' * 6} --- |{' --- |' if ours is not None else ''}"
    for row in rows:
        times = " | ".join(_number(getattr(row, name)) for name in FIELDS)
        ratios = f"{_ratio(row.auto, row.tuned)} | {_ratio(row.tuned, row.cudnn)}"
        more = ""
        if ours is not None:
            old = ours.get(row.layer)
            more = " |" if old is None else f" {_number(old.cudnn)} / {_number(old.auto)} / {_number(old.tuned)} |"
        yield f"| {row.layer} | {times} | {ratios} | {row.kernel} |{more}"


def _ratio(one: float | None, other: float | None) -> str:
    return "" if one is None or other is None else f"{one / other:.2f}"


def means(rows: Sequence[Row]) -> str:
    """The geometric means of the ratios, in a sentence."""
    said: list[str] = []
    for one, other in (("auto", "tuned"), ("auto", "cudnn"), ("tuned", "cudnn"), ("engine", "auto")):
        pairs = [(getattr(row, one), getattr(row, other)) for row in rows]
        found = [a / b for a, b in pairs if a and b]
        if found:
            mean = math.exp(statistics.fmean(map(math.log, found)))
            said.append(f"{one} / {other}: {mean:.3f} ({min(found):.2f} to {max(found):.2f}, {len(found)} layers)")
    return "geometric means: " + "; ".join(said)


def put_on_page(rows: Sequence[Row]) -> None:
    """Write the table into the page between its marks."""
    devices = ", ".join(sorted({row.device for row in rows}))
    text = "\n".join([f"{devices}; microseconds; {means(rows)}.", "", *table(rows)])
    page = PAGE.read_text("utf-8")
    PAGE.write_text(MARKED.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page), "utf-8")


def main() -> None:
    """Measure, and print numbers beside the recorded ones."""
    parser = argparse.ArgumentParser(prog="benchmarks.silicon", description=__doc__)
    parser.add_argument("--layers", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--write", type=Path, metavar="FILE.csv", help="also write the numbers there")
    parser.add_argument("--page", action="store_true", help=f"measure nothing: put what is recorded into {PAGE.name}")
    parser.add_argument("--candidates", type=int, default=16)
    chosen = parser.parse_args()
    if chosen.page:
        put_on_page([*read().values()])
        return
    try:
        bench = bench_of(TuneOptions(on="gpu", candidates=chosen.candidates), ScheduleOptions(), None, True)
    except ConvcError as error:
        raise SystemExit(f"{error}") from None
    names = {"sm_90a": ("h200" if "H200" in bench.report.where else "h100"), "sm_100a": "b200"}
    rows: list[Row] = []
    for name, problem in layers().items():
        if chosen.layers and name not in chosen.layers:
            continue
        rows.append(measure(name, problem, bench, names[bench.report.target]))
        print(rows[-1], file=sys.stderr, flush=True)
        if chosen.write is not None:
            write(rows, chosen.write)
    print("\n".join(table(rows, read() if RECORDED.exists() else {})))
    print(means(rows))


if __name__ == "__main__":
    main()
