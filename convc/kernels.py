"""From the convolutions of a network to kernels, one per distinct problem, and into a build folder.

What a kernel computes does not depend on the layer's name, so layers that differ in nothing else share one.
The shared kernel is compiled under a name made of its numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from convc import build
from convc.build import Layer, LayerRecord, NetworkRecord, digest_of, stems_of
from convc.compiler import Compiled, compile_problem
from convc.intexpr import IntExpr
from convc.network import ConvNode, Network
from convc.packing import device_form, pack_bias, pack_filter
from convc.plan.records import Options, to_json
from convc.problem import ConvProblem
from convc.tile.coverage import coverage_of
from convc.tile.steps import Step, TileProgram


@dataclass(slots=True)
class Kernels:
    """Compiles problems, each distinct one once; `options` say with which schedules: all of them by default."""

    options: Options = Options(schedule="auto")  # noqa: RUF009 - frozen record
    _made: dict[ConvProblem, Compiled] = field(default_factory=dict)

    def __len__(self) -> int:
        """Distinct kernels so far."""
        return len(self._made)

    def compiled(self, problem: ConvProblem) -> Compiled:
        """The kernel for a problem of any name; `PlanError` where there is none."""
        shared = dataclasses.replace(problem, name=kernel_name(problem))
        if shared not in self._made:
            self._made[shared] = compile_problem(shared, options=self.options)
        return self._made[shared]


def layer_of(
    problem: ConvProblem,
    compiled: Compiled,
    weight: np.ndarray,
    bias: np.ndarray | None,
    multiplier: np.ndarray | None = None,
) -> Layer:
    """A layer in memory from weights (K, C, R, S), a bias (K,) or None, and multipliers (K,) if it is requantised."""
    form = device_form(problem)
    return Layer(
        name=problem.name,
        form=form,
        ptx=compiled.artifact.ptx,
        file=kernel_file(compiled),
        launch=compiled.artifact.launch,
        filter=pack_filter(form, weight),
        bias=pack_bias(form, bias, multiplier),
    )


def kernel_file(compiled: Compiled) -> str:
    """Name of a kernel's text in messages: where a build folder has it."""
    return f"{digest_of(compiled.artifact)}/kernel.ptx"


def write_build(
    target: Path,
    network: Network,
    convs: Sequence[ConvNode],
    kernels: Kernels,
    assembler: Callable[[str, str], bytes] | None = None,
) -> None:
    """Write some convolutions of a network with their kernels and weights; `InputError` where that cannot be.

    ``assembler`` turns (digest, text) of each kernel into the contents of its ``kernel.cubin``.
    """
    written: set[str] = set()
    records = []
    with build.writing(target) as folder:
        for conv, stem in zip(convs, stems_of(conv.name for conv in convs), strict=True):
            compiled = kernels.compiled(conv.problem)
            digest = digest_of(compiled.artifact)
            if digest not in written:
                written.add(digest)
                cubin = None if assembler is None else assembler(digest, compiled.artifact.ptx)
                plan, program = to_json(compiled.plan), program_json(compiled.program)
                coverage = coverage_of(compiled.plan, compiled.program)
                build.write_kernel(folder, digest, compiled.artifact, coverage, plan, program, cubin)
            form = device_form(conv.problem)
            build.write_weights(
                folder, stem, pack_filter(form, conv.weight), pack_bias(form, conv.bias, conv.multiplier)
            )
            record = LayerRecord(
                name=conv.name,
                stem=stem,
                kernel=digest,
                problem=conv.problem,
                input=conv.input,
                output=conv.output,
                notes=form.notes,
            )
            records.append(record)
        build.write_network(folder, NetworkRecord(source=network.name, layers=tuple(records), skipped=network.skipped))


def program_json(program: TileProgram) -> bytes:
    """A tile program as indented JSON: every step with its kind, expressions as text."""
    return msgspec.json.format(msgspec.json.encode(_tagged(program)), indent=1)


def _tagged(value: Any) -> Any:
    """Plain data; a step becomes its fields with its class name as ``kind``."""
    if isinstance(value, IntExpr):
        return str(value)
    if isinstance(value, tuple):
        return [_tagged(item) for item in value]
    if dataclasses.is_dataclass(value):
        kind = {"kind": type(value).__name__} if isinstance(value, Step) else {}
        return kind | {f.name: _tagged(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return msgspec.to_builtins(value)


def kernel_name(problem: ConvProblem) -> str:
    """A name that says what the kernel computes, such as ``conv3x3_c64_k64``."""
    taps = "x".join(map(str, problem.kernel))
    groups = f"_g{problem.groups}" if problem.groups > 1 else ""
    kind = "transposed" if problem.transposed else "conv"
    return f"{kind}{taps}_c{problem.in_channels}_k{problem.out_channels}{groups}"
