"""Arguments and options that several commands share, spelled once."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click


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

no_cache_option = click.option(
    "--no-cache",
    is_flag=True,
    help="Compile everything anew (CONVC_CACHE=off does too; CONVC_CACHE=DIR keeps it there).",
)


def jobs_options(command):
    """``--jobs`` and ``--executor``."""
    for name, words, more in (
        ("executor", "Where to work: processes of this machine, or dask://HOST:PORT.", {"metavar": "WHERE"}),
        (
            "jobs",
            "Processes to work in (1: this one); by default one per core where that is faster.",
            {"type": click.IntRange(1, 1024), "metavar": "N"},
        ),
    ):
        command = click.option(f"--{name}", help=words, **more)(command)
    return command


host_option = click.option(
    "--host",
    type=click.Choice(["reference", "onnxruntime"]),
    default="reference",
    show_default=True,
    help="Who runs the nodes of a network that are no convolutions: onnx.reference, or onnxruntime (faster).",
)

counts_option = click.option("--counts", is_flag=True, help="List everything that the machine counted.")


SCHEDULES = ("auto", "reload", "slide", "shift", "stationary")


def schedule_options(command):
    """``--schedule``, ``--shift``, ``--border`` and ``--rows``, given to the command as one ``options``."""

    @functools.wraps(command)
    def wrapped(*args, schedule: str, shift: str | None, border: str | None, rows: str | None, **others):
        from convc.compiler.options import ScheduleOptions

        return command(
            *args, options=ScheduleOptions(schedule=schedule, shift=shift, border=border, rows=rows), **others
        )

    for name, values, words in (
        ("rows", ("outer", "merged"), "One stream of pixels an output row, or one for all rows."),
        ("border", ("mask", "zero"), "Mask lanes whose pixel is padding, or let them hold a zero."),
        ("shift", ("chain", "ashift", "windows"), "How schedule shift moves rows: see `convc inspect`."),
    ):
        wrapped = click.option(f"--{name}", type=click.Choice(values), help=words)(wrapped)
    return click.option(
        "--schedule",
        type=click.Choice(SCHEDULES),
        default="auto",
        show_default=True,
        help="Load activations for every filter tap (reload), or share them between filter columns.",
    )(wrapped)


all_switches_option = click.option(
    "--all-switches",
    is_flag=True,
    help="Also run under every other setting of every switch, and say which of them the result depends on.",
)


class _SwitchOption(click.Option):
    """``--switch``: its help lists the switches, which are known where the machine is loaded."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help, with the switches and their settings."""
        from convc.machine.base.switches import CHOICES, OPEN

        listed = ", ".join(f"{name}={'|'.join(CHOICES[name])}" for name in OPEN)
        self.help = (
            f"Read what no public source settles in another way (see docs/fidelity.md); the default first: {listed}."
        )
        return super().get_help_record(ctx)


switch_option = click.option("--switch", "switches", cls=_SwitchOption, multiple=True, metavar="NAME=SETTING")


def layer_option(required: bool = False):
    """``--layer NAME``."""
    return click.option("--layer", metavar="NAME", required=required, help="One convolution of the model.")


json_option = click.option(
    "--json", "json_file", type=path_type, metavar="FILE", help="Write a JSON report (- is stdout)."
)


def report_options(command):
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
