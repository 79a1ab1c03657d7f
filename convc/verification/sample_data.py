"""Data for a sample of a launch: a strip of pixels, repeated over the image.

A kernel that is run on a few tiles of a large image still needs all of its input to be there, because nobody trusts it
to read in the right place. Drawing and repacking gigabytes of random numbers would take longer than the tiles. So a
strip of a few thousand pixels is drawn, by the rules of `convc.verification.data`, packed once, and repeated: pixel
number i of the batch, images and rows counted through, is pixel i modulo the length of the strip. The length is a
prime that divides neither a row nor an image, so that a neighbour, the pixel above, and the same pixel of another image
are other numbers; a stray read shows unless it is a multiple of the length away.

Where the host does more to an image than to put its channels side by side (an axis that is folded, a transposed
convolution, a padding that is not zero), the whole input is made and repacked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from convc.build.folder import Layer
from convc.errors import LimitError
from convc.host_layout.device_layout import BufferLayout, DeviceLayout, device_bytes, has_tensor_scale
from convc.host_layout.repack import pack_activation, pack_residual
from convc.ir.network import ConvNode
from convc.ir.problem import ConvProblem, shape_text
from convc.support.memory import require_memory
from convc.verification.layer_data import data_of
from convc.verification.records import Mode

STRIP = 4200
"""Pixels that are drawn, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strips:
    """The data of a sampled check.

    Attributes:
        problem: the convolution.
        x: activations of the strip, (C, length).
        residual: (K, length of its own), or None.
        weight, bias, multiplier: as of `LayerData`.
    """

    problem: ConvProblem
    x: np.ndarray
    residual: np.ndarray | None
    weight: np.ndarray
    bias: np.ndarray | None
    multiplier: np.ndarray | None

    def activations(self, n: int, at: tuple[np.ndarray, ...]) -> np.ndarray:
        """x (1, C, *box) of image n at the coordinates along each axis; the padding where they lie outside."""
        problem = self.problem
        numbers, outside = _numbers(n, at, problem.in_extent)
        values = self.x[:, numbers % self.x.shape[1]]
        values[:, outside] = problem.pad_value
        return values[None]

    def added(self, n: int, at: tuple[np.ndarray, ...], channels: slice) -> np.ndarray | None:
        """The residual (1, K, *box) of image n; zero outside of the output. None: there is none."""
        if self.residual is None:
            return None
        numbers, outside = _numbers(n, at, self.problem.out_extent)
        values = self.residual[channels][:, numbers % self.residual.shape[1]]
        values[:, outside] = 0
        return values[None]


def strips_of(conv: ConvNode, mode: Mode, seed: int) -> Strips:
    """Draw the data of a mode for a layer; the same seed gives the same data."""
    problem = conv.problem
    *outer, width = problem.span
    wide = -(-STRIP // math.prod(outer)) + width
    small = replace(problem, batch=1, in_extent=(*outer, wide), pad_lo=(), pad_hi=(), pad_value=0, output_padding=())
    data = data_of(mode, replace(conv, problem=small), seed)
    residual = None if data.residual is None else _strip(data.residual, problem.out_extent)
    return Strips(
        problem=problem,
        x=_strip(data.x, problem.in_extent),
        residual=residual,
        weight=data.weight,
        bias=data.bias,
        multiplier=data.multiplier,
    )


def sample_buffers(layer: Layer, strips: Strips) -> dict[str, np.ndarray]:
    """The buffers that the host fills before the launch, `activation` and, where there is one, `residual`.

    Raises:
        LimitError: they do not fit into memory; or the activations have one scale factor as a whole.
    """
    layout = layer.layout
    where = f"convolution {layer.name!r}"
    if has_tensor_scale(layout):
        raise LimitError(
            f"{layout.model.operand} has one scale for all activations, which a sample of them does not know",
            where=where,
            hint="verify the layer without --sample",
        )
    shapes = f"x {shape_text(layout.model.x_shape)}, y {shape_text(layout.model.y_shape)}"
    require_memory(3 * device_bytes(layout), f"a sample of {layer.name!r} ({shapes})")
    plain = layout.forward is None and not any(layout.folds) and not layout.model.pad_value and not layout.summed
    if not plain:
        require_memory(12 * layout.activation.size_bytes, f"repacking x of {layer.name!r}")
        buffers = {"activation": pack_activation(layout, _whole(strips.x, layout.model.x_shape))}
        if strips.residual is not None:
            buffers["residual"] = pack_residual(layout, _whole(strips.residual, layout.model.y_shape))
        return buffers
    buffers = {
        "activation": _repeated(pack_activation(_line(layout, strips.x), _image(layout, strips.x)), layout.activation)
    }
    if strips.residual is not None:
        packed = pack_residual(_line(layout, strips.residual), _image(layout, strips.residual))
        buffers["residual"] = _repeated(packed, layout.output)
    return buffers


def _numbers(n: int, at: tuple[np.ndarray, ...], extent: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the pixels of a box, images counted through, and which of them lie outside of the image."""
    grids = np.meshgrid(*at, indexing="ij")
    numbers = np.full(grids[0].shape, n, np.int64)
    outside = np.zeros(grids[0].shape, bool)
    for coordinate, size in zip(grids, extent, strict=True):
        numbers = numbers * size + coordinate
        outside |= (coordinate < 0) | (coordinate >= size)
    return numbers, outside


def _strip(values: np.ndarray, extent: tuple[int, ...]) -> np.ndarray:
    """Numbers (1, channels, *box) as a strip (channels, length) for images of an extent."""
    line = values.reshape(values.shape[1], -1)
    steps = {math.prod(extent[axis:]) for axis in range(len(extent))}
    length = next((n for n in range(line.shape[1], 1, -1) if _prime(n) and all(step % n for step in steps)), 1)
    return line[:, :length]


def _prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


def _whole(strip: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A strip repeated over (N, channels, *extent)."""
    batch, _, *extent = shape
    numbers = np.arange(batch * math.prod(extent)).reshape(batch, *extent) % strip.shape[1]
    return np.moveaxis(strip[:, numbers], 0, 1)


def _image(layout: DeviceLayout, strip: np.ndarray) -> np.ndarray:
    return strip.reshape(1, len(strip), *(1,) * (layout.model.rank - 1), -1)


def _line(layout: DeviceLayout, strip: np.ndarray) -> DeviceLayout:
    """The layout of one image of one line, as long as a strip: each pixel is packed as in the whole."""
    length = strip.shape[1]
    ones = (1,) * layout.model.rank
    changes = {"batch": 1, "in_extent": (*ones[1:], length), "kernel": ones, "stride": (), "dilation": ()}
    none = {"pad_lo": (), "pad_hi": (), "output_padding": ()}
    activation = BufferLayout(dtype=layout.activation.dtype, shape=(1, 1, length, layout.activation.shape[-1]))
    output = BufferLayout(dtype=layout.output.dtype, shape=(1, 1, length, layout.output.shape[-1]))
    return msgspec.structs.replace(
        layout,
        model=replace(layout.model, **changes, **none),
        base=replace(layout.base, **changes, **none),
        activation=activation,
        output=output,
    )


def _repeated(packed: np.ndarray, buffer: BufferLayout) -> np.ndarray:
    """A packed line, again and again until the buffer is full."""
    pixels = packed.reshape(-1, buffer.shape[-1])
    whole = np.empty((math.prod(buffer.shape[:-1]), buffer.shape[-1]), packed.dtype)
    for first in range(0, len(whole), len(pixels)):
        part = whole[first : first + len(pixels)]
        part[...] = pixels[: len(part)]
    return whole.reshape(buffer.shape)
