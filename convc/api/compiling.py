"""The verb `compile`: a model becomes a build folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from convc.api.arguments import file_or, given_options
from convc.api.models import Model, check_model, chosen_convolutions, name_of, read_network
from convc.api.options import ReadOptions, ScheduleOptions, WorkOptions
from convc.api.working import open_kernels, open_pool
from convc.build.folder import Build, load_build
from convc.build.selection import LayerNames
from convc.build.target import check_build_target
from convc.build.writer import write_build
from convc.errors import InputError
from convc.ir.network import CONVOLUTIONS
from convc.support.progress import Progress
from convc.workers.compiling import compile_all

if TYPE_CHECKING:
    from convc.api.inputs import BuildSource


def compile(
    model: Model,
    out_dir: BuildSource,
    *,
    layer: LayerNames | None = None,
    read: ReadOptions | None = None,
    schedule: ScheduleOptions | None = None,
    assembler: Callable[[str, str], bytes] | None = None,
    work: WorkOptions | None = None,
) -> Build:
    """Compile the convolutions of a model into a build folder, which is whole or not there.

    Args:
        model: a file, a loaded model, or a network (whose batch, dtype and precision were settled by `load`).
        out_dir: the folder (`convc.build.folder`); a build that is there is replaced, anything else is refused.
        layer: compile this one alone: a name or a pattern, or several.
        read: how the model is read.
        schedule: which schedules to consider; all of them by default.
        assembler: called with the digest and the text of each kernel; what it gives becomes its ``kernel.cubin``.
        work: where kernels are compiled and kept.

    Returns:
        The build, opened.

    Raises:
        InputError: the folder or the cache cannot be used, or there is no such layer.
        PlanError: a layer has no kernel.
        WorkerError: workers or a cluster fail.

    Example:
        >>> build = convc.compile("tiny_two_convs.onnx", "build")
        >>> build
        <Build build: 2 layers, 2 kernels>
        >>> build.names
        ('stem', 'head')
    """
    chosen = given_options(work, WorkOptions, "work")
    check_model(model)
    told = Progress(chosen.progress)
    file_or(out_dir, (Build,), "out_dir", "the name of a folder, or an open Build")
    target = out_dir.path if isinstance(out_dir, Build) else Path(out_dir)
    check_build_target(target)
    told(f"read {name_of(model)}", 0.0)
    network = read_network(model, read, layer)
    convs = chosen_convolutions(network, layer)
    if not convs:  # they were all left out, since their tensors are empty
        first = next((node for node in network.skipped if node.op_type in CONVOLUTIONS), None)
        raise InputError(
            "there is nothing to compile: every convolution has an empty result",
            where=network.name,
            hint="" if first is None else f"{first.name}: {first.reason}",
        )
    with open_kernels(schedule, chosen) as kernels, open_pool(chosen) as pool:
        compiling = told.part(0.0, 0.5)
        if pool is not None and not pool.optional:
            compile_all(kernels, convs, pool, compiling)
        else:
            for index, conv in enumerate(convs):
                compiling(f"compile {conv.name}", index / len(convs))
                kernels.compiled(conv.problem)
        write_build(target, network, convs, kernels, assembler, told.part(0.5, 1.0))
    return load_build(target)
