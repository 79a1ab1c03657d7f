"""Reports on launches on a GPU: what it left, how long it took, and whether the simulator says the same."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from rich.console import Console

from convc.gpu.contents import digest
from convc.gpu.driver import Device
from convc.gpu.perform import Timing
from convc.gpu.result import BufferComparison, Launched
from convc.report.output import json_text
from convc.support.files import to_npy_dtype
from convc.support.short_names import with_short_names


class LaunchedBuffer(TypedDict):
    """A buffer after a launch on a GPU; no file where it was not asked for."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    digest: str
    file: str | None


class LaunchTimes(TypedDict):
    """Times of launches on a GPU: each alone, their median, in a row; the clock of the SMs and the median's cycles."""

    microseconds: tuple[float, ...]
    median: float
    streamed: float
    clock_ghz: float
    cycles: float


class LaunchedJson(TypedDict):
    """A launch on a GPU by ``convc launch``: tensor maps in hexadecimal, times and comparison where asked for."""

    format: Literal["convc-launched/1"]
    entry: str
    ok: bool
    device: Device
    buffers: list[LaunchedBuffer]
    maps: list[str]
    timing: LaunchTimes | None
    comparison: list[BufferComparison] | None


def print_launched(console: Console, done: Launched) -> None:
    """Print where a kernel ran, a digest of each buffer, times and the comparison, as far as there are any."""
    lines = [f"{with_short_names(done.entry)} on {done.device.name} ({done.device.arch}, CUDA {done.device.cuda})"]
    for name, array in done.buffers.items():
        lines.append(f"{name}: {array.dtype.name} {list(array.shape)}, digest {digest(array)}")
    lines += [f"wrote {file}: {f'buffer {name}' if name else 'the result'}" for name, file in done.saved.items()]
    if done.tuned is not None:
        lines.append(str(done.tuned))
    if done.timing is not None:
        lines.append(_time_line(done.timing))
    lines += [_comparison_line(each) for each in done.comparison or ()]
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)


def _time_line(timing: Timing) -> str:
    times = timing.microseconds
    return (
        f"time: {timing.median:.1f} us alone ({min(times):.1f} to {max(times):.1f}, {len(times)} launches), "
        f"{timing.streamed:.1f} us in a row; {timing.cycles:.0f} cycles at {timing.clock_ghz:.3f} GHz"
    )


def _comparison_line(each: BufferComparison) -> str:
    """How a buffer compares with the simulator's, in one line."""
    if not each.differ:
        return f"{each.buffer}: as on the simulator, byte for byte ({each.count} elements)"
    worst = "" if each.worst is None else f" by up to {each.worst:.3g}"
    said = f"{each.wrong} by more than is allowed: WRONG" if each.wrong else "all as near as is allowed"
    return (
        f"{each.buffer}: {each.differ} of {each.count} elements differ from the simulator{worst}, {said}; "
        f"{list(each.first or ())} is {each.got} on the GPU, {each.expected} on the simulator"
    )


def launched_json(done: Launched) -> bytes:
    """A launch on a GPU as JSON (`LaunchedJson`)."""
    timed: dict[str, Any] | None = None
    if done.timing is not None:
        timed = {
            "microseconds": done.timing.microseconds,
            "median": done.timing.median,
            "streamed": done.timing.streamed,
            "clock_ghz": done.timing.clock_ghz,
            "cycles": done.timing.cycles,
        }
    buffers = [
        {
            "name": name,
            "dtype": to_npy_dtype(array).dtype.name,
            "shape": array.shape,
            "digest": digest(array),
            "file": str(done.saved[name]) if name in done.saved else None,
        }
        for name, array in done.buffers.items()
    ]
    return json_text(
        {
            "format": "convc-launched/1",
            "entry": done.entry,
            "ok": done.ok,
            "device": done.device,
            "buffers": buffers,
            "maps": [each.hex() for each in done.maps],
            "timing": timed,
            "comparison": done.comparison,
        }
    )
