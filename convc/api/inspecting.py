"""The verb `inspect`: one layer with every stage of its compilation, and the page that explains them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from convc.api.arguments import given_options
from convc.api.inputs import opened
from convc.api.models import Model, chosen_convolutions, read_network
from convc.api.options import ReadOptions, ScheduleOptions
from convc.api.working import timer_of, tuned_of
from convc.build.folder import Build
from convc.build.selection import pick_layer
from convc.compiler.kernels import compile_shared
from convc.compiler.plan.records import Plan
from convc.compiler.tile.program import TileProgram
from convc.errors import BuildError, InputError, PlanError
from convc.explain.inspect import InspectedLayer, print_inspection
from convc.explain.tiles import KernelTiles, plan_tiles
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.launch import LaunchSpec
from convc.ir.problem import ConvProblem
from convc.report.console import page_text
from convc.support.files import read_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection(InspectedLayer):
    """One layer and how its kernel came about; `print` shows what ``convc inspect`` shows.

    Attributes:
        options: the options that it was compiled with; of a build, those that the build holds.
    """

    options: ScheduleOptions = ScheduleOptions()  # noqa: RUF009 - frozen record

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
    def launch(self) -> LaunchSpec:
        """The launch of the kernel."""
        return self.compiled.artifact.launch

    @property
    def tiles(self) -> KernelTiles:
        """The kernel's tiles with all that can be shown of them: derivation, lanes, masks and claims."""
        return plan_tiles(self.plan)

    def _repr_svg_(self) -> str | None:
        """A tile inside the image, at its first filter column, for notebooks; None where lanes have no pixels."""
        # Imported when a notebook shows it: a page is text.
        from convc.draw.tile import tile_picture

        tiles = self.tiles
        return tile_picture(tiles.typical(), 0).svg() if tiles.pixels else None

    def __str__(self) -> str:
        return page_text(lambda console: print_inspection(console, self))

    def __repr__(self) -> str:
        return f"<Inspection {self.node.name}: schedule {self.compiled.schedule}, {self.plan.tiling}>"


def inspect(
    model: Model | Build,
    layer: str | None = None,
    *,
    read: ReadOptions | None = None,
    schedule: ScheduleOptions | None = None,
) -> Inspection:
    """Compile one convolution and keep every stage of it: problem, layout, plan, tile program, text and launch.

    Of a build folder, the layer is compiled once more with the options that the build holds, and the text is the
    folder's.

    Args:
        model: a file, a loaded model, or a network (whose batch, dtype and precision were settled by `load`); or a
            build, opened or its folder.
        layer: its name; not needed where there is only one convolution.
        read: how the model is read.
        schedule: which schedules to consider; all of them by default.

    Returns:
        The layer with its stages; as a text, the page that explains them.

    Raises:
        InputError: there is no such layer, or several and no name; or options for a build, which has settled them.
        BuildError: the build folder is damaged.
        PlanError: it has no kernel.

    Example:
        >>> found = convc.inspect("tiny_conv.onnx", schedule=convc.ScheduleOptions(schedule="reload"))
        >>> found
        <Inspection conv: schedule reload, 128x16 tile, 32-byte rows, 8 stages>
        >>> found.plan.launch.grid
        (2, 2, 1)
        >>> str(found).splitlines()[1]
        '== conv =='
    """
    build = build_of(model)
    if build is not None:
        check_settled(read, schedule)
        return _of_build(build, layer)
    assert not isinstance(model, Build)
    scheduling = given_options(schedule, ScheduleOptions, "schedule")
    network = read_network(model, read, layer)
    conv = pick_layer(chosen_convolutions(network, layer), layer, network.name)
    compiled = compile_shared(conv.problem, scheduling, timer_of(scheduling), tuned_of(conv.problem, scheduling))
    return Inspection(node=conv, compiled=compiled, options=scheduling)


def build_of(source: Model | Build) -> Build | None:
    """The build, where that is what is given: opened, or its folder; None for a model."""
    if isinstance(source, Build) or (isinstance(source, str | Path) and Path(source).is_dir()):
        return opened(source)
    return None


def check_settled(read: ReadOptions | None, schedule: ScheduleOptions | None) -> None:
    """InputError where options are given that a build folder has settled."""
    if (read or ReadOptions()) != ReadOptions() or (schedule or ScheduleOptions()) != ScheduleOptions():
        raise InputError("a build folder holds the options that its layers were compiled with: leave these options out")


def _of_build(build: Build, layer: str | None) -> Inspection:
    record = build.record(layer)
    text = read_text(build.path / "kernels" / record.kernel / "kernel.ptx", BuildError)
    options = build.network.schedule
    try:
        compiled = compile_shared(record.problem, options, timer_of(options), build.tuned(record))
    except (InputError, PlanError) as problem:
        raise BuildError(
            f"damaged: its options lead to no kernel: {problem.message}",
            where=f"{build.path / 'network.json'}, $.schedule",
            hint="compile the model again",
        ) from None
    edited = compiled.artifact.ptx != text and not build.written(record)
    return Inspection(node=record, compiled=compiled, options=options, written=text, edited=edited)
