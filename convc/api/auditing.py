"""The verb `audit`: kernels are read against the PTX manual, without running them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from convc.api.arguments import file_name, file_or, layer_names
from convc.auditor.ledger import Looked, NotUnderstood
from convc.auditor.run import audit_kernel
from convc.build.folder import Build, load_build
from convc.build.selection import LayerNames, pick_layers
from convc.errors import InputError
from convc.ir.findings import Finding, Judged
from convc.ir.launch import LaunchSpec, load_launch
from convc.support.counted import counted
from convc.support.files import read_text
from convc.support.progress import Progress, Tell


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAudit(Judged):
    """The audit of one kernel.

    Attributes:
        name: the first layer that runs it, or the entry of a kernel alone.
        layers: all layers that run it, of those that were asked for.
        file: its text.
        findings: accusations, worst first: each names its rule (``convc explain RULE``).
        looked: how much every rule looked at.
        unclear: places that were not understood.
    """

    name: str
    layers: tuple[str, ...]
    file: str
    findings: tuple[Finding, ...]
    looked: tuple[Looked, ...]
    unclear: tuple[NotUnderstood, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport(Judged):
    """The audit of the kernels of a build, or of one text.

    Attributes:
        source: the folder or the text.
        kernels: each kernel once.
    """

    source: str
    kernels: tuple[KernelAudit, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of all kernels."""
        return tuple(finding for kernel in self.kernels for finding in kernel.findings)

    def __repr__(self) -> str:
        counts = f"{counted(len(self.kernels), 'kernel')}, {counted(len(self.findings), 'finding')}"
        return f"<AuditReport {self.source}: {self.verdict.name}, {counts}>"


def audit(
    source: str | Path | Build,
    launch: LaunchSpec | str | Path | None = None,
    *,
    layer: LayerNames | None = None,
    watch: Callable[[KernelAudit], None] | None = None,
    progress: Tell | None = None,
) -> AuditReport:
    """Read kernels against the rules of the PTX manual, without running them.

    Args:
        source: a build, its folder, a folder with ``kernel.ptx`` and ``launch.json``, or a text of PTX or its file.
        launch: of a text: how it is launched, or the launch file. Without one, less is known of it.
        layer: of a build: audit the kernel of this one alone: a name or a pattern, or several.
        watch: called with what is said of each kernel, as soon as it is audited.
        progress: called with what is being done and the share of the whole that is done, 0 to 1.

    Returns:
        What is said of each kernel.

    Raises:
        InputError, BuildError, LaunchError, PtxSyntaxError: there is no such file or layer, it is damaged, or the
            launch does not fit the text.

    Example:
        >>> convc.audit("saxpy/kernel.ptx", "saxpy/launch.json")
        <AuditReport saxpy/kernel.ptx: clean, 1 kernel, 0 findings>
    """
    file_or(source, (Build,), "source", "a build, a folder, or a text of PTX")
    layer_names(layer)
    if launch is not None and not isinstance(launch, LaunchSpec):
        file_name(launch, "launch")
    done = _Watched(watch)
    if isinstance(source, Build) or _is_build(source):
        if launch is not None:
            raise InputError("a build already has launch files: leave launch out")
        build = source if isinstance(source, Build) else load_build(source)
        _audit_build(build, layer, done, Progress(progress))
        return AuditReport(source=str(build.path), kernels=tuple(done.kernels))
    if layer is not None:
        raise InputError("a text of PTX has no layers: leave layer out", where=_name(source))
    done(_audit_text(source, launch))
    return AuditReport(source=_name(source), kernels=tuple(done.kernels))


class _Watched:
    """Kernels that were audited, told one by one."""

    def __init__(self, watch: Callable[[KernelAudit], None] | None) -> None:
        self.kernels: list[KernelAudit] = []
        self._watch = watch

    def __call__(self, kernel: KernelAudit) -> None:
        self.kernels.append(kernel)
        if self._watch is not None:
            self._watch(kernel)


def _is_text(source: str | Path) -> bool:
    return isinstance(source, str) and "\n" in source


def _name(source: str | Path) -> str:
    return "kernel.ptx" if _is_text(source) else str(source)


def _is_build(source: str | Path) -> bool:
    """Whether this is a folder that is no folder of one kernel."""
    if _is_text(source):
        return False
    folder = Path(source)
    return folder.is_dir() and not (folder / "kernel.ptx").is_file()


def _audit_build(build: Build, layer: LayerNames | None, done: _Watched, told: Progress) -> None:
    users: dict[str, list[str]] = {}
    for record in pick_layers(build.network.layers, layer, str(build.path)):
        users.setdefault(record.kernel, []).append(record.name)
    for index, names in enumerate(users.values()):
        told.piece(index, len(users)).launch(f"audit {names[0]}")
        ready = build.load(names[0])
        done(_audited(ready.ptx, ready.launch, ready.file, tuple(names)))


def _audit_text(source: str | Path, launch: LaunchSpec | str | Path | None) -> KernelAudit:
    if _is_text(source):
        text = str(source)
        file = "kernel.ptx"
    else:
        path = Path(source)
        if path.is_dir():
            launch = path / "launch.json" if launch is None and (path / "launch.json").is_file() else launch
            path = path / "kernel.ptx"
        text = read_text(path)
        file = str(path)
    spec = launch if launch is None or isinstance(launch, LaunchSpec) else load_launch(Path(launch))
    return _audited(text, spec, file, ())


def _audited(text: str, launch: LaunchSpec | None, file: str, layers: tuple[str, ...]) -> KernelAudit:
    result = audit_kernel(text, launch, file)
    return KernelAudit(
        name=layers[0] if layers else result.entry,
        layers=layers,
        file=file,
        findings=result.findings,
        looked=result.looked,
        unclear=result.unclear,
    )
