"""The layers of a model or a build, each with what its plan expects: what ``convc inspect`` lists first."""

from __future__ import annotations

from convc.api.inspecting import build_of, check_settled
from convc.api.models import Model, name_of, read_network
from convc.api.options import ReadOptions, ScheduleOptions, WorkOptions
from convc.api.working import open_kernels
from convc.build.folder import Build, LayerRecord
from convc.compiler.kernels import Kernels, planned_of
from convc.errors import PlanError
from convc.ir.gradients import SUFFIX
from convc.ir.network import ConvNode
from convc.ir.planned import ListedLayer, Listing, Planned
from convc.support.progress import Progress


def list_layers(
    model: Model | Build,
    *,
    read: ReadOptions | None = None,
    schedule: ScheduleOptions | None = None,
    work: WorkOptions | None = None,
) -> Listing:
    """List the convolutions of a model, compiling each, or those of a build as its plans have them.

    Args:
        model: as for `convc.inspect`.
        read: how the model is read.
        schedule: which schedules to consider; all of them by default.
        work: where kernels are kept; they are compiled in this process.

    Raises:
        InputError: options are given for a build.
        BuildError: the build folder is damaged.
    """
    build = build_of(model)
    if build is not None:
        check_settled(read, schedule)
        return _of_build(build)
    assert not isinstance(model, Build)
    chosen = work or WorkOptions()
    told = Progress(chosen.progress)
    told(f"read {name_of(model)}", 0.0)
    network = read_network(model, read)
    layers: list[ListedLayer] = []
    with open_kernels(schedule, chosen) as kernels:
        for index, conv in enumerate(network.convs):
            told(f"plan {conv.name}", index / len(network.convs))
            layers.append(_listed(kernels, conv))
    return Listing(source=network.name, layers=tuple(layers), skipped=network.skipped)


def _listed(kernels: Kernels, conv: ConvNode) -> ListedLayer:
    planned: Planned | None = None
    reason = ""
    try:
        planned = planned_of(kernels.compiled(conv.problem))
    except PlanError as error:
        reason = error.message
    return _layer(conv, planned=planned, reason=reason)


def _of_build(build: Build) -> Listing:
    layers = tuple(_layer(record, planned=record.planned) for record in build.network.layers)
    return Listing(source=str(build.path), layers=layers, skipped=build.network.skipped)


def _layer(node: ConvNode | LayerRecord, planned: Planned | None, reason: str = "") -> ListedLayer:
    operator = "ConvTranspose" if node.problem.transposed else "Conv"
    if node.gradient is not None:
        operator = SUFFIX[node.gradient.of]
    return ListedLayer(
        name=node.name, problem=node.problem, operator=operator, fused=node.fused, planned=planned, reason=reason
    )
