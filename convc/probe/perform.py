"""The probes on a GPU, one after the other; one that faults or is refused does not keep the others from running."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

from convc._version import __version__
from convc.errors import ConvcError, GpuError, GpuFault
from convc.gpu.driver import Device, Driver
from convc.gpu.perform import Hang, perform
from convc.gpu.plan import plan_launch
from convc.probe.kernel import OUT
from convc.probe.probes import Probe
from convc.probe.record import FORMAT, Probed, ProbedAnswer, ProbedDevice, encoded

SECONDS = 20.0
"""How long a launch of a probe may take; all of them take milliseconds."""


def target_of(device: Device) -> str:
    """The target of the probes on a GPU; `GpuError` where there are none for it."""
    targets = {(9, 0): "sm_90a", (10, 0): "sm_100a"}
    if device.capability not in targets:
        raise GpuError(
            f"probes are for sm_90 and sm_100, and this GPU is an {device.name} ({device.arch})",
            hint="B200 and GB200, H100 and H200 have these",
        )
    return targets[device.capability]


def perform_probes(
    probes: Sequence[Probe], opened: Callable[[], Driver], told: Callable[[str, float], None]
) -> tuple[Probed, bool]:
    """Run the probes that a GPU has an architecture for.

    Args:
        probes: to run.
        opened: opens the GPU; once more after a fault, which ends all that a process has there.
        told: called with the name of each probe and the share of all that is done.

    Returns:
        The answers, and whether a kernel hangs: then the process should end at once, without closing anything.

    Raises:
        GpuError: there is no GPU or driver, or none of the probes is for it.
    """
    driver: Driver | None = opened()
    device = driver.device()
    target = target_of(device)
    chosen = [probe for probe in probes if target in probe.targets]
    if not chosen:
        raise GpuError(f"none of the probes runs on {device.name} ({device.arch})", hint="`convc probe` lists them")
    answers: list[ProbedAnswer] = []
    stopped = ""
    hangs = False
    for index, probe in enumerate(chosen):
        told(probe.name, index / len(chosen))
        if driver is None:
            answers.append(_failed(probe, target, stopped))
            continue
        try:
            answers.append(_asked(driver, probe, target))
        except Hang as hang:
            answers.append(_failed(probe, target, hang.message))
            hangs = True
            driver = None
            stopped = f"not run: probe {probe.name} hangs"
        except GpuFault as fault:
            answers.append(_failed(probe, target, fault.message))
            driver.close()
            driver = _again(opened)
            stopped = f"not run: the GPU refuses this process after the fault of probe {probe.name}"
        except ConvcError as error:
            answers.append(_failed(probe, target, error.message))
    if driver is not None:
        driver.close()
    record = Probed(
        format=FORMAT,
        convc=__version__,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        device=ProbedDevice(name=device.name, arch=device.arch, cuda=device.cuda),
        probes=tuple(answers),
    )
    return record, hangs


def _asked(driver: Driver, probe: Probe, target: str) -> ProbedAnswer:
    answers: list[bytes] = []
    for kernel in probe.kernels(target):
        plan = plan_launch(kernel.launch, kernel.text)
        done = perform(driver, plan, kernel.text.encode(), kernel.buffers, seconds=SECONDS)
        answers.append(done.buffers[OUT].tobytes())
    outcome = str(probe.read(target, answers))
    texts = tuple(encoded(data) for data in answers)
    return ProbedAnswer(probe=probe.name, target=target, answers=texts, error="", outcome=outcome)


def _failed(probe: Probe, target: str, message: str) -> ProbedAnswer:
    return ProbedAnswer(probe=probe.name, target=target, answers=(), error=message, outcome="")


def _again(opened: Callable[[], Driver]) -> Driver | None:
    """The GPU once more; None where it refuses."""
    try:
        driver = opened()
        driver.device()
    except (GpuError, GpuFault):
        return None
    return driver
