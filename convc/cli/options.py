"""Arguments and options that several commands share, spelled once, and the records that they become."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import click

from convc.api.options import By, MachineOptions, ReadOptions, ScheduleOptions, WorkOptions
from convc.cli.choice import DTYPES, FLOAT_NAMES, Choice
from convc.cli.failures import answering
from convc.cli.files import check_there, note_file
from convc.cli.schedule_options import schedule_options
from convc.cli.streams import model_source
from convc.support.visible import visible

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

    @functools.wraps(command)
    def telling(**options: Any) -> Any:
        chosen = options["chosen"]
        options["chosen"] = dataclasses.replace(chosen, read=dataclasses.replace(chosen.read, say=_say))
        return command(**options)

    return collected("chosen", Chosen)(telling)


def _say(sentence: str) -> None:
    """Note on stderr what was taken for something that the model leaves open."""
    click.echo(f"note: {visible(sentence)}", err=True)


def collected(keyword: str, record: type[Any]) -> Callable[[Command], Command]:
    """Give a command the options that are called as the fields of a record as that record, in one argument.

    Fields that are records themselves are made of options in the same way.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(**options: Any) -> Any:
            check_there()
            taken = _taken(record, options)
            return command(**options, **{keyword: taken})

        return wrapped

    return decorate


def _taken(record: type[Any], options: dict[str, Any]) -> Any:
    values = {}
    for each in dataclasses.fields(record):
        inner = each.default_factory
        if isinstance(inner, type) and dataclasses.is_dataclass(inner):
            values[each.name] = _taken(inner, options)
        elif each.name in options:
            values[each.name] = options.pop(each.name)
    return record(**values)


class _FilePath(click.Path):
    """A path whose name can stand in a report; the files that a call writes are none of those that it reads."""

    def __init__(self, written: bool = False, needed: bool = True) -> None:
        super().__init__(path_type=Path)
        self.written = written
        self.needed = needed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("expected the name of a file or folder, got an empty text", param, ctx)
        path = super().convert(value, param, ctx)
        try:
            str(path).encode()
        except UnicodeEncodeError:
            self.fail("the name is not valid UTF-8", param, ctx)
        if ctx is not None:
            note_file(ctx, Path(os.fsdecode(path)), self.written, self.needed)
        return path


def noted_files(written: bool) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], tuple[str, ...]]:
    """A callback of an option that takes ``[NAME=]FILE``: its files are remembered as those of `path_type` are."""

    def remember(ctx: click.Context, param: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
        for value in names:
            _, equals, after = value.partition("=")
            file = value if not equals or Path(value).exists() else after
            if not file:
                raise click.BadParameter("expected the name of a file, got an empty text", ctx, param)
            note_file(ctx, Path(file), written)
        return names

    return remember


def inputs_option(text: str) -> Callable[[Command], Command]:
    """``--input [NAME=]X``, any number of them; ``text``: its help."""
    noted = noted_files(False)
    return click.option("--input", "inputs", multiple=True, callback=noted, metavar="[NAME=]X", help=text)


def outputs_option(text: str) -> Callable[[Command], Command]:
    """``-o [NAME=]Y``, any number of them; ``text``: its help."""
    noted = noted_files(True)
    return click.option("-o", "--output", "outputs", multiple=True, callback=noted, metavar="[NAME=]Y", help=text)


path_type = _FilePath()
"""A file or folder that is read."""

each_type = _FilePath(needed=False)
"""One of several files or folders that are read: where it is not there, the others are."""

target_type = _FilePath(written=True)
"""A file or folder that is written; ``-`` is stdout where the option says so."""


def read_model_argument(ctx: click.Context, param: click.Parameter, path: Path | None) -> Any:
    """The file of a model; for ``-`` the model that stdin holds."""
    return path if path is None else model_source(path)


batch_option = click.option(
    "--batch", type=click.IntRange(min=0), metavar="N", help="Batch size, where the model leaves it open."
)


def _shapes(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Shapes by the name of the input, which may have colons in it; `click.BadParameter` for what is none."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in (part for value in words for part in value.split(",")):
        name, colon, extents = text.rpartition(":")
        numbers = extents.split("x")
        if not colon or not name or not all(number.isascii() and number.isdigit() for number in numbers):
            raise click.BadParameter(f"expected NAME:1x3x224x224, got {text!r}", ctx, param)
        if name in shapes:
            raise click.BadParameter(f"the input {name!r} comes twice", ctx, param)
        if any(len(number) > 18 for number in numbers):
            raise click.BadParameter(f"an extent of {text!r} is too large", ctx, param)
        shapes[name] = tuple(int(number) for number in numbers)
    if shapes and ctx.params.get("batch") is not None:
        raise click.UsageError("--batch and --shape both set the number of images: give one of them.")
    return shapes


shape_option = click.option(
    "--shape",
    "shapes",
    multiple=True,
    callback=_shapes,
    metavar="NAME:1x3x8x8",
    help="Shape of an input, where the model leaves it open; may be repeated.",
)
dtype_option = click.option(
    "--dtype",
    type=Choice(DTYPES, FLOAT_NAMES),
    help="Operand type, in place of the model's (float32 models run as tf32); the last three are block-scaled.",
)

precision_option = click.option(
    "--precision",
    type=Choice(["tf32", "bf16x3", "bf16x6", "tf32x3"]),
    help="How float32 is multiplied: as tf32 (the default), or split into 3 or 6 products of parts.",
)

fuse_option = click.option(
    "--no-fuse",
    "fuse",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Do not fuse BatchNormalization, activations and residuals into the kernels.",
)

gradient_option = click.option(
    "--gradient",
    type=Choice(get_args(By)),
    help="Compile the gradients of the convolutions: by their input (dgrad), their weights (wgrad), or both.",
)

accumulate_option = click.option(
    "--accumulate",
    is_flag=True,
    help="With --gradient: add each gradient to the one that there is, in the kernel's epilogue (beta = 1).",
)

numerics_option = click.option(
    "--numerics",
    type=Choice(["float32", "exact"]),
    help="How the tensor core adds: float32 (fast; the default, except for launch), or exact, as measured on hardware.",
)

max_instructions_option = click.option(
    "--max-instructions",
    type=click.IntRange(min=1),
    metavar="N",
    help="Instruction limit per warp; a kernel beyond it is stopped (10,000,000).",
)


def _cache_setting(ctx: click.Context, param: click.Parameter, switched_off: bool) -> bool | None:
    """`WorkOptions.cache` as ``--no-cache`` says."""
    return False if switched_off else None


no_cache_option = click.option(
    "--no-cache",
    "cache",
    is_flag=True,
    callback=_cache_setting,
    help="Do not use the compile cache (CONVC_CACHE=off does the same; CONVC_CACHE=DIR sets its folder).",
)


def jobs_options(command: Command) -> Command:
    """``--jobs`` and ``--executor``."""
    command = click.option(
        "--executor", metavar="WHERE", help="Where to run: processes of this machine, or dask://HOST:PORT."
    )(command)
    return click.option(
        "--jobs",
        type=click.IntRange(1, 1024),
        metavar="N",
        help="Number of processes (1: this one); by default one per core where that is faster.",
    )(command)


host_option = click.option(
    "--host",
    type=Choice(["auto", "onnxruntime", "reference"]),
    default="auto",
    show_default=True,
    help="Runtime of the other nodes; auto: onnxruntime where it is installed, else onnx.reference.",
)

counts_option = click.option("--counts", is_flag=True, help="List all counters of the simulator.")

wide_option = click.option("--wide", is_flag=True, help="All columns of the table, each layer in one line.")


def model_options(command: Command) -> Command:
    """Options that say how a model is read, ``--batch`` to ``--accumulate``, and those of the schedule."""
    reading = (fuse_option, precision_option, dtype_option, shape_option, batch_option)
    for option in (schedule_options, accumulate_option, gradient_option, *reading):
        command = option(command)
    return command


all_switches_option = click.option(
    "--all-switches",
    is_flag=True,
    help="Also run with every other setting of every switch, and list those that change the result.",
)


strict_option = click.option(
    "--strict",
    is_flag=True,
    help="Also exit with 1 for a broken rule of the manual without effect on any run (verdict rule).",
)


class _SwitchOption(click.Option):
    """``--switch``: its help lists the switches, which are known where the simulator is loaded."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help, with the switches and their settings."""
        # Imported when the help is asked for: every command has options, and few of them need the simulator.
        from convc.machine.base.switches import CHOICES, OPEN

        listed = ", ".join(f"{name}={'|'.join(CHOICES[name])}" for name in OPEN)
        self.help = f"Set a rule that no public source specifies (docs/fidelity.md); the default first: {listed}."
        return super().get_help_record(ctx)


def switch_option(command: Command) -> Command:
    """``--switch NAME=SETTING``, any number of them, as ``switches``."""
    return click.option("--switch", "switches", cls=_SwitchOption, multiple=True, metavar="NAME=SETTING")(command)


layer_option = click.option("--layer", metavar="NAME", help="One convolution of the model: its name, or a pattern.")


Layers = tuple[str, ...] | None
"""Names or patterns of layers; None for all layers."""


def _layer_names(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> Layers:
    """Names, or None for all layers."""
    return words or None


layers_option = click.option(
    "--layer",
    metavar="NAME",
    multiple=True,
    callback=_layer_names,
    help="Only this layer: its name, or a pattern such as 'layer1.*'; may be repeated.",
)


def json_option(command: Command, text: str = "Write a JSON report (- is stdout).") -> Command:
    """``--json FILE`` as ``json_file``, where an error goes too that the command ends with; ``text``: its help."""
    return click.option("--json", "json_file", type=target_type, metavar="FILE", help=text)(answering(command))


def report_options(command: Command) -> Command:
    """``--json FILE`` and ``--sarif FILE``, as ``json_file`` and ``sarif_file``."""
    text = "Write the findings as SARIF 2.1.0 (- is stdout)."
    command = click.option("--sarif", "sarif_file", type=target_type, metavar="FILE", help=text)(command)
    return json_option(command, "Write the findings as JSON (- is stdout).")
