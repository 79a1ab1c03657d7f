"""Where a convolution can read what another one wrote, without going through (N, C, H, W) in between.

A kernel writes pixels with their channels side by side, (N, P, Q, k_pitch), and reads them the same way,
(N, H, W, c_pitch) (see `convc.host_layout.device_layout`). Between two convolutions with nothing on the host between,
unpacking and packing again would give the same buffer, unless the consumer's axes are folded, the pitches differ, or
the types do.
Two things are left to do, both in place or element by element, none a transposition:

* What lies behind the last channel, or between joined groups: the producer wrote something there, and the consumer
  multiplies it with the zeros of its filter, which infinity and NaN would survive. It is set to zero.
* float32 results that are multiplied as tf32 are rounded to nearest first, as packing does: the tensor core cuts.

Nothing here knows of graphs: that a tensor also goes to a node on the host, or out
of the network, is for the runner to know, who then unpacks it as well.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from convc.errors import InputError
from convc.host_layout.device_layout import BufferLayout, DeviceLayout
from convc.host_layout.groups import device_channels, pack_channels
from convc.ir import dtypes

Use = Literal["activation", "residual"]


def why_not_shared(producer: DeviceLayout, consumer: DeviceLayout, use: Use = "activation") -> str | None:
    """Why the output buffer of one kernel cannot be that buffer of another one, in words; None: it can.

    That float32 has to be rounded to tf32 is no reason.
    """
    wanted = consumer.activation if use == "activation" else consumer.residual
    if wanted is None:
        return "the consumer adds no residual"
    if producer.forward is not None or consumer.forward is not None:
        return "a transposed convolution goes through another layout"
    if producer.model.rank == 3 or consumer.model.rank == 3:
        return "volumes go through another layout"
    reason = _changed_by_the_host(consumer) if use == "activation" else None
    return reason or _unlike(producer, consumer, wanted, use)


def _changed_by_the_host(consumer: DeviceLayout) -> str | None:
    """Why the activations of a kernel are not the ones of its model; None: they are."""
    if any(fold is not None for fold in consumer.folds):
        return "an axis of the consumer is folded"
    if consumer.blocks is not None:
        return "the host computes the scale factors of the consumer's input"
    if consumer.base != consumer.ordinary:
        return "the host pads the consumer's input, or splits it into parts"
    return None


def _unlike(producer: DeviceLayout, consumer: DeviceLayout, wanted: BufferLayout, use: Use) -> str | None:
    """Where shapes, types or places of channels of the two buffers differ; None: nowhere."""
    made = producer.output
    shape = consumer.model.x_shape if use == "activation" else consumer.model.y_shape
    if producer.model.y_shape != shape:
        return f"the result has shape {producer.model.y_shape}, the consumer takes {shape}"
    if made.dtype != wanted.dtype and (made.dtype, wanted.dtype) != ("f32", "tf32"):
        return f"the result is {made.dtype}, the consumer takes {wanted.dtype}"
    if made.shape != wanted.shape:
        return f"the result has {made.shape[-1]} elements a pixel, the consumer takes {wanted.shape[-1]}"
    read = _places_read(consumer, use)
    if read is None or not np.array_equal(_places_written(producer), read):
        return "the consumer packs groups differently"
    return None


def share_buffer(
    producer: DeviceLayout, consumer: DeviceLayout, packed: np.ndarray, use: Use = "activation"
) -> np.ndarray:
    """The consumer's buffer, bit for bit what unpacking and packing again would give.

    Args:
        producer, consumer: the kernel that wrote the buffer, and the one that is to read it.
        packed: what the producer's kernel wrote (`DeviceLayout.output`). What lies behind its last channel is set to
            zero in place; where nothing is rounded this very array comes back.
        use: which buffer of the consumer.

    Raises:
        InputError: `why_not_shared` has a reason, or the array is no output buffer of the producer.
    """
    where = f"{producer.model.name!r} to {consumer.model.name!r}"
    reason = why_not_shared(producer, consumer, use)
    if reason is not None:
        raise InputError(f"the buffer cannot be passed on: {reason}", where=where, hint="unpack and repack it")
    storage = dtypes.BY_NAME[producer.output.dtype].storage
    if packed.shape != producer.output.shape or packed.dtype != storage:
        expected = f"{storage.name} {list(producer.output.shape)}"
        raise InputError(f"expected a buffer of {expected}, got {packed.dtype.name} {list(packed.shape)}", where=where)
    behind = np.ones(packed.shape[-1], bool)
    behind[_places_written(producer)] = False
    packed[..., behind] = 0
    wanted = _element_type(consumer, use)
    return packed if wanted == producer.output.dtype else dtypes.encode(dtypes.BY_NAME[wanted], packed)


def _places_written(layout: DeviceLayout) -> np.ndarray:
    """Where in a pixel of the output each channel of the model lies, int64 (K,)."""
    if layout.packing is None:
        return np.arange(layout.model.out_channels)
    return device_channels(layout.ordinary, layout.packing)


def _places_read(layout: DeviceLayout, use: Use) -> np.ndarray | None:
    """Where in a pixel that a kernel reads each channel lies, int64 (C,) or (K,); None where one has several places."""
    if use == "residual":
        return _places_written(layout)
    channels = np.arange(layout.model.in_channels)
    if layout.packing is None:
        return channels
    placed = pack_channels((channels + 1).reshape(1, 1, 1, -1), layout.ordinary, layout.packing).reshape(-1)
    places = np.flatnonzero(placed)
    order = placed[places] - 1
    once = len(places) == len(channels) and len(set(order)) == len(channels)
    return places[np.argsort(order)] if once else None


def _element_type(layout: DeviceLayout, use: Use) -> str:
    return layout.activation.dtype if use == "activation" else layout.output.dtype
