"""Compiled kernels and weights as layers: in memory, or written into a build folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from convc.build import folder as build
from convc.build.folder import Layer, LayerRecord, NetworkRecord, digest_of, stems_of
from convc.build.target import writing
from convc.compiler.kernels import Kernel, Kernels, planned_of
from convc.host_layout.device_layout import device_layout
from convc.host_layout.repack import pack_weights
from convc.ir.network import ConvNode, Network
from convc.ir.problem import ConvProblem
from convc.support.progress import SILENT, Progress


def layer_of(
    problem: ConvProblem,
    kernel: Kernel,
    weight: np.ndarray | None,
    bias: np.ndarray | None,
    multiplier: np.ndarray | None = None,
) -> Layer:
    """A layer in memory, ready to run.

    Args:
        problem: what the layer computes.
        kernel: compiled for that problem; `convc.compiler.kernels.kernel_of` takes it from a `Compiled`.
        weight: float32 (K, C, R, S); None where filters are an input of the launch.
        bias: float32 (K,), or None.
        multiplier: float32 (K,) of a problem whose sums are multiplied, else None.
    """
    layout = device_layout(problem, kernel.columns)
    filters, sums = pack_weights(layout, weight, bias, multiplier)
    return Layer(
        name=problem.name,
        layout=layout,
        ptx=kernel.artifact.ptx,
        file=kernel_file(kernel),
        launch=kernel.artifact.launch,
        filter=filters,
        bias=sums,
    )


def kernel_file(kernel: Kernel) -> str:
    """Name of a kernel's text in messages: where a build folder has it."""
    return f"{digest_of(kernel.artifact)}/kernel.ptx"


def write_build(
    target: Path,
    network: Network,
    convs: Sequence[ConvNode],
    kernels: Kernels,
    assembler: Callable[[str, str], bytes] | None = None,
    progress: Progress = SILENT,
) -> None:
    """Write some convolutions of a network with their kernels and weights; `InputError` where that cannot be.

    ``assembler`` turns (digest, text) of each kernel into the contents of its ``kernel.cubin``.
    """
    digests: set[str] = set()
    records: list[LayerRecord] = []
    with writing(target) as folder:
        for index, (conv, stem) in enumerate(zip(convs, stems_of(conv.name for conv in convs), strict=True)):
            progress(f"{'write' if assembler is None else 'assemble'} {conv.name}", index / len(convs))
            kernel = kernels.compiled(conv.problem)
            digest = digest_of(kernel.artifact)
            if digest not in digests:
                digests.add(digest)
                cubin = None if assembler is None else assembler(digest, kernel.artifact.ptx)
                build.write_kernel(
                    folder, digest, kernel.artifact, kernel.debug_info, kernel.plan, kernel.program, cubin
                )
            layout = device_layout(conv.problem, kernel.columns)
            build.write_weights(folder, stem, *pack_weights(layout, conv.weight, conv.bias, conv.multiplier))
            record = LayerRecord(
                name=conv.name,
                stem=stem,
                kernel=digest,
                columns=kernel.columns,
                problem=conv.problem,
                input=conv.input,
                output=conv.output,
                filter=conv.filter,
                residual=conv.residual,
                fused=conv.fused,
                gradient=conv.gradient,
                planned=planned_of(kernel),
            )
            records.append(record)
        written = NetworkRecord(
            source=network.name, schedule=kernels.options, layers=tuple(records), skipped=network.skipped
        )
        build.write_network(folder, written)
