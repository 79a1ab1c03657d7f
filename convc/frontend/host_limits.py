"""Operators that `onnx.reference` or onnxruntime is known to compute otherwise than ONNX defines them.

Each row stands for what a sweep of all operators found, `onnx.reference` against onnxruntime
(``tests/conformance/test_host_sweep.py``). A row covers the kind, not the case: all uses of an attribute where the
fault depends on extents, on signs or on chance. What one of them refuses by itself needs no row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from convc.frontend.model_file import ONNX_DOMAINS, subgraphs

Arrays = Sequence[np.ndarray | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """A node as it is used.

    Attributes:
        node: the node.
        given: its attributes by name.
        opset: of the standard domain.
        arrays: its inputs, None for what is left out; None where no value is known.
    """

    node: NodeProto
    given: Mapping[str, Any]
    opset: int
    arrays: Arrays | None

    def has(self, place: int) -> bool:
        """Whether an input is not left out."""
        return place < len(self.node.input) and self.node.input[place] != ""

    def array(self, place: int) -> np.ndarray | None:
        """The value of an input, None where it is left out or not known."""
        arrays = self.arrays or ()
        found = arrays[place] if place < len(arrays) else None
        return found if isinstance(found, np.ndarray) else None


def reference_wrong(node: NodeProto, opset: int, arrays: Arrays | None = None) -> str:
    """The fault that `onnx.reference` has in a node, or in one of its subgraphs; "" where nothing is known.

    Args:
        node: of any domain.
        opset: operator set of the standard domain.
        arrays: one for each input, None for one that is left out; without them the worst is assumed.
    """
    return _wrong(_REFERENCE, node, opset, arrays)


def onnxruntime_wrong(node: NodeProto, opset: int, arrays: Arrays | None = None) -> str:
    """The fault that onnxruntime has in a node, or in one of its subgraphs; see `reference_wrong`."""
    return _wrong(_ONNXRUNTIME, node, opset, arrays)


def _wrong(rules: Mapping[str, Callable[[_Use], str]], node: NodeProto, opset: int, arrays: Arrays | None) -> str:
    for inner in (inner for graph in subgraphs(node) for inner in graph.node):
        found = _wrong(rules, inner, opset, None)
        if found:
            return f"{inner.op_type} inside: {found}"
    rule = rules.get(node.op_type)
    if rule is None or node.domain not in ONNX_DOMAINS:
        return ""
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    return rule(_Use(node=node, given=given, opset=opset, arrays=arrays))


def _ceil(use: _Use) -> str:
    return (
        "with ceil_mode it divides by the extent of whole windows, or moves them" if use.given.get("ceil_mode") else ""
    )


def _same(use: _Use) -> bool:
    return use.given.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER")


def _dilated(use: _Use) -> bool:
    return max(use.given.get("dilations", [1])) > 1


def _dilated_same(use: _Use) -> str:
    return "auto_pad does not count dilations" if _same(use) and _dilated(use) else ""


def _max_pool(use: _Use) -> str:
    if sum(map(bool, use.node.output)) > 1:
        return "its indices count in one channel"
    if use.given.get("ceil_mode"):
        return "with ceil_mode it moves the windows"
    if _same(use):
        return "auto_pad is rounded the wrong way"
    pads = use.given.get("pads", [0])
    single = max(use.given.get("strides", [1])) == 1 and not _dilated(use)
    plain = len(use.given.get("kernel_shape", ())) == 2 and len(set(pads)) == 1
    return "pads that differ are taken for those of other sides" if single and max(pads) > 0 and not plain else ""


def _average_pool(use: _Use) -> str:
    if use.given.get("auto_pad", b"NOTSET") != b"NOTSET" and _dilated(use):
        return "auto_pad does not count dilations"
    return _ceil(use)


def _global_max_pool(use: _Use) -> str:
    x = use.array(0)
    return "" if x is not None and x.ndim == 4 else "it has the right axes in two dimensions alone"


def _always(reason: str) -> Callable[[_Use], str]:
    return lambda _: reason


def _lp_normalization(use: _Use) -> str:
    return "with p = 1 it adds numbers with their signs" if use.given.get("p", 2) == 1 else ""


def _resize(use: _Use) -> str:
    how = use.given.get("coordinate_transformation_mode")
    if use.opset == _OLD_RESIZE:
        scales = use.array(1)
        exact = use.given.get("mode") == b"linear" or (scales is not None and scales.min() >= 1)
        return "" if exact else "of operator set 10 it rounds places otherwise where an image becomes smaller"
    if how not in (b"align_corners", b"pytorch_half_pixel"):
        return ""
    made = use.array(3) if use.has(3) else _extents(use)
    image = slice(0 if "axes" in use.given else 2, None)
    if how == b"pytorch_half_pixel" and (made is None or 1 in np.floor(made[image])):
        return "pytorch_half_pixel maps the only place of an axis to half a pixel in front of the image"
    if use.has(3) or (made is not None and (made == np.floor(made)).all()):
        return ""
    return "with scales it does not round the extents of the result before it maps places"


_OLD_RESIZE = 10


def _extents(use: _Use) -> np.ndarray | None:
    """The extents that scales give, not yet rounded; None where they are not known."""
    x = use.array(0)
    scales = use.array(2)
    if x is None or scales is None or not scales.size:
        return None
    axes = use.given.get("axes")
    extents = np.array(x.shape if axes is None else [x.shape[axis] for axis in axes])
    return extents * scales.astype(np.float64) if extents.shape == scales.shape else None


def _copied(use: _Use) -> str:
    made = _extents(use)
    scales = use.array(2)
    if made is None or scales is None or use.has(3) or (scales == 1).all():
        return ""
    stays = (np.floor(made) == np.round(made / scales)).all()
    return "it copies what keeps its extents, whatever the scales" if stays else ""


def _grid_sample(use: _Use) -> str:
    cubic = use.given.get("mode") in (b"cubic", b"bicubic")
    return (
        "cubic with other padding than zeros" if cubic and use.given.get("padding_mode", b"zeros") != b"zeros" else ""
    )


def _roi_align(use: _Use) -> str:
    return "before operator set 16 it takes the centres of half pixels" if use.opset < 16 else ""


def _max_unpool(use: _Use) -> str:
    return "with an output shape it counts places in the larger one" if use.has(2) else ""


_DEFAULTS = {
    "RNN": [b"Tanh"],
    "GRU": [b"Sigmoid", b"Tanh"],
    "LSTM": [b"Sigmoid", b"Tanh", b"Tanh"],
}


def _recurrent(use: _Use) -> str:
    if use.has(4):
        return "it does not look at sequence_lens"
    if use.given.get("clip"):
        return "it does not look at clip"
    if use.given.get("input_forget"):
        return "it does not look at input_forget"
    activations = use.given.get("activations")
    default = _DEFAULTS[use.node.op_type]
    if activations is not None and list(activations) not in (default, default * 2):
        return "it does not look at activations"
    return ""


_RANGE = {2: 10.0, 4: 80.0, 8: 600.0}
"""By bytes of an element: logits that are no further apart keep a probability that is a normal number."""


def _log_softmax(use: _Use) -> str:
    x = use.array(0)
    if x is not None and not x.size:
        return ""
    with np.errstate(all="ignore"):
        near = x is not None and float(np.max(x)) - float(np.min(x)) < _RANGE.get(x.itemsize, 0)
    return "" if near else "it takes the logarithm of probabilities, which are 0 where logits lie far apart"


def _log_sum_exp(use: _Use) -> str:
    x = use.array(0)
    finite = x is not None and bool(np.isfinite(x.astype(np.float64)).all())
    return "" if finite else "infinite numbers become NaN"


_REFERENCE: Mapping[str, Callable[[_Use], str]] = {
    "AveragePool": _average_pool,
    "GlobalMaxPool": _global_max_pool,
    "GridSample": _grid_sample,
    "GRU": _recurrent,
    "LogSoftmax": _log_softmax,
    "LpNormalization": _lp_normalization,
    "LpPool": _average_pool,
    "LRN": _always("it normalises as many channels as there are images"),
    "LSTM": _recurrent,
    "MaxPool": _max_pool,
    "ReduceLogSumExp": _log_sum_exp,
    "Resize": _resize,
    "RNN": _recurrent,
    "RoiAlign": _roi_align,
}

_ONNXRUNTIME: Mapping[str, Callable[[_Use], str]] = {
    "AveragePool": _dilated_same,
    "LpPool": _dilated_same,
    "MaxPool": _dilated_same,
    "MaxUnpool": _max_unpool,
    "Resize": _copied,
}
