"""A race in a process of its own, so that a kernel that faults or hangs takes nothing with it but that process.

``python -m convc.gpu.apart`` reads a job from stdin and writes an event a line, as JSON. Who started it waits for each
event, and ends it where none comes: nothing else ends a kernel that hangs.
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import IO

import msgspec

from convc.errors import GpuError, GpuFault
from convc.gpu.cuda import CudaDriver
from convc.gpu.race import Event, Limits, Lost, Refused, Runner, race

COMMAND = (sys.executable, "-m", "convc.gpu.apart")

LOADING_S = 60.0
"""Seconds in which a process starts, and the driver compiles a text: they come on top of the limit of a launch."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The kernels of a race, and its limits."""

    runners: tuple[Runner, ...]
    limits: Limits


def race_apart(runners: Sequence[Runner], limits: Limits, command: Sequence[str] = COMMAND) -> Iterator[Event]:
    """Time kernels in turns on the first GPU, in a process of its own (see `convc.gpu.race.race`).

    Args:
        runners, limits: see there.
        command: starts the process.

    Returns:
        What happens, as it happens. Where no event comes in time, or the process ends before its time, the kernel
        whose turn it was is lost.
    """
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None, "it was asked for"
    assert process.stdout is not None, "it was asked for"
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    reading = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reading.start()
    job = msgspec.json.encode(Job(runners=tuple(runners), limits=limits))
    threading.Thread(target=_write, args=(process.stdin, job), daemon=True).start()
    turn = 0
    try:
        while True:
            try:
                line = lines.get(timeout=limits.timeout + LOADING_S)
            except queue.Empty:
                yield Lost(turn, f"no result within {limits.timeout + LOADING_S:g} s: ended", True)
                return
            if not line:
                code = process.wait()
                if code:
                    yield Lost(turn, f"the process that launched it ended with {code}", True)
                return
            event = msgspec.json.decode(line, type=Event)
            yield event
            if isinstance(event, Refused) or (isinstance(event, Lost) and event.ends):
                return
            turn = event.runner
    finally:
        process.kill()
        process.wait()
        reading.join()
        process.stdout.close()


def _read(stream: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    """Put the lines of a stream into a queue, and nothing at its end."""
    for line in stream:
        lines.put(line)
    lines.put(b"")


def _write(stream: IO[bytes], data: bytes) -> None:
    """Write to a process that may have ended."""
    try:
        stream.write(data)
        stream.close()
    except OSError:
        return  # its end is noticed by who reads


def _told(event: Event) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """Run the job that stdin holds, on the first GPU."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    try:
        for event in race(CudaDriver(), job.runners, job.limits):
            _told(event)
    except GpuFault:
        return  # it has been told
    except GpuError as error:
        _told(Refused(error.message, error.hint or ""))


if __name__ == "__main__":
    main()
