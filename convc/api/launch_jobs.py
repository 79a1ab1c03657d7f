"""The kernels that the verb `launch` takes: a layer of a build, or any with a launch file, and their inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec
import numpy as np

from convc.api.arguments import file_or, wrong_type
from convc.api.inputs import BuildSource, InputData, opened
from convc.api.running import layer_inputs
from convc.build.folder import Build, Layer
from convc.errors import InputError, LaunchError
from convc.gpu.contents import filled, listed
from convc.ir.launch import LaunchSpec, load_launch
from convc.ir.tuned import Tuning
from convc.runtime.gradients import ready_for
from convc.runtime.launch_files import buffer_files, read_buffers, save_targets
from convc.runtime.layer import input_buffers, read_beside
from convc.support.missing import is_missing, no_file

MAX_IMAGE_BYTES = 256 << 20
"""A file that is larger is no kernel."""

BINARIES = (b"\x7fELF", b"\x50\xed\x55\xba")
"""How machine code begins: a cubin, and a fatbin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelInputs:
    """The inputs of a launch.

    Attributes:
        arrays: of a kernel with a launch file, buffers by name, arrays or .npy files, in place of the files that the
            launch file names; of a layer the activations, as `convc.run` takes them, or ``InputData``.
        layer: which layer of a build; not needed where there is only one.
        residual: of a layer whose epilogue adds one.
        seed: draw the others at random: inputs of a layer, or every buffer of a kernel that no file fills.
    """

    arrays: object = None
    layer: str | None = None
    residual: np.ndarray | str | Path | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchJob:
    """A kernel, its launch and the contents of its buffers."""

    image: bytes
    text: str
    file: str
    launch: LaunchSpec
    contents: dict[str, np.ndarray]
    given: frozenset[str]
    reads: list[Path]
    saves: dict[str, Path]
    layer: Layer | None
    tuned: Tuning | None = None


def check_inputs(inputs: object) -> None:
    """Raise `InputError` for what is no `KernelInputs`."""
    if not isinstance(inputs, KernelInputs):
        raise wrong_type("inputs", "a KernelInputs", inputs, hint="write inputs=convc.KernelInputs(...)")


def launch_job(kernel: BuildSource, launch: LaunchSpec | str | Path | None, inputs: KernelInputs) -> LaunchJob:
    """The kernel that is launched: a layer of a build, or one with a launch file."""
    check_inputs(inputs)
    file_or(kernel, (Build,), "kernel", "the name of a file or folder, or an open Build")
    if launch is None:
        if not isinstance(kernel, Build) and Path(kernel).is_file():
            raise InputError(
                "a kernel file needs its launch file",
                where=str(kernel),
                hint="convc launch KERNEL.ptx LAUNCH.json",
            )
        return _layer_job(opened(kernel), inputs)
    file_or(launch, (LaunchSpec,), "launch", "the name of a launch file, or a LaunchSpec")
    if isinstance(kernel, Build) or Path(kernel).is_dir():
        raise InputError("a launch file goes with a kernel file, got a folder")
    if inputs.layer is not None or inputs.residual is not None:
        raise InputError("layer and residual are options of build folders", where=str(kernel))
    return _kernel_job(Path(kernel), launch, inputs)


def _layer_job(build: Build, inputs: KernelInputs) -> LaunchJob:
    data = inputs.arrays
    if not isinstance(data, InputData):
        data = InputData(arrays=data, seed=inputs.seed)
    data.check()
    ready = build.load(inputs.layer)
    arrays = layer_inputs(data, ready, read_beside("residual", inputs.residual, ready))
    bound, activations, residual = ready_for(ready, arrays)
    contents = listed(ready.launch) | input_buffers(bound, activations, residual)
    files = [Path(file) for file in (data.arrays, inputs.residual) if isinstance(file, str | Path)]
    return LaunchJob(
        image=ready.ptx.encode(),
        text=ready.ptx,
        file=ready.file,
        launch=ready.launch,
        contents=contents,
        given=frozenset(contents),
        reads=[build.path, *files],
        saves={},
        layer=ready,
        tuned=build.record(inputs.layer).planned.tuning,
    )


def _kernel_job(kernel: Path, launch: LaunchSpec | str | Path, inputs: KernelInputs) -> LaunchJob:
    if inputs.arrays is not None and not isinstance(inputs.arrays, Mapping):
        raise InputError("the inputs of a kernel are arrays or files by the name of the buffer: NAME=FILE")
    sources = cast("Mapping[str, object]", inputs.arrays or {})
    image = _image(kernel)
    text = "" if image.startswith(BINARIES) else _text(image, kernel)
    spec = launch if isinstance(launch, LaunchSpec) else load_launch(Path(launch))
    folder = Path() if isinstance(launch, LaunchSpec) else Path(launch).parent
    for name in sources:
        if name not in spec.buffers:
            known = f"--input {next(iter(spec.buffers), 'NAME')}=FILE; its buffers: {', '.join(spec.buffers)}"
            raise LaunchError(f"buffer {name!r} is not in the launch file", where=str(kernel), hint=known)
    files = {name: Path(file).absolute() for name, file in sources.items() if isinstance(file, str | Path)}
    arrays: dict[str, np.ndarray] = {name: array for name, array in sources.items() if isinstance(array, np.ndarray)}
    for name in set(sources) - files.keys() - arrays.keys():
        raise wrong_type(f"inputs.arrays[{name!r}]", "an array or the name of a .npy file", sources[name])
    named = msgspec.structs.replace(
        spec,
        buffers={
            name: msgspec.structs.replace(buffer, file=str(files[name])) if name in files else buffer
            for name, buffer in spec.buffers.items()
        },
    )
    read = listed(spec) | read_buffers(named, folder, arrays) | arrays
    return LaunchJob(
        image=image,
        text=text,
        file=str(kernel),
        launch=spec,
        contents=filled(spec, read, inputs.seed),
        given=frozenset(read),
        reads=[kernel, *buffer_files(named, folder), *([] if isinstance(launch, LaunchSpec) else [Path(launch)])],
        saves=save_targets(spec, folder),
        layer=None,
    )


def _image(kernel: Path) -> bytes:
    """The file of a kernel, whatever it holds."""
    if is_missing(kernel):
        raise no_file(kernel)
    if not kernel.is_file():
        raise InputError("expected the file of a kernel, this is a folder or a device", where=str(kernel))
    if kernel.stat().st_size > MAX_IMAGE_BYTES:
        raise InputError(f"a kernel has at most {MAX_IMAGE_BYTES >> 20} MiB", where=str(kernel))
    return kernel.read_bytes()


def _text(image: bytes, kernel: Path) -> str:
    """PTX as text; a null character would end it early for the driver."""
    try:
        text = image.decode()
    except UnicodeDecodeError:
        raise InputError("the kernel is neither machine code nor UTF-8 text", where=str(kernel)) from None
    if "\0" in text:
        raise InputError("the text has a null character in it", where=str(kernel))
    return text
