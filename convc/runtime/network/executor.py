"""Running a model: its nodes in the order of the file, which in ONNX is a valid order of execution.

Convolutions of the main graph run from their PTX (`convc.runtime.network.convolutions`), every other node on the host
(`convc.runtime.network.host`), unless a convolution takes it in (`convc.runtime.network.steps`). A node is built when
it first runs, and again used in later runs; a tensor is let go after the last step that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from convc.errors import ConvcError, InputError, ModelError
from convc.frontend.constants import Constants
from convc.frontend.convolution_nodes import OPTIMISED, is_optimised
from convc.frontend.empty_convs import empty_result
from convc.frontend.inline import inlined
from convc.frontend.integer_convs import Integers, integer_convolutions
from convc.frontend.model_file import opset_of
from convc.frontend.onnx_reader import is_convolution, node_names
from convc.runtime.layer import LayerRun
from convc.runtime.network.bodies import BodyNode, Runner, as_main_graph, hidden_convolutions, is_run_here
from convc.runtime.network.constants import StartValues
from convc.runtime.network.convolutions import Convolutions, ConvRun, Ready
from convc.runtime.network.device_tensor import PackedTensor, unpacked
from convc.runtime.network.feeds import check_feeds, has_fixed_shape
from convc.runtime.network.host import HostNode, HostNodes
from convc.runtime.network.node_info import needed, node_place
from convc.runtime.network.stats import RunStats
from convc.runtime.network.steps import NodeGroup, Value, fused_steps, last_uses, plain_steps
from convc.support.arrays import is_array
from convc.support.progress import SILENT, Progress

Watch = Callable[[str, ConvRun], None]
"""Called with the name of each convolution and its run, as soon as it ran."""

Look = Callable[[str, Value], None]
"""Called with the name of each tensor and its value, as soon as a step made it."""

REFUSED = ("raise", "host")
"""What becomes of a convolution that convc does not compile: an error that names it, or a node of the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _StepPlan:
    """What a run does on feeds of one kind.

    Attributes:
        fed: initializers that are given other values.
        shapes: of the inputs whose extents the model leaves open; they decide what is fused.
        steps: in order.
        last_uses: the tensors to let go after each step, by its index.
    """

    fed: frozenset[str]
    shapes: Mapping[str, tuple[int, ...]]
    steps: list[NodeGroup]
    last_uses: Mapping[int, list[str]]


class Graph:
    """A model that is ready to run.

    Args:
        model: of a version that was checked (`convc.frontend.model_file.check_header`); or what `with_integers` made of
            one, for the same ``replaced``. A run that is given other values for what that assumes is one of the model
            as it was.
        folder: of the model, for external data.
        convolutions: runs the convolutions; its kernels can be shared by several graphs.
        refused: one of `REFUSED`.
        host: who runs the other nodes, one of `convc.runtime.network.host.HOSTS`.
        replaced: arrays in place of constants of the model, by name.
        fuse: let convolutions whose weights are constant take in the nodes behind them (`convc.frontend.fusion`).
        prefix: of the names of its nodes, for a graph inside a node.
        share_buffers: where nodes are fused, let kernels read what others wrote without repacking where they can
            (`convc.host_layout.handover`); the results have the same bits.

    Attributes:
        inputs: the inputs that a run must be given, in the order of the model: those without a default.
        optional: inputs that have one, an initializer of the same name.
        outputs: names of the results.
        model: what runs: the model with its functions put in the place of their calls, and its integer convolutions.
        stats: what the last run did.
        look: told of the tensors that steps make; of a fused one only the last.

    Raises:
        ModelError: the graph is not in order, or has values that cannot be read.
        NodeError: a node that neither the simulator nor the host can run.
    """

    def __init__(  # noqa: PLR0913 - each is one choice, and most are left out
        self,
        model: onnx.ModelProto | Integers,
        *,
        folder: Path = Path(),
        convolutions: Convolutions | None = None,
        refused: str = "raise",
        host: str = "auto",
        replaced: Mapping[str, np.ndarray] | None = None,
        fuse: bool = False,
        share_buffers: bool = True,
        prefix: str = "",
    ) -> None:
        self._integers = model if isinstance(model, Integers) else Integers(model=model, source=model)
        self._as_written = partial(
            Graph,
            self._integers.source,
            folder=folder,
            convolutions=convolutions,
            refused=refused,
            host=host,
            replaced=replaced,
            fuse=fuse,
            share_buffers=share_buffers,
        )
        if refused not in REFUSED:
            raise InputError(f"refused must be one of {', '.join(REFUSED)}, got {refused!r}")
        self.model = inlined(self._integers.model)
        model = self.model
        graph = model.graph
        self.name = graph.name
        self.start = StartValues(graph, folder, replaced, opset_of(model))
        defaults = self.start.initializers
        self.inputs = tuple(value for value in graph.input if value.name not in defaults)
        self.optional = tuple(value for value in graph.input if value.name in defaults)
        self.outputs = tuple(value.name for value in graph.output)
        self.stats = RunStats()
        self._convolutions = convolutions or Convolutions()
        self._refused = refused
        stated = {value.name: value.type for value in (*graph.input, *graph.value_info, *graph.output)}
        self._host = HostNodes(model, stated, host)
        functions = {(function.domain, function.name): function for function in model.functions}
        self._nodes = [(prefix + name, node) for name, node in zip(node_names(graph.node), graph.node, strict=True)]
        self._make_inside = partial(
            Graph, folder=folder, convolutions=self._convolutions, refused="host", host=host, fuse=False
        )
        self._watch: Watch | None = None
        self.look: Look | None = None
        self._fuse = fuse
        self._share_buffers = share_buffers
        self._plan: _StepPlan | None = None
        hidden = {name: hidden_convolutions(node, functions) for name, node in self._nodes}
        self._hidden = {name: count for name, count in hidden.items() if count}
        self._check_order()
        # Filled while the graph runs: nodes of the host, why convolutions were refused, and the last kernel of each.
        self._built: dict[str, HostNode] = {}
        self._bodies: dict[str, BodyNode] = {}
        self._reasons: dict[str, str] = {}
        self._ready: dict[str, tuple[tuple[tuple[int, ...], np.dtype], Ready]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each node of the main graph, in its order."""
        return tuple(name for name, _ in self._nodes)

    @property
    def convolutions(self) -> tuple[str, ...]:
        """Names of the convolution nodes of the main graph."""
        return tuple(name for name, node in self._nodes if is_convolution(node))

    def run(
        self, feeds: Mapping[str, Value], watch: Watch | None = None, progress: Progress = SILENT
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
        if given & self._integers.assumes:
            as_written = self._as_written()
            results = as_written.run(feeds, watch, progress)
            self.stats = as_written.stats
            return results
        self.stats = RunStats()
        self._watch = watch
        plan = self._planned(values)
        for index, step in enumerate(plan.steps):
            if is_convolution(step.nodes[0][1]):
                progress(f"run {step.name}", index / len(plan.steps))
            if not self._run_fused(step, values, watch):
                for name, node in step.nodes:
                    self._run_node(name, node, values, given, watch)
                for done in step.inside:
                    values.pop(done, None)
            if self.look is not None:
                for made in values.keys() & set(step.writes):
                    self.look(made, unpacked(values[made]))
            for done in plan.last_uses.get(index, ()):
                values.pop(done, None)
        return {output: self._value(output, values, "the output", None) for output in self.outputs}

    def _planned(self, feeds: Mapping[str, Value]) -> _StepPlan:
        """The steps of a run on these feeds; the last plan is kept, because its steps hold packed weights."""
        fed = frozenset(self.start.initializers.intersection(feeds))
        shapes: dict[str, tuple[int, ...]] = {}
        if self._fuse:
            for value in self.inputs:
                given = feeds[value.name]
                if is_array(given) and not has_fixed_shape(value):
                    shapes[value.name] = given.shape
        if self._plan is not None and (self._plan.fed, self._plan.shapes) == (fed, shapes):
            return self._plan
        if self._fuse:
            steps = fused_steps(self._nodes, self.model, self.start, shapes, fed, *self._convolutions.how)
        else:
            steps = plain_steps(self._nodes)
        self._plan = _StepPlan(fed=fed, shapes=shapes, steps=steps, last_uses=last_uses(steps, self.outputs))
        return self._plan

    def _run_fused(self, step: NodeGroup, values: dict[str, Value], watch: Watch | None) -> bool:
        """Run the kernel of a convolution that was read before the run; False where there is none that fits."""
        conv = step.conv
        if conv is None or step.split or not step.fits(values):
            return False
        if step.layer is None:
            try:
                step.layer = self._convolutions.layer(conv)
            except ConvcError as error:
                if error.exit_code != 2:
                    raise
                step.split = True  # node by node it may work, and if not, that is said of the node
                return False
        x = values[conv.input.name]
        residual = None if conv.residual is None else values[conv.residual.name]
        name, node = step.nodes[0]
        run, handed = self._convolutions.run_layer(step.layer, x, residual, node_place(node, name))
        made = PackedTensor(step.layer.layout, run.y)
        self.stats.compiled.append(name)
        self._note(name, run)
        self.stats.handed += handed
        if conv.fused:
            self.stats.fused[name] = conv.fused
        if watch is not None:
            arrays = tuple(self._value(wanted, values, name, node) if wanted else None for wanted in node.input)
            run = replace(run, y=made.array())
            watch(name, ConvRun(node=node, conv=conv, arrays=arrays, run=run, residual=unpacked(residual)))
        values[conv.output.name] = made if self._share_buffers else made.array()
        return True

    def _run_node(
        self, name: str, node: onnx.NodeProto, values: dict[str, Value], given: set[str], watch: Watch | None
    ) -> None:
        """Run one node, unless its results are constants."""
        results = [output for output in node.output if output]
        fresh = not values.keys().isdisjoint([*node.input, *results])  # a constant would come from what was fed
        if results and not fresh and all(self.start.value(result) is not None for result in results):
            return
        inputs = {wanted: self._value(wanted, values, name, node) for wanted in needed(node)}
        if is_convolution(node):
            made = self._convolve(name, node, inputs, set(values), watch)
        elif name in self._hidden and is_run_here(node, opset_of(self.model) or 0):
            if name not in self._bodies:
                self._bodies[name] = BodyNode(node, name, self._inside)
            made = self._bodies[name].run(inputs)
        else:
            made = self._on_host(name, node, inputs)
            if is_optimised(node):
                self.stats.refused[name] = OPTIMISED
            else:
                self.stats.host += 1
            if name in self._hidden:
                self.stats.hidden[name] = self._hidden[name]
        values.update(zip(results, made, strict=False))

    def _inside(self, graph: onnx.GraphProto, prefix: str) -> Runner:
        """A graph inside a node, ready to run."""
        source = self.model
        model = onnx.ModelProto(ir_version=source.ir_version, opset_import=source.opset_import)
        model.functions.extend(source.functions)
        model.graph.CopyFrom(as_main_graph(graph))
        child = self._make_inside(model, prefix=prefix)
        names = [value.name for value in child.inputs]

        def run(feeds: Mapping[str, Value], turn: int) -> list[Value]:
            results = child.run({name: feeds[name] for name in names}, in_turn(self._watch, turn))
            self.stats.add(child.stats)
            return [results[value.name] for value in graph.output]

        return run

    def _convolve(
        self, name: str, node: onnx.NodeProto, inputs: Mapping[str, Value], given: set[str], watch: Watch | None
    ) -> list[Value]:
        """A convolution from its PTX; on the host where it is refused and that is allowed."""
        if name in self._reasons:
            self.stats.refused[name] = self._reasons[name]
            return self._on_host(name, node, inputs)
        arrays = [inputs[wanted] if wanted else None for wanted in node.input]
        nothing = empty_result(node, name, [each if is_array(each) else None for each in arrays])
        if nothing is not None:
            self.stats.empty.append(name)
            return [nothing]
        constant = not given.intersection(node.input[1:]) and self.start.constant(node.input[1:])
        try:
            ran = self._convolutions.run(self._prepared(name, node, arrays, constant), node, name, arrays)
        except ConvcError as error:
            if self._refused == "raise" or error.exit_code != 2:
                raise
            self.stats.refused[name] = self._reasons[name] = error.message
            return self._on_host(name, node, inputs)
        self.stats.compiled.append(name)
        self._note(name, ran.run)
        if watch is not None:
            watch(name, ran)
        return [ran.run.y]

    def _note(self, name: str, run: LayerRun) -> None:
        """Keep how a convolution ran, and what became of a quantised one."""
        self.stats.seconds += run.seconds
        if run.special:
            self.stats.special[name] = run.special
        if name in self._integers.taken:
            self.stats.fused[name] = self._integers.taken[name]
        if name in self._integers.floating:
            self.stats.floating[name] = self._integers.floating[name]

    def _prepared(self, name: str, node: onnx.NodeProto, arrays: list[Value], constant: bool) -> Ready:
        """The kernel of a node; the last one is kept where the weights are the same in every run."""
        if not constant or arrays[0] is None or not is_array(arrays[0]):
            return self._convolutions.prepare(node, name, arrays)
        key = (arrays[0].shape, arrays[0].dtype)
        if name not in self._ready or self._ready[name][0] != key:
            self._ready[name] = (key, self._convolutions.prepare(node, name, arrays))
        return self._ready[name][1]

    def _on_host(self, name: str, node: onnx.NodeProto, inputs: Mapping[str, Value]) -> list[Value]:
        """The outputs of a node that the host runs; it is built when it is first needed."""
        if name not in self._built:
            self._built[name] = self._host.build(node, name)
        built = self._built[name]
        made = built.run(inputs)
        self.stats.evaluators.setdefault(built.kind, built.chosen)
        if built.said:
            self.stats.elsewhere[name] = built.said
        return made

    def _value(self, wanted: str, values: Mapping[str, Value], name: str, node: onnx.NodeProto | None) -> Value:
        """A tensor that was made or is constant, unpacked; `ModelError` names the node that asks for another."""
        if wanted in values:
            return unpacked(values[wanted])
        constant = self.start.value(wanted)
        if constant is None:
            where = node_place(node, name) if node is not None else self.name
            raise ModelError(f"there is no tensor {wanted!r}", where=where)
        return constant

    def _check_order(self) -> None:
        """Raise `ModelError` where a node reads what no node makes."""
        known = {value.name for value in (*self.inputs, *self.optional)} | self.start.initializers
        for name, node in self._nodes:
            for wanted in needed(node):
                if wanted not in known:
                    raise ModelError(
                        f"no node computes its input {wanted!r}",
                        where=node_place(node, name),
                        hint="it is no input of the model, no initializer, and no output of a node",
                    )
            known.update(node.output)
        for output in self.outputs:
            if output not in known:
                raise ModelError(f"no node computes the output {output!r} of the model", where=self.name)


def in_turn(watch: Watch | None, turn: int) -> Watch | None:
    """A watch that is told of convolutions inside a loop; from the second turn on their names say which it is."""
    if watch is None or not turn:
        return watch

    def told(name: str, ran: ConvRun) -> None:
        numbered = f"{name}, turn {turn + 1}"
        watch(numbered, replace(ran, conv=replace(ran.conv, name=numbered)))

    return told


def with_integers(model: onnx.ModelProto, folder: Path, replaced: Mapping[str, np.ndarray] | None = None) -> Integers:
    """A model with its functions in place, its quantised convolutions integer ones; arguments are those of `Graph`.

    Raises:
        ModelError: its functions cannot be put in place.
        LimitError: it does not fit into memory.
    """
    model = inlined(model)
    constants = Constants(model.graph, folder, {}, replaced, opset=opset_of(model))
    return integer_convolutions(model, node_names(model.graph.node), constants)
