"""Sessions of onnxruntime, an oracle that shares no code with convc. It is optional.

`available` says whether it is installed (``pip install convc[onnxruntime]``). One thread, CPU.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import onnx
from onnx import helper

from convc.runtime.network.ort_unsigned import without_signs

_ERRORS = 4
"""The least serious messages that it logs: fatal ones; what it cannot do comes as an exception."""


def available() -> str | None:
    """Its version; None where it is not installed, or cannot be loaded here."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    try:
        return _module().__version__
    except ImportError:
        return None


def run_node(node: onnx.NodeProto, opset: int, arrays: Sequence[np.ndarray | None]) -> np.ndarray | str:
    """The first output of a node of the standard domain; a sentence where onnxruntime has no answer."""
    given = {name: array for name, array in zip(node.input, arrays, strict=True) if name and array is not None}
    graph = onnx.GraphProto(name="one", node=[node], output=[onnx.ValueInfoProto(name=node.output[0])])
    graph.input.extend(_typed(name, array) for name, array in given.items())
    model = helper.make_model(graph, opset_imports=[helper.make_operatorsetid("", opset)], ir_version=8)
    answer = _run(model, given)
    return answer if isinstance(answer, str) else answer[node.output[0]]


def run_model(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], replaced: Mapping[str, np.ndarray], extra: Sequence[str]
) -> dict[str, np.ndarray] | str:
    """Outputs of a model by name, and the tensors ``extra``; a sentence where onnxruntime has no answer.

    Args:
        replaced: values in place of constants of the model; they are given as inputs, so that no model larger than a
            protobuf message may be is ever made.
    """
    changed = onnx.ModelProto(ir_version=max(4, model.ir_version), functions=model.functions)
    changed.opset_import.extend(model.opset_import)
    source = model.graph
    graph = changed.graph
    graph.name = source.name or "graph"
    graph.node.extend(node for node in source.node if not set(node.output) & set(replaced))
    graph.initializer.extend(tensor for tensor in source.initializer if tensor.name not in replaced)
    kept = {tensor.name for tensor in source.initializer}
    graph.input.extend(value for value in source.input if value.name not in kept)
    graph.input.extend(_typed(name, array) for name, array in replaced.items())
    outputs = [value.name for value in source.output]
    graph.output.extend(source.output)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in extra if name not in outputs)
    return _run(changed, {**feeds, **replaced})


def open_session(model: onnx.ModelProto) -> Any:
    """A session for a model on one thread; a sentence where onnxruntime does not take it.

    What it computes does not depend on the processor: products of bytes are exact (`without_signs` changes the model),
    and what a model computes between `DequantizeLinear` and `QuantizeLinear` is computed in floating point, as it says.
    """
    without_signs(model)
    runtime = _module()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    providers = ["CPUExecutionProvider"]
    try:  # without its fallback, which prints that it tries the same again
        return runtime.InferenceSession(model.SerializeToString(), options, providers=providers, enable_fallback=False)
    except Exception as error:  # its exceptions have no common class of their own
        return _sentence(error)


def run_session(session: Any, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | str:
    """All outputs by name; a sentence where onnxruntime stops."""
    names = [value.name for value in session.get_outputs()]
    try:
        return dict(zip(names, session.run(names, dict(feeds)), strict=True))
    except Exception as error:  # a session has no common class of exceptions either
        return _sentence(error)


def _run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | str:
    """All outputs of a model that is run once."""
    session = open_session(model)
    return session if isinstance(session, str) else run_session(session, feeds)


def _sentence(error: Exception) -> str:
    """The first line of an exception, as the reason that onnxruntime has no answer."""
    lines = str(error).strip().splitlines()
    return f"onnxruntime does not run it: {lines[0][:300] if lines else type(error).__name__}"


def _typed(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    """An input of the type and shape of an array."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _module() -> ModuleType:
    """The package, which need not be installed."""
    return importlib.import_module("onnxruntime")
