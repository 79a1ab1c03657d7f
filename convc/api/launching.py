"""The verbs `launch` and `write_host_program`: a kernel on a real GPU, and the program that launches it there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from convc import machine as simulator
from convc.api.arguments import by_name, file_or, given_options
from convc.api.inputs import BuildSource, run_options
from convc.api.kept import check_kept
from convc.api.launch_jobs import KernelInputs as KernelInputs
from convc.api.launch_jobs import LaunchJob, check_inputs, launch_job
from convc.api.options import GpuOptions, MachineOptions
from convc.api.running import write_output
from convc.build.folder import Layer
from convc.errors import InputError
from convc.gpu.cuda import CudaDriver, require_bindings
from convc.gpu.driver import Driver
from convc.gpu.host_program import host_program
from convc.gpu.perform import Hang as Hang
from convc.gpu.perform import Performed, perform
from convc.gpu.plan import plan_launch
from convc.gpu.result import Launched, compare_buffers
from convc.host_layout.repack import unpack_output
from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.launch import LaunchSpec
from convc.runtime.gradients import as_model
from convc.runtime.layer import output_of, to_standard_dtype
from convc.support.files import check_target, to_npy_dtype, write_bytes, write_npy
from convc.support.progress import Progress, Tell


def launch(
    kernel: BuildSource,
    launch: LaunchSpec | str | Path | None = None,
    inputs: KernelInputs | None = None,
    *,
    save: Mapping[str, str | Path] | None = None,
    gpu: GpuOptions | None = None,
    machine: MachineOptions | None = None,
    driver: Driver | None = None,
    progress: Tell | None = None,
) -> Launched:
    """Launch a kernel on the first GPU of this machine.

    Args:
        kernel: a build folder or an open build; with ``launch`` the file of a kernel, PTX or machine code.
        launch: how a kernel is launched, or its launch file.
        inputs: what its buffers hold before.
        save: .npy files to write buffers to, by name; of a layer the result is called "".
        gpu: whether to compare and to time.
        machine: how the simulator reads the kernel that is compared; its sums are exact by default, those of the GPU.
        driver: of the GPU; None: NVIDIA's, through `cuda-bindings`.
        progress: called with what is being done and the share of it that is done, 0 to 1.

    Returns:
        The buffers after the launch, and what was compared and timed.

    Raises:
        GpuError: there is no GPU or driver, or it refuses the kernel.
        GpuFault: the kernel faults, hangs or writes behind a buffer on the GPU.
        InputError, LaunchError, BuildError: a file is missing, or the launch does not fit the kernel or the buffers.
        PtxSyntaxError, UnmodelledError, MachineFault, DeadlockError: the simulator cannot run what is compared.

    Example, which needs a GPU:
        >>> build = convc.compile("tiny_conv.onnx", "build")
        >>> inputs = convc.KernelInputs(seed=1)
        >>> done = convc.launch(build, inputs=inputs, gpu=convc.GpuOptions(compare=True))  # doctest: +SKIP
    """
    chosen = given_options(gpu, GpuOptions, "gpu")
    _check_options(chosen)
    by_name(save, "save", "names of files")
    kernel_inputs = KernelInputs() if inputs is None else inputs
    check_inputs(kernel_inputs)
    if driver is None:
        require_bindings()  # before anything is asked of the caller: without them no file will do
    job = launch_job(kernel, launch, kernel_inputs)
    if chosen.compare and not job.text:
        raise InputError("the simulator runs PTX, got machine code", where=job.file, hint="compare with the .ptx")
    targets = job.saves | _targets(job, save or {})
    options = run_options(machine, numerics="exact")
    plan = plan_launch(job.launch, job.text)
    opened_here = driver is None
    used = CudaDriver() if driver is None else driver
    try:
        done = perform(used, plan, job.image, job.contents, repeat=chosen.repeat, seconds=chosen.timeout)
    except (Hang, KeyboardInterrupt):
        opened_here = False  # giving the GPU back would wait for the kernel
        raise
    finally:
        if opened_here:
            used.close()
    buffers = _typed(job.launch, done)
    y = None if job.layer is None else _unpacked(job.layer, buffers)
    for name, target in targets.items():
        if y is not None and not name:
            write_output(target, to_standard_dtype(y))
        else:
            write_npy(target, to_npy_dtype(buffers[name]))
    comparison = None
    if chosen.compare:
        told = Progress(progress).launch(plan.entry)
        run = simulator.run(job.text, job.launch, job.contents, file=job.file, options=options, progress=told)
        comparison = tuple(
            compare_buffers(name, buffers[name], run.buffers[name], chosen.atol, chosen.rtol) for name in buffers
        )
    return Launched(
        entry=plan.entry,
        device=done.device,
        buffers=buffers,
        y=y,
        maps=done.maps,
        timing=done.timing,
        comparison=comparison,
        saved=targets,
        tuned=job.tuned,
    )


def write_host_program(
    kernel: BuildSource,
    launch: LaunchSpec | str | Path | None,
    inputs: KernelInputs | None,
    target: str | Path,
) -> list[Path]:
    """Write a launch as a stand-alone program in C++, with the contents of its buffers beside it.

    Args:
        kernel, launch, inputs: as of `launch`; the kernel is PTX.
        target: the file of the program; what is given for a buffer goes to ``NAME.bin`` in its folder.

    Returns:
        The files that were written, the program first.

    Raises:
        InputError, LaunchError, BuildError: as of `launch`; or a name cannot stand in a program.

    Example:
        >>> numbers = np.arange(1000, dtype=np.float32)
        >>> inputs = convc.KernelInputs(arrays={"x": numbers, "y": numbers})
        >>> files = convc.write_host_program("saxpy/kernel.ptx", "saxpy/launch.json", inputs, "host.cu")
        >>> [file.name for file in files]
        ['host.cu', 'x.bin', 'y.bin']
    """
    file_or(target, (), "target", "the name of a file")
    program = Path(target)
    check_target(program)
    chosen = KernelInputs() if inputs is None else inputs
    job = launch_job(kernel, launch, chosen)
    if not job.text:
        raise InputError("a host program embeds PTX text, got machine code", where=job.file)
    plan = plan_launch(job.launch, job.text)
    seed = chosen.seed if job.layer is None else None
    text = host_program(job.launch, plan, job.text, job.given, seed, program.name)
    files = {program: text.encode()}
    for name in sorted(job.given):
        if program.name == f"{name}.bin":
            raise InputError(f"the contents of buffer {name!r} would overwrite the program", where=str(program))
        files[program.with_name(f"{name}.bin")] = np.ascontiguousarray(job.contents[name]).tobytes()
    for file in files:
        check_kept(file, job.reads)
    for file, data in files.items():
        write_bytes(file, data)
    return list(files)


def _check_options(gpu: GpuOptions) -> None:
    """Raise `InputError` for numbers that are none."""
    for name, value in (("atol", gpu.atol), ("rtol", gpu.rtol)):
        if not (math.isfinite(value) and value >= 0):
            raise InputError(f"{name} must be a number of at least 0, got {value}")
    if not 0 <= gpu.repeat <= 1_000_000:
        raise InputError(f"launches to time must be in 0..1000000, got {gpu.repeat}")
    if not 0 < gpu.timeout < math.inf:
        raise InputError(f"the timeout must be seconds above 0, got {gpu.timeout}")


def _targets(job: LaunchJob, save: Mapping[str, str | Path]) -> dict[str, Path]:
    """The files to write, checked before anything is launched."""
    targets = {name: Path(file) for name, file in save.items()}
    known = [*job.launch.buffers, *([] if job.layer is None else [""])]
    for name, target in targets.items():
        if name not in known:
            listed = ", ".join(job.launch.buffers)
            hint = f"-o {next(iter(job.launch.buffers), 'NAME')}=FILE; the buffers are {listed}"
            raise InputError(f"there is no buffer {name!r} to write", where=str(target), hint=hint)
        check_target(target)
    for target in (*targets.values(), *job.saves.values()):
        check_kept(target, job.reads)
    return targets


def _unpacked(layer: Layer, buffers: Mapping[str, np.ndarray]) -> np.ndarray:
    """The result of a layer as the model has it."""
    return as_model(layer, unpack_output(layer.layout, output_of(layer.layout, buffers)))


def _typed(launch: LaunchSpec, done: Performed) -> dict[str, np.ndarray]:
    """The buffers with the types and shapes of the launch file."""
    return {
        name: done.buffers[name].view(ARRAY_TYPES[spec.dtype]).reshape(spec.shape)
        for name, spec in launch.buffers.items()
    }
