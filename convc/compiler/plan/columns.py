"""Filter columns that are channels: the claims about them, for the tensor map that a plan has."""

from __future__ import annotations

from msgspec.structs import replace

from convc.compiler.index.changes import Fact
from convc.compiler.index.columns import column_layout
from convc.compiler.index.conditions import met
from convc.compiler.plan.records import Indexing
from convc.compiler.plan.results import demand_proof
from convc.host_layout.device_layout import DeviceLayout
from convc.host_layout.fold import images
from convc.ir.tensormap import TensorMap


def columns_of(layout: DeviceLayout, activations: TensorMap) -> Fact:
    """The layout of filter columns that are channels, as the tensor map has it."""
    overlap = layout.overlap
    return column_layout(
        images(layout.base),
        left=0 if overlap is None else overlap.left,
        width=0 if overlap is None else overlap.width,
        pitch=layout.c_pitch,
        strides=tuple(stride // activations.element_bytes for stride in activations.strides),
        # What lies behind a run that overlaps belongs to the next pixels, so the tensor of the map must end there.
        run=layout.problem.in_channels if overlap is None else activations.dims[0],
    )


def with_columns(layout: DeviceLayout, indexing: Indexing) -> Indexing:
    """The indexing with the claims about filter columns in front; PlanError where one is not proved."""
    if layout.columns == "off" or layout.summed:
        return indexing
    outcome = met(columns_of(layout, indexing.loads.a))
    demand_proof(layout.problem, (outcome,))
    return replace(indexing, derivation=(str(outcome), *indexing.derivation))
