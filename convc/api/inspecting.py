"""The verb `inspect`: one layer with every stage of its compilation, and the page that explains them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from convc.api.arguments import given_options
from convc.api.inputs import opened
from convc.api.models import Model, chosen_convolutions, read_network
from convc.api.options import ReadOptions, ScheduleOptions
from convc.api.working import timer_of
from convc.build.folder import Build, LayerRecord
from convc.build.selection import pick_layer
from convc.compiler.compile import Compiled, compile_problem
from convc.compiler.kernels import compile_shared, shared_problem
from convc.compiler.plan.records import Plan
from convc.compiler.tile.program import TileProgram
from convc.errors import BuildError, InputError, PlanError
from convc.explain.inspect import About, print_inspection
from convc.explain.tiles import Tiles, plan_tiles
from convc.ir.launch import LaunchSpec
from convc.ir.network import ConvNode
from convc.ir.problem import ConvProblem
from convc.layout.device_layout import DeviceLayout
from convc.report.console import page_text
from convc.support.files import read_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One layer and how its kernel came about; `print` shows what ``convc inspect`` shows.

    Attributes:
        node: the convolution as the model has it (tensors, and what was fused into it), or the record of a build.
        compiled: every stage of its compilation.
        found: the kernel's text in the build folder; None where the layer comes from a model.
    """

    node: ConvNode | LayerRecord
    compiled: Compiled
    found: str | None = None

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
        """The kernel's PTX; of a build, as its folder has it."""
        return self.compiled.artifact.ptx if self.found is None else self.found

    @property
    def launch(self) -> LaunchSpec:
        """The launch of the kernel."""
        return self.compiled.artifact.launch

    @property
    def tiles(self) -> Tiles:
        """The kernel's tiles with all that can be shown of them: derivation, lanes, masks and claims."""
        return plan_tiles(self.plan)

    @property
    def about(self) -> About:
        """Facts about the layer that its kernel does not know."""
        return About(name=self.node.name, fused=self.node.fused, text=self.found)

    def _repr_svg_(self) -> str:
        """A tile inside the image, at its first filter column, for notebooks."""
        # Imported when a notebook shows it: a page is text.
        from convc.draw.tile import tile_picture

        return tile_picture(self.tiles.typical(), 0).svg()

    def __str__(self) -> str:
        return page_text(lambda console: print_inspection(console, self.compiled, self.about))

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

    Of a build folder, the layer is compiled once more as its plan says, and the text is the folder's.

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
    compiled = compile_shared(conv.problem, scheduling, timer_of(scheduling))
    return Inspection(node=conv, compiled=compiled)


def build_of(source: Model | Build) -> Build | None:
    """The build, where that is what is given: opened, or its folder; None for a model."""
    if isinstance(source, Build) or (isinstance(source, str | Path) and Path(source).is_dir()):
        return opened(source)
    return None


def check_settled(read: ReadOptions | None, schedule: ScheduleOptions | None) -> None:
    """InputError where options are given that a build folder has settled."""
    if (read or ReadOptions()) != ReadOptions() or (schedule or ScheduleOptions()) != ScheduleOptions():
        raise InputError("a build folder has settled how its layers are read and scheduled: leave the options out")


def _of_build(build: Build, layer: str | None) -> Inspection:
    """A layer of a build, compiled as its plan says."""
    record = build.record(layer)
    folder = build.path / "kernels" / record.kernel
    text = read_text(folder / "kernel.ptx", BuildError)
    compiled = compile_shared(record.problem)
    plan = folder / "plan.json"
    if compiled.artifact.ptx != text and plan.is_file():
        # Not what the planner takes by itself: somebody fixed the schedule, let the engine choose, or changed the text.
        options, block_n = _as_planned(plan.read_bytes())
        with suppress(PlanError):  # a plan that somebody changed leads nowhere
            compiled = compile_problem(shared_problem(record.problem), options=options, block_n=block_n)
    return Inspection(node=record, compiled=compiled, found=text)


class _Name(msgspec.Struct):
    name: str
    variant: str = ""


class _Walk(msgspec.Struct):
    border: str


class _Stream(msgspec.Struct):
    merged: bool


class _Reuse(msgspec.Struct):
    walk: _Walk
    stream: _Stream


class _Indexing(msgspec.Struct):
    reuse: _Reuse | None


class _Target(msgspec.Struct):
    name: str


class _Results(msgspec.Struct):
    name: str


class _Storage(msgspec.Struct):
    results: _Results | None = None
    residual: _Results | None = None


class _Tiling(msgspec.Struct):
    block_n: int
    b_columns: int = 1
    multicast: tuple[int, int] = (1, 1)


class _Order(msgspec.Struct):
    name: str = "auto"


class _Hints(msgspec.Struct):
    activations: str | None = None
    filters: str | None = None
    residual: str | None = None


class _Launch(msgspec.Struct):
    grid: tuple[int, int, int]
    persistent: bool = False
    fetched: bool = False
    dependent: bool = False
    cluster: tuple[int, int, int] = (1, 1, 1)
    order: _Order = msgspec.field(default_factory=_Order)
    hints: _Hints = msgspec.field(default_factory=_Hints)


class _Layout(msgspec.Struct):
    columns: str


class _Planned(msgspec.Struct):
    layout: _Layout
    schedule: _Name
    arch: _Target
    storage: _Storage
    launch: _Launch
    indexing: _Indexing
    tiling: _Tiling


def _as_planned(plan: bytes) -> tuple[ScheduleOptions, int | None]:
    """The options and the width that lead to a plan; all where it is damaged, or one of another version."""
    try:
        read = msgspec.json.decode(plan, type=_Planned)
    except msgspec.MsgspecError:
        return ScheduleOptions(), None
    reuse = read.indexing.reuse
    options = ScheduleOptions(
        schedule=read.schedule.name,
        shift=read.schedule.variant or None,
        target=read.arch.name,
        store=None if read.storage.results is None else "tma",
        residual_load=None if read.storage.residual is None else "tma",
        persistent="on" if read.launch.persistent else "off",
        pairs="on" if read.launch.cluster[0] > read.tiling.multicast[0] else "off",
        ctas=read.launch.grid[0] if read.launch.persistent and not read.launch.fetched else None,
        work="fetched" if read.launch.fetched else "static",
        columns=read.layout.columns,
        dependent_launch=read.launch.dependent,
        split_k="off" if read.launch.cluster[2] == 1 else str(read.launch.cluster[2]),
        multicast="off" if read.tiling.multicast == (1, 1) else "x".join(map(str, read.tiling.multicast)),
        tile_order=read.launch.order.name,
        cache_hints="on" if read.launch.hints != _Hints() else "off",
    )
    if reuse is None:
        return options, read.tiling.block_n
    options = replace(
        options,
        border=reuse.walk.border,
        rows="merged" if reuse.stream.merged else "outer",
        filters="together" if read.tiling.b_columns > 1 else "apart",
    )
    return options, read.tiling.block_n
