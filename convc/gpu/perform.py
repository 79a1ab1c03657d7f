"""A plan is performed: load, allocate, encode, launch, wait, copy back, time, and clean up whatever happens.

Behind every buffer lie `GUARD` bytes that no kernel may touch; they are looked at after the launch. After a kernel that
hangs nothing is given back, as every call would wait for it: the process should end.
"""

from __future__ import annotations

import statistics
from collections.abc import Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass

import numpy as np

from convc.errors import GpuError, GpuFault, LimitError
from convc.gpu.clock import TEXT as CLOCK_TEXT
from convc.gpu.clock import clock_plan
from convc.gpu.contents import POISON
from convc.gpu.driver import Device, Driver, Handle
from convc.gpu.plan import Address, EncodedMap, LaunchPlan, PlannedParam
from convc.gpu.tensormaps import fixed
from convc.support.memory import human_bytes, require_memory

GUARD = 4096
GUARD_BYTE = 0xCD
WARM_UP = 3
"""Launches in front of those that are timed."""

QUEUE_CYCLES = 500_000
"""Cycles for which the GPU is kept busy for each launch that is queued: a quarter of a millisecond or so, while the
host takes some ten microseconds."""

MOST_QUEUED = 100
"""Launches in a row; the driver queues a thousand before it makes the host wait."""


class Hang(GpuFault):
    """A kernel that did not end in time, and still runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Times of launches, one after the other on the same buffers.

    Attributes:
        microseconds: of each launch alone, between two events; one or two of them are the events' own.
        streamed: microseconds of a launch among as many in a row, up to `MOST_QUEUED`.
        clock_ghz: of the SMs, measured right in front of them.
    """

    microseconds: tuple[float, ...]
    streamed: float
    clock_ghz: float

    @property
    def median(self) -> float:
        """Microseconds of the median launch."""
        return statistics.median(self.microseconds)

    @property
    def cycles(self) -> float:
        """Cycles of the SM clock of the median launch."""
        return 1000.0 * self.median * self.clock_ghz


@dataclass(frozen=True, slots=True, kw_only=True)
class Performed:
    """A launch that came to its end.

    Attributes:
        device: where it ran.
        buffers: bytes of each buffer after the first launch, uint8.
        maps: the tensor maps that it was given, in the order of the parameters, 128 bytes each.
        timing: where it was asked for.
    """

    device: Device
    buffers: dict[str, np.ndarray]
    maps: tuple[bytes, ...]
    timing: Timing | None


def perform(
    driver: Driver,
    plan: LaunchPlan,
    image: bytes,
    contents: Mapping[str, np.ndarray],
    *,
    repeat: int = 0,
    seconds: float = 60.0,
) -> Performed:
    """Launch a kernel once, and for times some more.

    Args:
        driver: of the GPU.
        plan: of the launch.
        image: PTX text or machine code.
        contents: of buffers before the launch, of their size; one without starts as poison.
        repeat: launches to time after the first one, whose results are kept.
        seconds: how long to wait for a launch.

    Raises:
        GpuError: the kernel does not fit the GPU, or the driver refuses a call.
        GpuFault: the kernel faults, hangs (`Hang`), or writes behind a buffer.
        LimitError: the buffers do not fit into the memory of the GPU or of this machine.
    """
    device = driver.device()
    check_device(plan, device)
    require_memory(2 * plan.bytes, "the launch's buffers")
    timing = None
    with prepared(driver, plan, image, contents, device.driver_version) as ready:
        launch_once(driver, ready, plan, seconds)
        results = {name: _read(driver, ready.addresses[name], name, size) for name, size in plan.buffers.items()}
        if repeat:
            timing = _timed(driver, ready, plan, repeat, seconds)
    return Performed(device=device, buffers=results, maps=ready.maps, timing=timing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A kernel that can be launched: its function, buffers and parameters."""

    function: Handle
    addresses: Mapping[str, int]
    params: list[np.ndarray]
    maps: tuple[bytes, ...]


@contextmanager
def prepared(
    driver: Driver, plan: LaunchPlan, image: bytes, contents: Mapping[str, np.ndarray], version: int
) -> Generator[Ready]:
    """Load the kernel, allocate and fill its buffers, encode its maps; give all of it back at the end."""
    addresses: dict[str, int] = {}
    module = driver.load(image)
    hangs = False  # or was interrupted, which may be why
    try:
        function = driver.function(module, plan.entry)
        images = _sized(plan, driver.parameter_sizes(function, plan.declared))
        driver.prepare(function, plan.shared_bytes, plan.cluster[0] * plan.cluster[1] * plan.cluster[2])
        for name, size in plan.buffers.items():
            addresses[name] = driver.allocate(size + GUARD)
            _fill(driver, addresses[name], size, contents.get(name, plan.listed.get(name)))
        maps = [
            _patch(driver, image, patch, addresses, version)
            for image, param in zip(images, plan.params, strict=True)
            for patch in param.patches
        ]
        encoded = tuple(each for each in maps if each is not None)
        yield Ready(function=function, addresses=addresses, params=images, maps=encoded)
    except (Hang, KeyboardInterrupt):
        hangs = True
        raise
    finally:
        if not hangs:
            _give_back(driver, module, addresses.values())


def _give_back(driver: Driver, module: Handle, addresses: Iterable[int]) -> None:
    """Free everything; after a fault the driver refuses, and the process gives it back."""
    for address in addresses:
        with suppress(GpuError, GpuFault):
            driver.free(address)
    with suppress(GpuError, GpuFault):
        driver.unload(module)


def check_device(plan: LaunchPlan, device: Device) -> None:
    """Refuse what this GPU cannot run, before anything is loaded or taken."""
    if plan.target and not _runs(plan.target, device.capability):
        raise GpuError(
            f"the kernel is for {plan.target}, and this GPU is an {device.name} ({device.arch})",
            hint="a target with `a` or `f` behind its number runs on that architecture alone",
        )
    if plan.shared_bytes > device.shared_bytes:
        raise GpuError(
            f"a CTA asks for {plan.shared_bytes} bytes of shared memory, and {device.name} has {device.shared_bytes}"
        )
    size = plan.bytes + GUARD * len(plan.buffers)
    if size > device.free_bytes:
        raise LimitError(
            f"the buffers need {human_bytes(size)} of the GPU's memory, and {human_bytes(device.free_bytes)} are free"
        )


def _runs(target: str, capability: tuple[int, int]) -> bool:
    """Whether a target's code runs on a GPU (PTX manual, ``.target``); what is no target is left to the driver."""
    number = target.removeprefix("sm_").rstrip("af")
    if not number.isdigit():
        return True
    wanted = (int(number) // 10, int(number) % 10)
    if target.endswith("a"):
        return wanted == capability
    if target.endswith("f"):
        return wanted[0] == capability[0] and wanted <= capability
    return wanted <= capability


def _sized(plan: LaunchPlan, declared: list[int]) -> list[np.ndarray]:
    """The bytes of each parameter, as many as the kernel declares."""
    if len(declared) != len(plan.params):
        raise GpuError(
            f"kernel {plan.entry!r} has {len(declared)} parameters, the launch file gives {len(plan.params)}"
        )
    return [_image(index, param, size) for index, (param, size) in enumerate(zip(plan.params, declared, strict=True))]


def _image(index: int, param: PlannedParam, size: int) -> np.ndarray:
    """The bytes of a parameter, in memory that can be changed."""
    given = len(param.data)
    if given > size or (given < size and not param.grows):
        raise GpuError(f"parameter {index} has {size} bytes, the launch file gives {given}")
    image = np.zeros(size, np.uint8)
    image[:given] = np.frombuffer(param.data, np.uint8)
    return image


def _fill(driver: Driver, address: int, size: int, given: np.ndarray | None) -> None:
    """Give a buffer its contents, and put the guard behind it."""
    driver.fill(address + size, GUARD_BYTE, GUARD)
    if given is not None and size:
        driver.write(address, np.ascontiguousarray(given).reshape(-1).view(np.uint8))
    elif size:
        driver.fill(address, POISON, size)


def _patch(
    driver: Driver, image: np.ndarray, patch: Address | EncodedMap, addresses: Mapping[str, int], version: int
) -> bytes | None:
    """Fill a place of a parameter in; the tensor map, where it is one."""
    if isinstance(patch, Address):
        data = (addresses[patch.buffer] + patch.offset).to_bytes(8, "little")
        image[patch.at : patch.at + len(data)] = np.frombuffer(data, np.uint8)
        return None
    encoded = driver.encode(patch.call, addresses[patch.call.buffer] + patch.call.offset)
    data = fixed(encoded, patch.call.tensor_bytes, version)
    image[patch.at : patch.at + len(data)] = np.frombuffer(data, np.uint8)
    return data


def launch_once(driver: Driver, ready: Ready, plan: LaunchPlan, seconds: float) -> None:
    """Launch once, and wait for the end."""
    driver.launch(ready.function, plan, ready.params)
    _wait(driver, driver.mark(), plan, seconds)


def _wait(driver: Driver, event: Handle, plan: LaunchPlan, seconds: float) -> None:
    """Wait for an event behind launches; `Hang` where it does not come."""
    if not driver.wait(event, seconds):
        raise Hang(
            f"kernel {plan.entry!r} did not end within {seconds:g} s on the GPU",
            hint="`convc exec KERNEL.ptx LAUNCH.json` shows where it waits; --timeout N waits longer",
        )


def _read(driver: Driver, address: int, name: str, size: int) -> np.ndarray:
    """A buffer after the launch."""
    guard = driver.read(address + size, GUARD)
    if (guard != GUARD_BYTE).any():
        first = int(np.argmax(guard != GUARD_BYTE))
        raise GpuFault(f"the kernel wrote past the end of buffer {name!r}: byte {size + first} of {size}")
    return driver.read(address, size) if size else np.empty(0, np.uint8)


def spinning(driver: Driver) -> AbstractContextManager[Ready]:
    """The kernel that keeps the GPU busy in front of those that are timed."""
    return prepared(driver, clock_plan(QUEUE_CYCLES), CLOCK_TEXT.encode(), {}, 0)


def _timed(driver: Driver, ready: Ready, plan: LaunchPlan, repeat: int, seconds: float) -> Timing:
    """Time launches, one by one and in a row, after some to warm up; and the clock of the SMs in front of the last."""
    for _ in range(WARM_UP):
        launch_once(driver, ready, plan, seconds)
    with spinning(driver) as busy:
        alone = tuple(behind(driver, busy, ready, plan, seconds, 1) for _ in range(repeat))
        row = min(repeat, MOST_QUEUED)
        together = behind(driver, busy, ready, plan, seconds, row)
        cycles, nanoseconds = driver.read(busy.addresses["out"], 16).view(np.uint64).tolist()
    return Timing(microseconds=alone, streamed=together / row, clock_ghz=cycles / max(1, nanoseconds))


def behind(
    driver: Driver, busy: Ready, ready: Ready, plan: LaunchPlan, seconds: float, count: int, warm: int = 0
) -> float:
    """Microseconds of launches that are queued while a kernel before them keeps the GPU busy.

    Args:
        driver: of the GPU.
        busy, ready: the kernel of `convc.gpu.clock` and the one that is timed.
        plan: of the one that is timed.
        seconds: how long to wait for the end.
        count: launches that are timed. warm: launches in front of these.

    Raises:
        GpuError, GpuFault: see `perform`.
    """
    spin = clock_plan(QUEUE_CYCLES * (count + warm))
    busy.params[1][:] = np.frombuffer(spin.params[1].data, np.uint8)
    driver.launch(busy.function, spin, busy.params)
    for _ in range(warm):
        driver.launch(ready.function, plan, ready.params)
    start = driver.mark()
    for _ in range(count):
        driver.launch(ready.function, plan, ready.params)
    end = driver.mark()
    _wait(driver, end, plan, seconds)
    return driver.elapsed(start, end)
