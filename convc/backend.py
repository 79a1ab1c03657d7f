"""The ONNX Backend API: convc behind the interface that ONNX defines for all runtimes.

    import onnx, convc.backend
    prepared = convc.backend.prepare(onnx.load("model.onnx"))
    outputs = prepared.run([x])

Every convolution of the main graph runs from the PTX that convc compiles for it, on the simulated multiprocessor; every
other node runs on the host through `onnx.reference`. So the device is "CPU": no GPU is used.

float32 convolutions run as three tf32 products by default (``precision="tf32x3"``, see
`convc.host_layout.split_precision`), because ONNX's conformance tests ask for 1e-3 of each element and one tf32 product
has an error of 1e-3 of the terms that are added up, which is more where they cancel; three bf16 products miss a few
elements too. ``precision="tf32"`` is a third of the work.

Source: https://onnx.ai/onnx/api/backend.html
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import onnx
from onnx import checker, helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from convc.compiler.kernels import Kernels
from convc.compiler.options import ScheduleOptions
from convc.errors import ConvcError, InputError, ModelError, NodeError
from convc.frontend.model_file import check_header
from convc.frontend.order import sorted_model
from convc.frontend.tensors import check_external
from convc.machine import RunOptions, Switches
from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.executor import Graph, with_integers
from convc.support.cache import open_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOptions:
    """The options of `prepare`, which takes them one by one by these names.

    Attributes:
        precision: of float32 convolutions, one of `convc.frontend.onnx_reader.PRECISIONS`.
        operand: multiply in one of `convc.ir.dtypes.FLOAT_OPERANDS` instead of the model's own type; ``precision``
            then has no say.
        numerics: how the tensor core adds (`convc.machine.Switches`).
        refused: what becomes of a convolution that cannot be compiled: "raise" an error that names it, or run it on
            the "host".
        host: who runs the other nodes, one of `convc.runtime.network.host.HOSTS`: "auto" is onnxruntime where it is
            installed, and else `onnx.reference`.
        schedule: as ``convc compile --schedule``.
        folder: of the model's file, for external data.
        fuse: let convolutions take in the BatchNormalization, activations and residuals behind them, and read what
            others wrote without repacking where they can; by default each node runs by itself.
        cache: where kernels are kept from one process to the next: a folder, False for nowhere, None for what
            ``CONVC_CACHE`` or else the system says (`convc.support.cache.open_cache`).
    """

    precision: str = "tf32x3"
    operand: str | None = None
    numerics: Literal["float32", "exact"] = "float32"
    refused: str = "raise"
    host: str = "auto"
    schedule: str = "auto"
    folder: str | Path = ""
    fuse: bool = False
    cache: str | Path | bool | None = None


class PreparedModel(BackendRep):
    """A model that is ready to run; kernels are compiled when they are first needed, and kept.

    Attributes:
        graph: what runs; ``graph.stats`` says what the last run did.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._outputs = namedtupledict("Outputs", list(graph.outputs))

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, as a tuple that also takes their names as keys.

        Args:
            inputs: a value for each input of the model, in its order; or by name; or one array alone. Inputs with an
                initializer of the same name (before IR version 4 all weights) may be left out, and follow the others.

        Raises:
            ConvcError: see `Graph.run`.
        """
        if kwargs:
            raise InputError(f"run takes no option {', '.join(kwargs)}", hint="give options to prepare")
        results = self.graph.run(self._named(inputs))
        return self._outputs(*results.values())

    def _named(self, inputs: Any) -> Mapping[str, Any]:
        """The inputs by name."""
        if isinstance(inputs, Mapping):
            return cast("Mapping[str, Any]", inputs)
        if not isinstance(inputs, np.ndarray | Sequence) or isinstance(inputs, str | bytes):
            raise InputError(f"run takes arrays in a list, or by name, got {type(inputs).__name__}")
        values: list[Any] = [inputs] if isinstance(inputs, np.ndarray) else list(cast("Sequence[Any]", inputs))
        names = [value.name for value in (*self.graph.inputs, *self.graph.optional)]
        required = len(self.graph.inputs)
        if not required <= len(values) <= len(names):
            listed = ", ".join(map(repr, names[:required])) or "none"
            raise InputError(f"the model takes {required} inputs, got {len(values)}", hint=f"inputs: {listed}")
        return dict(zip(names, values, strict=False))


class ConvcBackend(Backend):
    """convc as a backend of ONNX."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether the device is the CPU, on which the multiprocessor is simulated."""
        return device.split(":")[0] == "CPU"

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether `prepare` takes the model; whether all its convolutions compile is known when shapes are."""
        try:
            cls.prepare(model, device, **kwargs)
        except ConvcError:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Make a model ready to run.

        Args:
            model: of any operator set up to the newest that the installed onnx has.
            device: "CPU".
            kwargs: the fields of `PrepareOptions`. Options for other backends, such as the tolerances of ONNX's tests,
                are not looked at.

        Raises:
            ModelError: not a valid model, or of a version that is not known.
            NodeError: a node that neither convc nor `onnx.reference` can run.
            InputError: a wrong argument, or a folder for the cache that cannot be used.
        """
        if not cls.supports_device(device):
            raise InputError(f"expected the device 'CPU', got {device!r}", hint="convc simulates its GPU on the CPU")
        if not isinstance(model, onnx.ModelProto):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"prepare takes an onnx.ModelProto, got {type(model).__name__} {str(model)[:60]!r}",
                hint="load the file first: prepare(onnx.load(file))",
            )
        check_header(model, oldest_opset=0)
        model = sorted_model(model)
        known = {field.name for field in fields(PrepareOptions)}
        options = PrepareOptions(**{name: value for name, value in kwargs.items() if name in known})
        folder = Path(options.folder)
        checked = _without_external(model, folder)
        try:
            checker.check_model(checked)  # pyright: ignore[reportUnknownMemberType]
        except Exception as error:  # the checker's own ValidationError, and RuntimeError of its C++ part
            raise ModelError(f"not a valid model: {str(error).strip().splitlines()[0]}") from None
        kept = open_cache(options.cache)
        convolutions = Convolutions(
            kernels=Kernels(ScheduleOptions(schedule=options.schedule), kept),
            operand=options.operand,
            precision=options.precision,
            machine=RunOptions(switches=Switches(numerics=options.numerics)),
        )
        graph = Graph(
            with_integers(model, folder) if options.fuse else model,
            folder=folder,
            convolutions=convolutions,
            refused=options.refused,
            host=options.host,
            fuse=options.fuse,
        )
        prepared = PreparedModel(graph)
        if kept is not None:
            weakref.finalize(prepared, kept.close)
        return prepared

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node; a convolution from its PTX.

        Args:
            node: of the newest operator set, or of ``opset_version``.
            inputs: an array for each input of the node, in order, or by name; inputs left out ("") have none.
            outputs_info: not needed.
            kwargs: ``opset_version``, and the options of `prepare`.

        Raises:
            ConvcError: as `prepare` and `PreparedModel.run`.
        """
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        arrays = {name: np.asarray(value) for name, value in _by_name(node, inputs).items()}
        domains = {"": opset}
        if node.domain:
            domains[node.domain] = opset if node.domain == "ai.onnx" else 1
        model = helper.make_model(
            onnx.GraphProto(
                name=node.op_type,
                node=[node],
                input=[_typed(name, array, node) for name, array in arrays.items()],
                output=[onnx.ValueInfoProto(name=name) for name in node.output if name],
            ),
            opset_imports=[helper.make_operatorsetid(domain, version) for domain, version in domains.items()],
        )
        return _run_graph(cls, model, node, arrays, device, kwargs)


def _without_external(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """The model for onnx's checker, which looks for external data in the current folder alone.

    Weights that lie in files are inputs of their types in it; whether the model's folder has the files is checked here.
    """
    outside = [tensor for tensor in model.graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL]
    if not outside:
        return model
    try:
        for tensor in outside:
            check_external(tensor, folder)
    except ModelError as error:
        error.hint = error.hint or "say where the model lies: prepare(model, folder=FOLDER)"
        raise
    checked = onnx.ModelProto()
    checked.CopyFrom(model)
    graph = checked.graph
    inside = [tensor for tensor in graph.initializer if tensor.data_location != onnx.TensorProto.EXTERNAL]
    kept = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in inside]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    known = {value.name for value in graph.input}
    graph.input.extend(
        helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in outside
        if tensor.name not in known
    )
    return checked


def _by_name(node: onnx.NodeProto, inputs: Any) -> Mapping[str, Any]:
    """The values that a node is given, by the names of its inputs; one that reads a tensor twice is given it once."""
    if isinstance(inputs, Mapping):
        return cast("Mapping[str, Any]", inputs)
    names = list(dict.fromkeys(filter(None, node.input)))
    values: list[Any] = [inputs] if isinstance(inputs, np.ndarray) else list(cast("Sequence[Any]", inputs))
    if len(values) != len(names):
        raise InputError(f"the node has {len(names)} inputs, got {len(values)}", where=f"node ({node.op_type})")
    return dict(zip(names, values, strict=True))


def _typed(name: str, array: np.ndarray, node: onnx.NodeProto) -> onnx.ValueInfoProto:
    """An input of the type and shape of an array."""
    try:
        element_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    except ValueError:
        raise InputError(f"the input {name!r} has elements of {array.dtype}", where=f"node ({node.op_type})") from None
    return helper.make_tensor_value_info(name, element_type, array.shape)


def _run_graph(
    backend: type[ConvcBackend], model: onnx.ModelProto, node: onnx.NodeProto, arrays: Any, device: str, options: Any
) -> tuple[Any, ...]:
    """Run a model of one node; its outputs get their types by shape inference, which the checker wants to see."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception as error:  # several unrelated types
        raise NodeError(f"ONNX refuses the node: {error}", where=f"node ({node.op_type})") from None
    return backend.prepare(inferred, device, **options).run(arrays)


supports_device = ConvcBackend.supports_device
is_compatible = ConvcBackend.is_compatible
prepare = ConvcBackend.prepare
run_model = ConvcBackend.run_model
run_node = ConvcBackend.run_node

__all__ = [
    "ConvcBackend",
    "PrepareOptions",
    "PreparedModel",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]
