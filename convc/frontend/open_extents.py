"""Extents that are not known: names that stand for nothing, why a tensor has such extents, and what to do about it.

A name of an extent (``batch``, ``height``) stands for one number in the whole model. Some exporters write a word for
"unknown" in its place (``?``, ``None``, ``unk__12``); two such extents have nothing to do with one another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnx import TensorShapeProto, TypeProto

_PLACEHOLDER = re.compile(
    r"[^A-Za-z]*"  # no letter in it: ?, -1, *, ?_0
    r"|(none|null|nil|nan|undefined|unknown|unk|unspecified|dynamic|dyn|any|open|variable)([-_. ]*[?\d]*)",
    re.IGNORECASE,
)
"""Words for an extent that is not known."""


def extent_name(dim: TensorShapeProto.Dimension) -> str:
    """The name of an extent, which stands for one number in the whole model; empty where it has none."""
    name = dim.dim_param
    return "" if _PLACEHOLDER.fullmatch(name) else name


def without_placeholders(kind: TypeProto) -> TypeProto:
    """A copy of a type, without words for "unknown" in the place of extents, and without negative ones."""
    own = TypeProto()
    own.CopyFrom(kind)
    for dim in own.tensor_type.shape.dim if own.HasField("tensor_type") else ():
        if dim.HasField("dim_value") and dim.dim_value < 0:
            dim.ClearField("dim_value")
        elif dim.HasField("dim_param") and not extent_name(dim):
            dim.ClearField("dim_param")
    return own


_ROWS = 3
"""Axes of a batch of rows; more have channels in front of pixels in any case."""
REFUSED = "ONNX's shape inference refuses it"
"""How the reason of a `Cause` begins whose node contradicts itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A reason for unknown extents.

    Attributes:
        input: name of a graph input that leaves extents open; empty where it is a node.
        shape: of that input, None for an open extent; None where not even their number is said.
        channels: that it must have where a convolution reads it; 0 where that is not known.
        node, op_type: the first node whose extents are unknown, though its inputs' are known.
        reason: what inference says of it; empty where its extents depend on tensor contents.
    """

    input: str = ""
    shape: tuple[int | None, ...] | None = None
    channels: int = 0
    node: str = ""
    op_type: str = ""
    reason: str = ""

    def __str__(self) -> str:
        if not self.input:
            why = self.reason or "its extents depend on tensor contents"
            return f"node {self.node!r} ({self.op_type}): {why}"
        if self.shape is None:
            return f"the input {self.input!r} says no extents"
        axes = [str(at) for at, extent in enumerate(self.shape) if extent is None]
        listed = f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(axes[:-1])} and {axes[-1]}"
        return f"the input {self.input!r} leaves {listed} open"

    @property
    def option(self) -> str:
        """The command-line option that settles the input, with numbers in the open places; empty for a node."""
        if not self.input:
            return ""
        shape = (None,) * 4 if self.shape is None else self.shape
        if len(shape) and shape[0] is None and None not in shape[1:]:
            return "--batch 1"
        example = {0: 1, 1: self.channels or (3 if len(shape) > _ROWS else 224)}
        filled = [example.get(at, 224) if extent is None else extent for at, extent in enumerate(shape)]
        return f"--shape {self.input}:{'x'.join(map(str, filled))}"


def explained(causes: Iterable[Cause]) -> str:
    """Causes as one sentence."""
    return "; ".join(dict.fromkeys(map(str, causes)))


def way_out(causes: Sequence[Cause], file: str) -> str:
    """The command that settles the extents of a model in a file."""
    options = list(dict.fromkeys(cause.option for cause in causes if cause.option))
    if options:
        return f"give the extents (the numbers are examples): {' '.join(options)}"
    if any(cause.reason.startswith(REFUSED) for cause in causes):
        return "the model's nodes do not accept these extents: leave --batch and --shape out, or give others"
    return f"these commands know them from the data: convc run {file}, or convc verify {file}, with --input FILE"


def named_extents(inputs: Iterable[tuple[TypeProto, Sequence[int]]]) -> dict[str, int]:
    """Numbers that names of extents stand for.

    Args:
        inputs: types as the model says them, and the extents that they have.
    """
    found: dict[str, int] = {}
    for kind, shape in inputs:
        for dim, extent in zip(kind.tensor_type.shape.dim, shape, strict=False):
            if name := extent_name(dim):
                found.setdefault(name, extent)
    return found


def stated_type(kind: TypeProto, named: Mapping[str, int]) -> TypeProto:
    """The type that a model gives a tensor, with the numbers that its names stand for."""
    own = without_placeholders(kind)
    for dim in own.tensor_type.shape.dim if own.HasField("tensor_type") else ():
        if dim.dim_param in named:
            dim.dim_value = named[dim.dim_param]
    return own
