"""The verb `check`: the kernels of a build, run on random input with every checker watching."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from convc.api.arguments import layer_names, whole
from convc.api.inputs import BuildSource, opened, run_options
from convc.api.options import MachineOptions
from convc.build.selection import LayerNames, pick_layers
from convc.ir.findings import Finding, Judged
from convc.runtime.gradients import ready_for
from convc.runtime.layer import input_buffers, random_inputs
from convc.runtime.source_map import attach_source
from convc.sanitizer.run import check_kernel
from convc.support.counted import counted
from convc.support.progress import Progress, Tell


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCheck(Judged):
    """Findings in one kernel.

    Attributes:
        layer: the first layer that runs it.
        layers: all layers that run it, of those that were asked for.
        file: the kernel's text.
        findings: worst first, each with the part of the convolution that it is about.
    """

    layer: str
    layers: tuple[str, ...]
    file: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport(Judged):
    """Findings in the kernels of a build.

    Attributes:
        source: the folder.
        seed: of the random input.
        all_switches: every other setting of every switch was tried as well.
        kernels: each kernel once, in the order of the layers.
    """

    source: str
    seed: int
    all_switches: bool
    kernels: tuple[KernelCheck, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of all kernels."""
        return tuple(finding for kernel in self.kernels for finding in kernel.findings)

    def __repr__(self) -> str:
        counts = f"{counted(len(self.kernels), 'kernel')}, {counted(len(self.findings), 'finding')}"
        return f"<CheckReport {self.source}: {self.verdict.name}, {counts}>"


def check(
    build: BuildSource,
    layer: LayerNames | None = None,
    *,
    seed: int = 0,
    all_switches: bool = False,
    machine: MachineOptions | None = None,
    watch: Callable[[KernelCheck], None] | None = None,
    progress: Tell | None = None,
) -> CheckReport:
    """Look for races, hangs and uses of unwritten memory in the kernels of a build.

    Args:
        build: a folder, or an open build.
        layer: check the kernel of this one alone: a name or a pattern, or several.
        seed: of the input; at least 0.
        all_switches: run also under every other setting of every switch, and find what the result depends on.
        machine: how the simulator reads the kernels.
        watch: called with what was found in each kernel, as soon as it is checked.
        progress: called with what is being done and the share of the whole that is done, 0 to 1.

    Returns:
        What was found in each kernel; faults and hangs are findings too.

    Raises:
        InputError: there is no such layer.
        BuildError, LaunchError, PtxSyntaxError, UnmodelledError: the folder or a kernel in it is damaged.

    Example:
        >>> build = convc.compile("tiny_two_convs.onnx", "build")
        >>> convc.check(build)
        <CheckReport build: clean, 2 kernels, 0 findings>
    """
    seed = whole(seed, "seed")
    layer_names(layer)
    options = run_options(machine)
    told = Progress(progress)
    source = opened(build)
    users: dict[str, list[str]] = {}
    for record in pick_layers(source.network.layers, layer, str(source.path)):
        users.setdefault(record.kernel, []).append(record.name)
    checked: list[KernelCheck] = []
    for index, names in enumerate(users.values()):
        name = names[0]
        ready = source.load(name)
        arrays = random_inputs(ready, seed)
        bound, activations, residual = ready_for(ready, arrays)
        result = check_kernel(
            ready.ptx,
            ready.launch,
            input_buffers(bound, activations, residual),
            file=ready.file,
            options=options,
            all_switches=all_switches,
            progress=told.piece(index, len(users)).launch(f"check {name}"),
        )
        info = source.debug_info(name)
        placed = tuple(attach_source(ready, finding, info) for finding in result.findings)
        checked.append(KernelCheck(layer=name, layers=tuple(names), file=ready.file, findings=placed))
        if watch is not None:
            watch(checked[-1])
    return CheckReport(source=str(source.path), seed=seed, all_switches=all_switches, kernels=tuple(checked))
