"""Filter columns that are channels: the claims about them, for the tensor map that a plan has."""

from __future__ import annotations

from msgspec.structs import replace

from convc.compiler.index.columns import ColumnMaps, column_maps, prove_columns
from convc.compiler.index.maps import Outcome
from convc.compiler.plan.records import Indexing
from convc.compiler.plan.results import demand_proof
from convc.ir.tensormap import TensorMap
from convc.layout.device_layout import DeviceLayout
from convc.layout.fold import images


def maps_of_columns(layout: DeviceLayout, activations: TensorMap) -> ColumnMaps:
    """The maps of a layout whose filter columns are channels."""
    overlap = layout.overlap
    return column_maps(
        images(layout.base),
        left=0 if overlap is None else overlap.left,
        width=0 if overlap is None else overlap.width,
        pitch=layout.c_pitch,
        strides=tuple(stride // activations.element_bytes for stride in activations.strides),
    )


def proofs_of_columns(layout: DeviceLayout, activations: TensorMap) -> tuple[Outcome, ...]:
    """Prove the claims about them; none where filter columns are taps."""
    if layout.columns == "off":
        return ()
    maps = maps_of_columns(layout, activations)
    if layout.overlap is None:
        return prove_columns(maps, left=0, run=layout.problem.in_channels)
    # What lies behind a run belongs to the next pixels, so the tensor of the map must end there.
    return prove_columns(maps, left=layout.overlap.left, run=activations.dims[0])


def with_columns(layout: DeviceLayout, indexing: Indexing) -> Indexing:
    """The indexing with the claims about filter columns in front; PlanError where one is not proved."""
    proofs = proofs_of_columns(layout, indexing.loads.a)
    demand_proof(layout.problem, proofs)
    return replace(indexing, derivation=(*map(str, proofs), *indexing.derivation)) if proofs else indexing
