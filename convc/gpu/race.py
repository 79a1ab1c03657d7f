"""Several kernels that do the same, timed in turns: all are loaded, each has its launches, and again, warm.

A race tells what happens as it happens, as events, so that who listens has everything up to a kernel that faults or
hangs. Behind such a kernel the driver refuses whatever the process asks, so a race ends there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress

import msgspec
import numpy as np

from convc.errors import GpuError, GpuFault, LimitError
from convc.gpu.contents import values_of
from convc.gpu.driver import Driver
from convc.gpu.perform import Ready, behind, check_device, launch_once, prepared, spinning
from convc.gpu.plan import LaunchPlan, plan_launch
from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.launch import BufferSpec, LaunchSpec

ROUNDS = 9
"""Times that each kernel has its turn."""

LEAST_ROUNDS = 3
"""Turns that there are in any case."""

TURN_US = 2000.0
"""About as long as the launches of a turn take together."""

FEWEST = 5
"""Launches of a turn, at least."""

MOST = 50
"""Launches of a turn, at most."""

WARM = 2
"""Launches in front of those of a turn that are timed."""

PERIOD = 1 << 20
"""Numbers after which contents repeat."""


class Runner(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel in a race: its text, and how it is launched."""

    text: str
    launch: LaunchSpec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a race.

    Attributes:
        seconds: behind which no kernel is loaded any more and no round begins, but for two kernels and
            `LEAST_ROUNDS` rounds.
        timeout: seconds to wait for a launch.
    """

    seconds: float = 20.0
    timeout: float = 10.0


class Began(msgspec.Struct, frozen=True, tag="began"):
    """A kernel, by its number, is loaded or has its turn: what happens next happens to it."""

    runner: int


class Turn(msgspec.Struct, frozen=True, tag="turn"):
    """Microseconds of a launch in a turn of a kernel."""

    runner: int
    microseconds: float


class Lost(msgspec.Struct, frozen=True, tag="lost"):
    """A kernel that has no time, and why; with ``ends`` the race ends with it."""

    runner: int
    reason: str
    ends: bool = False


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """There is no race: no GPU, or no driver."""

    reason: str
    hint: str = ""


Event = Began | Turn | Lost | Refused


def race(driver: Driver, runners: Sequence[Runner], limits: Limits) -> Iterator[Event]:
    """Time kernels in turns on a GPU.

    Args:
        driver: of the GPU.
        runners: the kernels; contents of buffers are drawn, alike for all.
        limits: when to stop.

    Returns:
        What happens, as it happens.

    Raises:
        GpuFault: behind a `Lost` that ends the race; nothing that the driver has can be given back then.
    """
    until = time.monotonic() + limits.seconds
    running: dict[int, _Running] = {}
    with ExitStack() as held:
        busy = held.enter_context(spinning(driver))
        for number, runner in enumerate(runners):
            if len(running) >= 2 and time.monotonic() > until:
                break
            yield Began(number)
            try:
                running[number] = _loaded(driver, held, busy, runner, limits.timeout)
            except (GpuError, LimitError) as error:
                yield Lost(number, error.message)
            except GpuFault as fault:
                yield Lost(number, fault.message, True)
                raise
        for turn in range(ROUNDS):
            if turn >= LEAST_ROUNDS and time.monotonic() > until:
                break
            for number, one in running.items():
                yield Began(number)
                try:
                    took = behind(driver, busy, one.ready, one.plan, limits.timeout, one.count, WARM) / one.count
                except GpuFault as fault:
                    yield Lost(number, fault.message, True)
                    raise
                yield Turn(number, took)


class _Running(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel that is loaded, and the launches of its turns."""

    plan: LaunchPlan
    ready: Ready
    count: int


def _loaded(driver: Driver, held: ExitStack, busy: Ready, runner: Runner, timeout: float) -> _Running:
    """A kernel with its buffers filled, which was launched some times."""
    plan = plan_launch(runner.launch, runner.text)
    device = driver.device()
    check_device(plan, device)
    contents = {name: noise(spec) for name, spec in runner.launch.buffers.items() if spec.values is None}
    ready = held.enter_context(prepared(driver, plan, runner.text.encode(), contents, device.driver_version))
    launch_once(driver, ready, plan, timeout)
    once = behind(driver, busy, ready, plan, timeout, FEWEST) / FEWEST
    return _Running(plan=plan, ready=ready, count=int(np.clip(TURN_US / max(once, 0.1), FEWEST, MOST)))


def noise(spec: BufferSpec) -> np.ndarray:
    """The contents of a buffer: normal numbers, or small whole ones, the same for the same type and shape.

    How fast tensor cores may run depends on the numbers: with zeros they take less power.
    """
    kind = ARRAY_TYPES[spec.dtype]
    count = int(np.prod(spec.shape, dtype=np.int64))
    drawn = np.random.default_rng(0)
    some = min(count, PERIOD)
    if kind.kind in "iub" or kind.itemsize == 1:
        numbers = drawn.choice(values_of(spec.dtype), some)
    else:
        numbers = drawn.standard_normal(some, np.float32).astype(kind)
    return np.resize(numbers, spec.shape)


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a race: microseconds of the turns of each kernel that came to its end, and why others did not."""

    times: dict[int, list[float]]
    lost: dict[int, str]


def tally(runners: Sequence[Runner], start: Callable[[Sequence[Runner]], Iterator[Event]]) -> Tally:
    """Race kernels until all that are left come to their end: behind one that faults or hangs, the others once more.

    Args:
        runners: the kernels.
        start: starts a race among some of them.

    Raises:
        GpuError: there is no GPU or driver.
    """
    lost: dict[int, str] = {}
    while True:
        left = [number for number in range(len(runners)) if number not in lost]
        times: dict[int, list[float]] = {}
        before = len(lost)
        again = False
        with suppress(GpuFault):
            for event in start([runners[number] for number in left]) if left else ():
                if isinstance(event, Refused):
                    raise GpuError(event.reason, hint=event.hint)
                if isinstance(event, Turn):
                    times.setdefault(left[event.runner], []).append(event.microseconds)
                if isinstance(event, Lost):
                    lost[left[event.runner]] = event.reason
                    again = again or event.ends
        if not again or len(lost) == before:
            return Tally(times={number: turns for number, turns in times.items() if number not in lost}, lost=lost)
