"""The verb `inspect`: one layer with every stage of its compilation, and the page that explains them."""

from __future__ import annotations

from dataclasses import dataclass

from convc.api.arguments import given_options
from convc.api.models import Model, chosen_convolutions, read_network
from convc.api.options import ReadOptions, ScheduleOptions
from convc.build.selection import pick_layer
from convc.compiler.compile import Compiled, compile_problem
from convc.compiler.kernels import shared_problem
from convc.compiler.plan.records import Plan
from convc.compiler.tile.program import TileProgram
from convc.explain.inspect import print_inspection
from convc.explain.tiles import Tiles, plan_tiles
from convc.ir.launch import LaunchSpec
from convc.ir.network import ConvNode
from convc.ir.problem import ConvProblem
from convc.layout.device_layout import DeviceLayout
from convc.report.console import page_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One layer and how its kernel came about; `print` shows what ``convc inspect`` shows.

    Attributes:
        node: the convolution as the model has it: weights, tensors, and what was fused into it.
        compiled: every stage of its compilation.
    """

    node: ConvNode
    compiled: Compiled

    @property
    def problem(self) -> ConvProblem:
        """The convolution that is computed, under the name of the kernel."""
        return self.compiled.problem

    @property
    def layout(self) -> DeviceLayout:
        """The layout of the arrays in the kernel's buffers."""
        return self.compiled.layout

    @property
    def plan(self) -> Plan:
        """The decisions, and the candidates that were turned down."""
        return self.compiled.plan

    @property
    def program(self) -> TileProgram:
        """The kernel as roles and steps."""
        return self.compiled.program

    @property
    def text(self) -> str:
        """The kernel's PTX."""
        return self.compiled.artifact.ptx

    @property
    def launch(self) -> LaunchSpec:
        """The launch of the kernel."""
        return self.compiled.artifact.launch

    @property
    def tiles(self) -> Tiles:
        """The kernel's tiles with all that can be shown of them: derivation, lanes, masks and claims."""
        return plan_tiles(self.plan)

    def __str__(self) -> str:
        return page_text(lambda console: print_inspection(console, self.compiled, self.node.fused))

    def __repr__(self) -> str:
        return f"<Inspection {self.node.name}: schedule {self.compiled.schedule}, {self.plan.tiling}>"


def inspect(
    model: Model,
    layer: str | None = None,
    *,
    read: ReadOptions | None = None,
    schedule: ScheduleOptions | None = None,
) -> Inspection:
    """Compile one convolution and keep every stage of it: problem, layout, plan, tile program, text and launch.

    Args:
        model: a file, a loaded model, or a network (whose batch, dtype and precision were settled by `load`).
        layer: its name; not needed where there is only one convolution.
        read: how the model is read.
        schedule: which schedules to consider; all of them by default.

    Returns:
        The layer with its stages; as a text, the page that explains them.

    Raises:
        InputError: there is no such layer, or several and no name.
        PlanError: it has no kernel.

    Example:
        >>> found = convc.inspect("tiny_conv.onnx", schedule=convc.ScheduleOptions(schedule="reload"))
        >>> found
        <Inspection conv: schedule reload, 128x32 tile, 32-byte rows, 5 stages>
        >>> found.plan.launch.grid
        (2, 1, 1)
        >>> str(found).splitlines()[1]
        '== problem =='
    """
    scheduling = given_options(schedule, ScheduleOptions, "schedule")
    network = read_network(model, read, layer)
    conv = pick_layer(chosen_convolutions(network, layer), layer, network.name)
    compiled = compile_problem(shared_problem(conv.problem), options=scheduling)
    return Inspection(node=conv, compiled=compiled)
