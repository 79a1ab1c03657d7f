"""The types that a model states (``value_info``, types of outputs), against those that its nodes make.

It may be left over from an edit, so it is believed only where nothing can be computed.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx import TypeProto

from convc.frontend.node_types import shape_of
from convc.frontend.tensors import type_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A type that was completed.

    Attributes:
        believed: whether some extent is what the model says, and nothing else says it.
        contradiction: what the model says against what its nodes make; empty where they agree.
    """

    believed: bool = False
    contradiction: str = ""


def complete(kind: TypeProto, stated: TypeProto, name: str) -> Completed:
    """Add to the type of a tensor what the model says of it and nodes leave open; ``kind`` is changed."""
    if kind.WhichOneof("value") is None:
        kind.CopyFrom(stated)
        return Completed(believed=shape_of(stated) is not None)
    if not (kind.HasField("tensor_type") and stated.HasField("tensor_type")):
        return Completed()
    own = kind.tensor_type
    said = stated.tensor_type
    if own.elem_type and said.elem_type and own.elem_type != said.elem_type:
        return _contradicted(name, type_name(said.elem_type), type_name(own.elem_type))
    own.elem_type = own.elem_type or said.elem_type
    theirs = shape_of(stated)
    if theirs is None:
        return Completed()
    mine = shape_of(kind)
    if mine is None:
        own.shape.CopyFrom(said.shape)
        return Completed(believed=True)
    differ = [None not in pair and pair[0] != pair[1] for pair in zip(mine, theirs, strict=False)]
    if len(mine) != len(theirs) or any(differ):
        return _contradicted(name, _shown(theirs), _shown(mine))
    believed = False
    for at, (extent, told) in enumerate(zip(mine, theirs, strict=True)):
        if extent is None and told is not None:
            own.shape.dim[at].dim_value = told
            believed = True
    return Completed(believed=believed)


def _contradicted(name: str, said: str, made: str) -> Completed:
    return Completed(contradiction=f"the model says that {name!r} is {said}, and its nodes make {made}")


def _shown(shape: tuple[int | None, ...]) -> str:
    return f"[{', '.join('?' if extent is None else str(extent) for extent in shape)}]"
