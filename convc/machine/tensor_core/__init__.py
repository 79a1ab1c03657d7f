"""Tensor memory and the tensor core: operands, shapes, numerics, the queue of its operations."""
