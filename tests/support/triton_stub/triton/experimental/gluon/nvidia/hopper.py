"""Tensor descriptors of the host."""

from dataclasses import dataclass
from typing import Any


@dataclass
class TensorDescriptor:
    """A tensor in memory, and the blocks that are copied."""

    base: Any
    shape: Any
    strides: Any
    block_shape: Any
    layout: Any
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    @staticmethod
    def from_tensor(tensor, block_shape, layout):
        return TensorDescriptor(tensor, tensor.shape, tensor.stride(), block_shape, layout)
