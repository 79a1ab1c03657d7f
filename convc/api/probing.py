"""The verbs `assumptions`, `run_probes` and `settle_probes`: what is assumed, and what a GPU says to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from convc.api.arguments import file_name, file_or, wrong_type
from convc.api.kept import check_kept
from convc.gpu.cuda import CudaDriver
from convc.gpu.driver import Driver
from convc.probe.all import PROBES
from convc.probe.assumed import Assumptions, all_assumptions
from convc.probe.perform import perform_probes
from convc.probe.probes import chosen
from convc.probe.record import Probed, read_probed
from convc.probe.settled import Settled, parameters_toml, settle
from convc.support.files import check_target, write_bytes
from convc.support.progress import Progress, Tell


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRun:
    """The probes of a GPU.

    Attributes:
        record: the answers, as they go to a file.
        settled: what they mean.
        hangs: a probe has not ended, and an ordinary end of the process would wait for it.
    """

    record: Probed
    settled: Settled
    hangs: bool


def assumptions(chip: str = "b200") -> Assumptions:
    """List all that the simulator and the model of a chip assume, and the probes that settle it; no GPU is needed.

    Args:
        chip: whose parameters are listed.

    Returns:
        The switches, the rules without one, and the parameters, each with its probes.

    Raises:
        InputError: there is no such chip.

    Example:
        >>> known = convc.assumptions()
        >>> [switch.probes for switch in known.switches if switch.name == "refresh_lane"]
        [('refresh_lane',)]
    """
    file_or(chip, (), "chip", "the name of a chip, or of a file of parameters")
    return all_assumptions(str(chip))


def run_probes(
    names: Sequence[str] = (), *, opened: Callable[[], Driver] | None = None, progress: Tell | None = None
) -> ProbeRun:
    """Run probes on the first GPU of this machine: those that its architecture has.

    Args:
        names: of probes; none: all.
        opened: opens the GPU; None: NVIDIA's driver, through `cuda-bindings`.
        progress: called with the name of each probe and the share of all that is done, 0 to 1.

    Returns:
        The answers, and what they settle. A probe that the GPU refuses, or that faults there, has its error in place of
        an answer.

    Raises:
        InputError: there is no probe of a name.
        GpuError: there is no GPU or driver, or no probe for it.

    Example, which needs a GPU:
        >>> done = convc.run_probes(["elect"])  # doctest: +SKIP
    """
    if isinstance(names, str) or not isinstance(names, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong_type("names", "a list of names of probes", names)
    record, hangs = perform_probes(chosen(PROBES, names), opened or CudaDriver, Progress(progress))
    return ProbeRun(record=record, settled=settle(record), hangs=hangs)


def settle_probes(file: str | Path, target: str | Path | None = None) -> Settled:
    """Understand a file of ``convc probe --run``, which may be a stranger's.

    Args:
        file: the answers of a GPU. What it says that they mean is not believed, but found again.
        target: a file to write the parameters of the chip to, as ``convc time --chip FILE.toml`` takes it.

    Returns:
        What each answer settles: settings of switches, and parameters of the chip.

    Raises:
        InputError: the file is none, or has names, sizes or types that there are not; the target is that file, or
            cannot be written.

    Example:
        >>> settled = convc.settle_probes("answers.json")  # doctest: +SKIP
    """
    file_or(file, (), "file", "the name of a file")
    file_name(target, "target")
    path = Path(file)
    written = None if target is None else Path(target)
    if written is not None:
        check_target(written)
        check_kept(written, [path])
    settled = settle(read_probed(path, PROBES))
    if written is not None:
        write_bytes(written, parameters_toml(settled).encode())
    return settled
