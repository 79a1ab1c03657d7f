"""A tensor as a kernel left it, which becomes an array (N, K, P, Q) on demand."""

from __future__ import annotations

from typing import TypeVar, overload

import numpy as np

from convc.host_layout.device_layout import DeviceLayout
from convc.host_layout.handover import Use, share_buffer, why_not_shared
from convc.host_layout.repack import unpack_output
from convc.ir import dtypes

Other = TypeVar("Other")


class PackedTensor:
    """The output of a convolution in its kernel's layout.

    Args:
        layout: of the convolution.
        packed: what its kernel wrote (`DeviceLayout.output`).
    """

    __slots__ = ("_array", "_layout", "_packed")

    def __init__(self, layout: DeviceLayout, packed: np.ndarray) -> None:
        self._layout = layout
        self._packed = packed
        self._array: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, K, P, Q)."""
        return self._layout.model.y_shape

    @property
    def dtype(self) -> np.dtype:
        """Of its elements."""
        return dtypes.BY_NAME[self._layout.output.dtype].storage

    def array(self) -> np.ndarray:
        """The tensor as (N, K, P, Q), unpacked when it is first asked for."""
        if self._array is None:
            self._array = unpack_output(self._layout, self._packed)
        return self._array

    def buffer(self, consumer: DeviceLayout, use: Use) -> np.ndarray | None:
        """The buffer of another kernel that has this tensor in it; None where it must be packed anew."""
        if why_not_shared(self._layout, consumer, use) is not None:
            return None
        return share_buffer(self._layout, consumer, self._packed, use)


Other = TypeVar("Other")


@overload
def unpacked(value: np.ndarray | PackedTensor) -> np.ndarray: ...
@overload
def unpacked(value: Other) -> Other: ...
def unpacked(value: object) -> object:
    """An array in place of a `PackedTensor`; anything else as it is."""
    return value.array() if isinstance(value, PackedTensor) else value
