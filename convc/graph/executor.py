"""Running a model: its nodes in the order of the file, which in ONNX is a valid order of execution.

Convolutions of the main graph run from their PTX (`convc.graph.convolutions`), every other node on the host
(`convc.graph.host`). A node is built when it first runs, and again used in later runs; a tensor is let go after the
last node that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from convc.errors import ConvcError, InputError, ModelError
from convc.frontend.onnx_reader import is_convolution, node_names
from convc.graph.convolutions import Convolutions, ConvRun
from convc.graph.feeds import check_feeds
from convc.graph.host import HostNode, HostNodes, Value, needed
from convc.graph.inline import hidden_convolutions, inlined
from convc.graph.runtime_host import RuntimeNode
from convc.graph.values import StartValues

Watch = Callable[[str, ConvRun], None]
"""Called with the name of each convolution and its run, as soon as it ran."""

Progress = Callable[[str, float], None]
"""Called with what is being done and how much of the whole is done, 0 to 1."""

REFUSED = ("raise", "host")
"""What becomes of a convolution that convc does not compile: an error that names it, or a node of the host."""


@dataclass(slots=True)
class Tally:
    """What a run did.

    Attributes:
        compiled: names of the convolutions that ran from their PTX.
        refused: convolutions that ran on the host, by name, and why.
        hidden: nodes that ran on the host with convolutions inside them (`If`, `Loop`, `Scan`), by name, and how many.
        host: other nodes that ran on the host.
        seconds: wall time of the machine in all convolutions.
    """

    compiled: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    hidden: dict[str, int] = field(default_factory=dict)
    host: int = 0
    seconds: float = 0.0


class Graph:
    """A model that is ready to run.

    Args:
        model: of a version that was checked (`convc.frontend.model_file.check_header`).
        folder: of the model, for external data.
        convolutions: runs the convolutions; its kernels can be shared by several graphs.
        refused: one of `REFUSED`.
        host: who runs the other nodes, one of `convc.graph.host.HOSTS`.
        replaced: arrays in place of constants of the model, by name.

    Attributes:
        inputs: the inputs that a run must be given, in the order of the model: those without a default.
        optional: inputs that have one, an initializer of the same name.
        outputs: names of the results.
        model: what runs: the model with its functions put in the place of their calls.
        tally: what the last run did.

    Raises:
        ModelError: the graph is not in order, or has values that cannot be read.
        NodeError: a node that neither the machine nor the host can run.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        *,
        folder: Path = Path(),
        convolutions: Convolutions | None = None,
        refused: str = "raise",
        host: str = "reference",
        replaced: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        if refused not in REFUSED:
            raise InputError(f"refused must be one of {', '.join(REFUSED)}, got {refused!r}")
        model = inlined(model)
        self.model, graph = model, model.graph
        self.name = graph.name
        self.start = StartValues(graph, folder, replaced)
        defaults = self.start.initializers
        self.inputs = tuple(value for value in graph.input if value.name not in defaults)
        self.optional = tuple(value for value in graph.input if value.name in defaults)
        self.outputs = tuple(value.name for value in graph.output)
        self.tally = Tally()
        self._convolutions = convolutions or Convolutions()
        self._refused = refused
        stated = {value.name: value.type for value in (*graph.input, *graph.value_info, *graph.output)}
        self._host = HostNodes(model, stated, host)
        functions = {(function.domain, function.name): function for function in model.functions}
        self._steps = list(zip(node_names(graph.node), graph.node, strict=True))
        hidden = {name: hidden_convolutions(node, functions) for name, node in self._steps}
        self._hidden = {name: count for name, count in hidden.items() if count}
        self._last = self._last_uses()
        self._check_order()
        self._built: dict[str, HostNode | RuntimeNode] = {}
        self._reasons: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each node of the main graph, in its order."""
        return tuple(name for name, _ in self._steps)

    @property
    def convolutions(self) -> tuple[str, ...]:
        """Names of the convolution nodes of the main graph."""
        return tuple(name for name, node in self._steps if is_convolution(node))

    def run(
        self, feeds: Mapping[str, Value], watch: Watch | None = None, progress: Progress | None = None
    ) -> dict[str, Value]:
        """The outputs of the model, by name, in their order.

        Args:
            feeds: a value for each input without a default, by name; others may be given too.
            watch: told of each convolution.
            progress: told of each convolution before it runs.

        Raises:
            InputError: an input is missing, or one has another type or shape than the model says.
            NodeError: a node cannot be compiled or refuses its inputs.
            MachineFault, DeadlockError: a kernel fails.
        """
        values: dict[str, Value] = check_feeds(self.inputs, self.optional, feeds)
        given = set(values)
        self.tally = Tally()
        for index, (name, node) in enumerate(self._steps):
            results = [output for output in node.output if output]
            if results and all(result not in given and self.start.value(result) is not None for result in results):
                continue  # a constant
            inputs = {wanted: self._value(wanted, values, name, node) for wanted in needed(node)}
            if is_convolution(node):
                if progress is not None:
                    progress(f"run {name}", index / len(self._steps))
                made = self._convolve(name, node, inputs, given, watch)
            else:
                made = self._on_host(name, node, inputs)
                self.tally.host += 1
                if name in self._hidden:
                    self.tally.hidden[name] = self._hidden[name]
            values.update(zip(results, made, strict=False))
            del inputs, made
            for done in self._last.get(index, ()):
                values.pop(done, None)
        return {output: self._value(output, values, "the output", None) for output in self.outputs}

    def _convolve(
        self, name: str, node: onnx.NodeProto, inputs: Mapping[str, Value], given: set[str], watch: Watch | None
    ) -> list[Value]:
        """A convolution from its PTX; on the host where it is refused and that is allowed."""
        if name in self._reasons:
            self.tally.refused[name] = self._reasons[name]
            return self._on_host(name, node, inputs)
        arrays = [inputs[wanted] if wanted else None for wanted in node.input]
        constant = not given.intersection(node.input[1:]) and self.start.constant(node.input[1:])
        try:
            ran = self._convolutions.run(node, name, arrays, constant)
        except ConvcError as error:
            if self._refused == "raise" or error.exit_code != 2:
                raise
            self.tally.refused[name] = self._reasons[name] = error.message
            return self._on_host(name, node, inputs)
        self.tally.compiled.append(name)
        self.tally.seconds += ran.run.seconds
        if watch is not None:
            watch(name, ran)
        return [ran.run.y]

    def _on_host(self, name: str, node: onnx.NodeProto, inputs: Mapping[str, Value]) -> list[Value]:
        if name not in self._built:
            self._built[name] = self._host.build(node, name)
        return self._built[name].run(inputs)

    def _value(self, wanted: str, values: Mapping[str, Value], name: str, node: onnx.NodeProto | None) -> Value:
        if wanted in values:
            return values[wanted]
        constant = self.start.value(wanted)
        if constant is None:
            where = f"node {name!r} ({node.op_type})" if node is not None else self.name
            raise ModelError(f"there is no tensor {wanted!r}", where=where)
        return constant

    def _last_uses(self) -> dict[int, list[str]]:
        """Tensors that can be let go after each step."""
        last = {name: index for index, (_, node) in enumerate(self._steps) for name in (*needed(node), *node.output)}
        uses: dict[int, list[str]] = {}
        for name, index in last.items():
            if name not in self.outputs:
                uses.setdefault(index, []).append(name)
        return uses

    def _check_order(self) -> None:
        """Raise `ModelError` where a node reads what no earlier one makes."""
        known = {value.name for value in (*self.inputs, *self.optional)} | self.start.initializers
        for name, node in self._steps:
            for wanted in needed(node):
                if wanted not in known:
                    raise ModelError(
                        f"nothing before this node makes its input {wanted!r}",
                        where=f"node {name!r} ({node.op_type})",
                        hint="nodes must be sorted: each after those whose outputs it reads",
                    )
            known.update(node.output)
        for output in self.outputs:
            if output not in known:
                raise ModelError(f"nothing makes the output {output!r} of the model", where=self.name)
