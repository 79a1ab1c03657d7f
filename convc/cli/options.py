"""Arguments and options that several commands share, spelled once, and the records that they become."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from convc.api.options import MachineOptions, ReadOptions, ScheduleOptions, WorkOptions

Command = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """The workers of a call; by default a process per core where that is faster."""

    jobs: int | None = None
    executor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The options of a call, in the records that the verbs take; the rest has its defaults.

    ``workers`` come first and take their options: for the verbs they become a pool.
    """

    read: ReadOptions = field(default_factory=ReadOptions)
    schedule: ScheduleOptions = field(default_factory=ScheduleOptions)
    machine: MachineOptions = field(default_factory=MachineOptions)
    workers: Workers = field(default_factory=Workers)
    work: WorkOptions = field(default_factory=WorkOptions)


def chosen_options(command: Command) -> Command:
    """Give a command its options as one argument ``chosen``: options go by the names of the fields of the records."""
    return collected("chosen", Chosen)(command)


def collected(keyword: str, record: type[Any]) -> Callable[[Command], Command]:
    """Give a command the options that are called as the fields of a record as that record, in one argument.

    Fields that are records themselves are made of options in the same way.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(**given: Any) -> Any:
            made = _taken(record, given)
            return command(**given, **{keyword: made})

        return wrapped

    return decorate


def _taken(record: type[Any], given: dict[str, Any]) -> Any:
    """A record of what is given for its fields, which is taken away from there."""
    values = {}
    for each in dataclasses.fields(record):
        inner = each.default_factory
        if isinstance(inner, type) and dataclasses.is_dataclass(inner):
            values[each.name] = _taken(inner, given)
        elif each.name in given:
            values[each.name] = given.pop(each.name)
    return record(**values)


class _FilePath(click.Path):
    """A path whose name can stand in a report."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        try:
            str(path).encode()
        except UnicodeEncodeError:
            self.fail("the name is not valid UTF-8", param, ctx)
        return path


path_type = _FilePath(path_type=Path)

model_argument = click.argument("model", type=path_type)

batch_option = click.option(
    "--batch", type=click.IntRange(min=1), metavar="N", help="Images, where the model leaves the batch open."
)
dtype_option = click.option(
    "--dtype",
    type=click.Choice(["f16", "bf16", "tf32", "e4m3", "e5m2", "mxfp8", "mxfp4", "nvfp4"]),
    help="Operand type, in place of the model's (float32 models run as tf32); the last three share scale factors.",
)

precision_option = click.option(
    "--precision",
    type=click.Choice(["tf32", "bf16x3", "bf16x6", "tf32x3"]),
    help="How float32 is multiplied: once as tf32 (the default), or in parts that come near to float32.",
)

fuse_option = click.option(
    "--no-fuse",
    "fuse",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Leave BatchNormalization, activations and residuals out of the kernels.",
)

numerics_option = click.option(
    "--numerics",
    type=click.Choice(["float32", "exact"]),
    default="float32",
    show_default=True,
    help="How the tensor core adds: fast, or as measured on hardware (one truncated sum per instruction).",
)


def _cache_setting(ctx: click.Context, param: click.Parameter, switched_off: bool) -> bool | None:
    """`WorkOptions.cache` as ``--no-cache`` says."""
    return False if switched_off else None


no_cache_option = click.option(
    "--no-cache",
    "cache",
    is_flag=True,
    callback=_cache_setting,
    help="Compile everything anew (CONVC_CACHE=off does too; CONVC_CACHE=DIR keeps it there).",
)


def jobs_options(command: Command) -> Command:
    """``--jobs`` and ``--executor``."""
    command = click.option(
        "--executor", metavar="WHERE", help="Where to work: processes of this machine, or dask://HOST:PORT."
    )(command)
    return click.option(
        "--jobs",
        type=click.IntRange(1, 1024),
        metavar="N",
        help="Processes to work in (1: this one); by default one per core where that is faster.",
    )(command)


host_option = click.option(
    "--host",
    type=click.Choice(["reference", "onnxruntime"]),
    default="reference",
    show_default=True,
    help="Who runs the nodes of a network that are no convolutions: onnx.reference, or onnxruntime (faster).",
)

counts_option = click.option("--counts", is_flag=True, help="List everything that the machine counted.")


wide_option = click.option("--wide", is_flag=True, help="All columns of the table, each layer in one line.")


class _ScheduleChoice(click.ParamType):
    """A field of `ScheduleOptions`: what it may be is asked of the compiler where the help is shown.

    The planner refuses other values. A kernel that is found in the cache needs no planner, so none is loaded for it.
    """

    name = "schedule choice"

    def __init__(self, option: str) -> None:
        self.option = option

    @property
    def choices(self) -> tuple[str, ...]:
        """Everything that the option may be."""
        # Imported when the help is asked for: the schedules bring the planner and its algebra.
        from convc.api.choices import schedule_choices

        return schedule_choices()[self.option]

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The choices, as click shows those of its own type; ``ctx`` comes with click 8.2."""
        return f"[{'|'.join(self.choices)}]"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The choices that begin so."""
        return [CompletionItem(choice) for choice in self.choices if choice.startswith(incomplete)]


def schedule_options(command: Command) -> Command:
    """``--schedule``, ``--shift``, ``--border`` and ``--rows``: the fields of `ScheduleOptions`."""
    for name, words in (
        ("rows", "One stream of pixels an output row, or one for all rows."),
        ("border", "Mask lanes whose pixel is padding, or let them hold a zero."),
        ("shift", "How schedule shift moves rows: see `convc inspect`."),
    ):
        command = click.option(f"--{name}", type=_ScheduleChoice(name), help=words)(command)
    return click.option(
        "--schedule",
        type=_ScheduleChoice("schedule"),
        default="auto",
        show_default=True,
        help="Load activations for every filter tap (reload), or share them between filter columns.",
    )(command)


all_switches_option = click.option(
    "--all-switches",
    is_flag=True,
    help="Also run under every other setting of every switch, and say which of them the result depends on.",
)


class _SwitchOption(click.Option):
    """``--switch``: its help lists the switches, which are known where the machine is loaded."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help, with the switches and their settings."""
        # Imported when the help is asked for: every command has options, and few of them need the machine.
        from convc.machine.base.switches import CHOICES, OPEN

        listed = ", ".join(f"{name}={'|'.join(CHOICES[name])}" for name in OPEN)
        self.help = (
            f"Read what no public source settles in another way (see docs/fidelity.md); the default first: {listed}."
        )
        return super().get_help_record(ctx)


def switch_option(command: Command) -> Command:
    """``--switch NAME=SETTING``, any number of them, as ``switches``."""
    return click.option("--switch", "switches", cls=_SwitchOption, multiple=True, metavar="NAME=SETTING")(command)


layer_option = click.option("--layer", metavar="NAME", help="One convolution of the model: its name, or a pattern.")


Layers = tuple[str, ...] | None
"""Names or patterns of layers; None for all layers."""


def _layer_names(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> Layers:
    """Names, or None for all layers."""
    return given or None


layers_option = click.option(
    "--layer",
    metavar="NAME",
    multiple=True,
    callback=_layer_names,
    help="Only this layer: its name, or a pattern such as 'layer1.*'; may be given several times.",
)


json_option = click.option(
    "--json", "json_file", type=path_type, metavar="FILE", help="Write a JSON report (- is stdout)."
)


def report_options(command: Command) -> Command:
    """``--json FILE`` and ``--sarif FILE``, as ``json_file`` and ``sarif_file``."""
    for name, words in (("sarif", "as SARIF 2.1.0"), ("json", "as JSON")):
        command = click.option(
            f"--{name}",
            f"{name}_file",
            type=path_type,
            metavar="FILE",
            help=f"Write the findings {words} (- is stdout).",
        )(command)
    return command
