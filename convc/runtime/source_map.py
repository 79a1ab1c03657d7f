"""Findings in a kernel of ours: which outputs, input channels and filter taps they are about.

A checker says which CTA, which lanes, which memory, and how often the instruction had run before. The kernel's debug
info (`convc.ir.debug_info`) says what that is part of: the tile of the CTA; of it the lanes and columns of the
accumulator that an access touches; and the filter tap and channels that the execution of a step works on. Bytes of the
output say directly which pixels and channels they are. The coordinates are those of the convolution that the kernel
runs, where an axis was folded (see `convc.host_layout.device_layout`).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from convc.build.folder import Layer
from convc.ir import dtypes
from convc.ir.debug_info import DebugInfo
from convc.ir.findings import Bounds, Finding, Place, Region, Site


def attach_source(layer: Layer, finding: Finding, info: DebugInfo | None) -> Finding:
    """The finding with the places of both its accesses.

    Args:
        layer: whose kernel it is about.
        finding: of a checker or of the simulator.
        info: what the steps of that kernel cover; without it there are no places.
    """
    if info is None:
        return finding
    other = finding.other and dataclasses.replace(finding.other, place=_place(layer, finding.other, info))
    return dataclasses.replace(finding, place=_place(layer, finding, info), other=other)


def _place(layer: Layer, site: Site, info: DebugInfo) -> Place | None:
    """What a site is part of; None where no CTA is known."""
    if site.cta is None:
        return None
    tile = info.tile_of(site.cta, layer.launch.grid, site.step, site.nth)
    width, height, _ = layer.launch.grid
    part = site.cta // (width * height)
    pixels = channels = None
    if tile is not None:
        pixels, channels = info.outputs(tile, *_in_accumulator(site, info, part))
    region = site.region
    if region is not None and (region.space, region.buffer) == ("global", "output") and region.runs:
        pixels, channels = _in_output(layer, region)
    shown = None if pixels is None else (_pixel(layer, pixels[0]), _pixel(layer, pixels[1]))
    return Place(pixels=shown, k=channels, **info.reduction(site.step, site.nth, part))


def _in_accumulator(site: Site, info: DebugInfo, part: int) -> tuple[Bounds, Bounds]:
    """Lanes and columns of the accumulator that a site is about; all of them where nothing says less."""
    lanes = (0, info.lanes - 1)
    columns = info.columns_of(site.step, site.nth, part) or (0, info.columns - 1)
    region = site.region
    if region is None or region.lanes is None:
        return lanes, columns
    if region.columns is None:
        return region.lanes, columns
    # Columns of tensor memory that are not the accumulator's say nothing about channels.
    first, last = (column - info.first_column for column in region.columns)
    if info.tiles is not None and first >= info.columns:  # the other half
        first, last = first - info.columns, last - info.columns
    return (region.lanes, (first, last)) if first >= 0 and last < info.columns else (lanes, columns)


def _in_output(layer: Layer, region: Region) -> tuple[Bounds, Bounds]:
    """Pixels (counted through) and channels that bytes of the output buffer hold."""
    layout = layer.layout.output
    size = dtypes.BY_NAME[layout.dtype].bytes
    elements = np.concatenate([np.arange(first // size, last // size + 1) for first, last in region.runs])
    pixels, channels = np.divmod(elements, layout.shape[-1])
    return (int(pixels.min()), int(pixels.max())), (int(channels.min()), int(channels.max()))


def _pixel(layer: Layer, number: int) -> tuple[int, ...]:
    """(n, p, q) of an output pixel by its number."""
    problem = layer.layout.problem
    if layer.layout.summed:
        r, s, c = np.unravel_index(number, (*problem.out_extent, problem.batch))
        return int(c), int(r), int(s)
    return tuple(int(i) for i in np.unravel_index(number, (problem.batch, *problem.out_extent)))
