"""The build folder: all that passes from compiling to running.

    build/
      network.json                      which layers there are, what each computes, which kernel it runs and what its
                                        launch should take; and the options that all were scheduled with
      weights/<stem>.filter.npy         filter and bias of each layer as the kernel reads them
      weights/<stem>.bias.npy           (`convc.host_layout.repack`); bfloat16, which .npy cannot name,
                                        lies there as uint16
      kernels/<digest>/kernel.ptx       the text that runs
                       launch.json      how it is launched
                       debug_info.json  which outputs and filter taps its steps are about, for findings
                       plan.json        why it looks as it does, for people and for programs of theirs
                       tile.json
                       kernel.cubin     machine code, if it was asked for

Layers with the same problem share a kernel. ``<digest>`` names the text that was written, and nothing more: a
kernel edited by hand is run as it is. How a new build comes to its place is written in `convc.build.target`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from convc.build.selection import pick_layer
from convc.compiler.options import ScheduleOptions
from convc.errors import BuildError, InputError, PlanError, ProblemError
from convc.host_layout.device_layout import BufferLayout, DeviceLayout, device_layout
from convc.ir import dtypes
from convc.ir.columns import Columns
from convc.ir.debug_info import DebugInfo, read_debug_info
from convc.ir.launch import KernelArtifact, LaunchSpec, dump_launch, load_launch
from convc.ir.network import Gradient, SkippedNode, TensorRef
from convc.ir.planned import Planned, read_order, read_tuned
from convc.ir.problem import ConvProblem
from convc.ir.tile_order import OrderTraffic
from convc.ir.tuned import Tuned
from convc.support.counted import counted
from convc.support.files import NpyHeader, read_npy, read_text, to_npy_dtype, write_bytes, write_npy
from convc.support.html import table_html
from convc.support.missing import is_missing, no_file

FORMAT = "convc-build/4"
MAX_JSON_BYTES = 64 << 20

_MAKES_ONE = "`convc compile MODEL.onnx -o FOLDER` makes one"

Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{16}$")]
Stem = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$")]


class LayerRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One convolution of the network.

    Attributes:
        name: as in the model; unique.
        stem: how its weight files start.
        kernel: folder of its kernel.
        problem: what it computes.
        columns: whether its kernel takes filter columns folded into K (see `convc.host_layout.columns`).
        input, output: its tensors in the model.
        filter: the tensor that holds the filters, where they are an input of the kernel and no weights file is there.
        residual: the tensor that the epilogue adds, where it adds one.
        fused: names of the nodes of the model that the kernel does as well.
        gradient: what it is the gradient of, where it is one.
        planned: what a launch of its kernel should take, and why.
    """

    name: str
    stem: Stem
    kernel: Digest
    problem: ConvProblem
    planned: Planned
    columns: Columns = "off"
    input: TensorRef
    output: TensorRef
    filter: TensorRef | None = None
    residual: TensorRef | None = None
    fused: tuple[str, ...] = ()
    gradient: Gradient | None = None


class NetworkRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of ``network.json``: the model it came from, its convolutions, and what was left out.

    ``schedule`` are the options that all of them were scheduled with: who compiles a layer with these again gets its
    kernel.
    """

    format: str = FORMAT
    source: str
    schedule: ScheduleOptions = ScheduleOptions()
    layers: tuple[LayerRecord, ...]
    skipped: tuple[SkippedNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A convolution that is ready to run.

    Attributes:
        name: for messages.
        layout: its problem and the layout of its buffers.
        ptx: text of the kernel.
        file: name of that text in messages.
        launch: how it is launched.
        filter, bias: packed weights (shapes `DeviceLayout.filter` and `DeviceLayout.bias`); no filter where that is an
            input of the launch.
        gradient: what it is the gradient of, where it is one.
    """

    name: str
    layout: DeviceLayout
    ptx: str
    file: str
    launch: LaunchSpec
    filter: np.ndarray | None
    bias: np.ndarray
    gradient: Gradient | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Build:
    """A build folder whose ``network.json`` was read and checked; `load` reads the rest layer by layer.

    Attributes:
        path: the folder.
        network: what its ``network.json`` says.
    """

    path: Path
    network: NetworkRecord

    def __repr__(self) -> str:
        kernels = {layer.kernel for layer in self.network.layers}
        return f"<Build {self.path}: {counted(len(self.network.layers), 'layer')}, {counted(len(kernels), 'kernel')}>"

    def _repr_html_(self) -> str:
        """A row for each layer, for notebooks."""
        rows = [(layer.name, layer.problem.describe(), layer.kernel) for layer in self.network.layers]
        return table_html(repr(self)[1:-1], ("layer", "convolution", "kernel"), rows)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the layers, in the order of the model."""
        return tuple(layer.name for layer in self.network.layers)

    def record(self, name: str | None = None) -> LayerRecord:
        """The layer of that name, or the only one there is; `InputError` lists the names otherwise."""
        return pick_layer(self.network.layers, name, str(self.path))

    def launch(self, record: LayerRecord) -> LaunchSpec:
        """The launch file of a layer's kernel; `LaunchError` where it is damaged."""
        return load_launch(self.path / "kernels" / record.kernel / "launch.json")

    def order(self, record: LayerRecord) -> OrderTraffic | None:
        """The facts about the order of a layer's tiles, from its plan; None where there are none.

        A plan is of the kernel that its folder is named after: of a text that was changed since, it says nothing.

        Raises:
            BuildError: the kernel's text is missing.
            LaunchError: the launch file is damaged.
        """
        file = self.path / "kernels" / record.kernel / "plan.json"
        if not file.is_file():
            return None
        return read_order(file.read_bytes()) if self.written(record) else None

    def tuned(self, record: LayerRecord) -> Tuned | None:
        """The tuning record that a layer's kernel was made by, from its plan; None where there is none."""
        file = self.path / "kernels" / record.kernel / "plan.json"
        return read_tuned(file.read_bytes()) if file.is_file() else None

    def written(self, record: LayerRecord) -> bool:
        """Whether a layer's kernel is what its folder is named after: neither its text nor its launch file was changed.

        Raises:
            BuildError: the kernel's text is missing.
            LaunchError: the launch file is damaged.
        """
        text = read_text(self.path / "kernels" / record.kernel / "kernel.ptx", BuildError)
        return digest_of(KernelArtifact(ptx=text, launch=self.launch(record))) == record.kernel

    def debug_info(self, name: str | None = None) -> DebugInfo | None:
        """The debug info of a layer's kernel; None where its folder has no debug_info.json.

        Raises:
            BuildError: debug_info.json is damaged.
        """
        file = self.path / "kernels" / self.record(name).kernel / "debug_info.json"
        if not file.is_file():
            return None
        try:
            return read_debug_info(read_text(file, BuildError).encode())
        except ValueError as problem:
            raise BuildError(f"damaged: {problem}", where=str(file)) from None

    def load(self, name: str | None = None) -> Layer:
        """Read the kernel and the weights of a layer.

        Raises:
            InputError: there is no such layer, or several and no name.
            BuildError: a file is missing, or does not fit the layer.
            LaunchError: the launch file is wrong.
        """
        record = self.record(name)
        folder = self.path / "kernels" / record.kernel
        weights = self.path / "weights"
        try:
            layout = device_layout(record.problem, record.columns)
        except PlanError as problem:
            raise BuildError(f"damaged: {problem.message}", where=str(self.path / "network.json")) from None
        launch = self.launch(record)
        _check_buffers(launch, layout, folder / "launch.json")
        return Layer(
            name=record.name,
            layout=layout,
            ptx=read_text(folder / "kernel.ptx", BuildError),
            file=str(folder / "kernel.ptx"),
            launch=launch,
            filter=None if record.filter else _read_weights(weights / f"{record.stem}.filter.npy", layout.filter),
            bias=_read_weights(weights / f"{record.stem}.bias.npy", layout.bias),
            gradient=record.gradient,
        )


def buffers_of(layout: DeviceLayout) -> dict[str, BufferLayout]:
    """The buffers of a convolution kernel under the names that its launch file uses."""
    buffers = {"activation": layout.activation, "filter": layout.filter, "bias": layout.bias, "output": layout.output}
    return buffers if layout.residual is None else buffers | {"residual": layout.residual}


def stems_of(names: Iterable[str]) -> tuple[str, ...]:
    """File names for layer names: safe characters, at most 80 of them, no two alike (not even in case)."""
    stems: list[str] = []
    taken: set[str] = set()
    for name in names:
        safe = re.sub(r"[^A-Za-z0-9._-]+", "_", name)[:80].lstrip(".-") or "layer"
        stem = safe
        count = 1
        while stem.lower() in taken:
            count += 1
            stem = f"{safe}-{count}"
        taken.add(stem.lower())
        stems.append(stem)
    return tuple(stems)


def digest_of(artifact: KernelArtifact) -> str:
    """Name of a kernel's folder: 16 hexadecimal digits of the SHA-256 of its text and launch file."""
    content = artifact.ptx.encode() + b"\0" + dump_launch(artifact.launch)
    return hashlib.sha256(content).hexdigest()[:16]


# ---- writing ----------------------------------------------------------------------------------------------


def write_kernel(
    folder: Path,
    digest: str,
    artifact: KernelArtifact,
    debug_info: bytes,
    plan: bytes,
    program: bytes,
    cubin: bytes | None = None,
) -> None:
    """Add a kernel: text, launch file, what was decided (as JSON), and machine code where there is some."""
    target = folder / "kernels" / digest
    target.mkdir()
    write_bytes(target / "kernel.ptx", artifact.ptx.encode())
    write_bytes(target / "launch.json", dump_launch(artifact.launch))
    write_bytes(target / "debug_info.json", debug_info)
    write_bytes(target / "plan.json", plan)
    write_bytes(target / "tile.json", program)
    if cubin is not None:
        write_bytes(target / "kernel.cubin", cubin)


def write_weights(folder: Path, stem: str, filters: np.ndarray | None, bias: np.ndarray) -> None:
    """Add the packed weights of a layer; filters that are an input of its launch (None) have no file."""
    if filters is not None:
        write_npy(folder / "weights" / f"{stem}.filter.npy", to_npy_dtype(filters))
    write_npy(folder / "weights" / f"{stem}.bias.npy", bias)


def write_network(folder: Path, network: NetworkRecord) -> None:
    """Add ``network.json``."""
    write_bytes(folder / "network.json", msgspec.json.format(msgspec.json.encode(network), indent=1))


# ---- reading ----------------------------------------------------------------------------------------------


def load_build(path: str | Path) -> Build:
    """Open a build folder.

    Args:
        path: the folder.

    Returns:
        The build; kernels and weights are read when a layer is asked for.

    Raises:
        BuildError: it is missing, was not made by convc, or its network.json is damaged (with the JSON path).

    Example:
        >>> _ = convc.compile("tiny_two_convs.onnx", "build")
        >>> convc.load_build("build").record("head").problem.out_channels
        10
    """
    if not isinstance(path, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"a build is opened by the name of its folder, got {type(path).__name__}")
    path = Path(path)
    file = path / "network.json"
    if is_missing(path):
        raise no_file(path, BuildError, hint=_MAKES_ONE)
    if not path.is_dir():
        raise BuildError("expected a build folder", where=str(path), hint=_MAKES_ONE)
    if not file.is_file():
        raise BuildError("not a build folder: it has no network.json", where=str(path), hint=_MAKES_ONE)
    if file.stat().st_size > MAX_JSON_BYTES:
        raise BuildError(f"network.json is larger than {MAX_JSON_BYTES >> 20} MiB", where=str(file))
    try:
        data = file.read_bytes()
        _check_format(msgspec.json.decode(data, type=_Header).format, file)
        network = msgspec.json.decode(data, type=NetworkRecord)
    except msgspec.MsgspecError as problem:
        raise BuildError(f"damaged: {problem}", where=str(file)) from None
    except ProblemError as problem:
        raise BuildError(f"damaged: {problem.message}", where=f"{file}, {problem.where}") from None
    except OSError as problem:
        raise BuildError(f"cannot be read: {problem.strerror}", where=str(file)) from None
    if not network.layers:
        raise BuildError("damaged: it has no layer", where=str(file), hint="compile the model again")
    names = [layer.name for layer in network.layers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BuildError(f"damaged: two layers are called {twice[0]!r}", where=str(file))
    return Build(path=path, network=network)


class _Header(msgspec.Struct):
    """What every version of ``network.json`` has."""

    format: str = FORMAT


def _again(folder: Path) -> str:
    """The command that makes a build anew."""
    return f"compile the model again: convc compile MODEL.onnx -o {shlex.quote(str(folder))}"


def _check_format(found: str, file: Path) -> None:
    """Raise `BuildError` for a folder that another version of convc wrote: other versions have other fields."""
    if found != FORMAT:
        raise BuildError(f"expected format {FORMAT!r}, got {found!r}", where=str(file), hint=_again(file.parent))


def _read_weights(path: Path, layout: BufferLayout) -> np.ndarray:
    """The weights of a layer as its kernel takes them."""
    storage = dtypes.BY_NAME[layout.dtype].storage
    held = to_npy_dtype(np.empty(0, storage)).dtype

    def check(header: NpyHeader) -> str | None:
        if (header.shape, header.dtype) == (layout.shape, held):
            return None
        return f"expected {held.name} {list(layout.shape)}, got {header}"

    return read_npy(path, check=check, error=BuildError).view(storage)


def _check_buffers(launch: LaunchSpec, layout: DeviceLayout, file: Path) -> None:
    """The launch must have the buffers of the layer: the host fills and reads them by name."""
    for name, expected in buffers_of(layout).items():
        got = launch.buffers.get(name)
        if got is None:
            raise BuildError(f"the launch has no buffer {name!r}, which the layer needs", where=str(file))
        if got.size_bytes != expected.size_bytes:
            raise BuildError(
                f"buffer {name!r} must be {expected.dtype} {list(expected.shape)} for this layer, "
                f"got {got.dtype} {list(got.shape)}",
                where=f"{file}, $.buffers.{name}",
            )
