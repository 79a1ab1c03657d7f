"""The verb `load`: an ONNX model becomes a network of convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from convc.api.models import read_network
from convc.api.options import By, ReadOptions
from convc.frontend.model_file import model_of as model_of
from convc.frontend.onnx_reader import Source as Source
from convc.ir.network import Network


def load(
    model: Source,
    *,
    batch: int | Mapping[str, tuple[int, ...]] | None = None,
    dtype: str | None = None,
    precision: str | None = None,
    fuse: bool = True,
    gradient: By | None = None,
    accumulate: bool = False,
) -> Network:
    """Read an ONNX model.

    Args:
        model: its file, or the model as `onnx.load` gives it.
        batch: images, where the model leaves the batch open, 1 by default; or the shapes of inputs, by name.
        dtype, precision, fuse, gradient, accumulate: see `ReadOptions`.

    Returns:
        Its convolutions, with their weights, and the names of all other nodes.

    Raises:
        ModelError, NodeError, ProblemError: the model cannot be read, or has a convolution of a kind that convc does
            not compile.
        InputError: an argument has a value that does not exist.

    Example:
        >>> network = convc.load("tiny_two_convs.onnx")
        >>> network
        <Network tiny_two_convs: 2 convolutions (stem, head), 0 other nodes>
        >>> network.convs[0].problem.kernel
        (5, 5)
    """
    reading = ReadOptions(dtype=dtype, precision=precision, fuse=fuse, gradient=gradient, accumulate=accumulate)
    extents = {"shapes": batch} if isinstance(batch, Mapping) else {"batch": batch}
    return read_network(model, replace(reading, **extents))
