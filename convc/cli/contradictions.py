"""Words of a call that do not go together: options that would change nothing are refused, not ignored."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from pathlib import Path

import click
from click.core import ParameterSource

from convc.api.options import ReadOptions, ScheduleOptions

MODEL_OPTIONS = frozenset(
    (*(field.name for record in (ReadOptions, ScheduleOptions) for field in dataclasses.fields(record)), "cache")
)
"""Parameters that say how a model is read, scheduled and kept: a kernel that is there has settled them."""


def refuse_given(because: str, parameters: Collection[str] | None = None, *, but: Collection[str] = ()) -> None:
    """Refuse options that the current call gives though they would change nothing.

    Args:
        because: why they would not, as the beginning of the message.
        parameters: of the command, by their names in Python; None: all of its options.
        but: parameters that are left alone.

    Raises:
        click.UsageError: some are given; it names all of them.
    """
    ctx = click.get_current_context()
    given = [
        max(param.opts, key=len)
        for param in ctx.command.params
        if isinstance(param, click.Option)
        and param.name not in but
        and (parameters is None or param.name in parameters)
        and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(f"{because}: leave {', '.join(given)} out.")


def check_order(kernel: object, launch: Path | None) -> None:
    """Raise click.UsageError where a kernel and its launch file come in the wrong order."""
    if launch is not None and launch.suffix == ".ptx" and isinstance(kernel, Path) and kernel.suffix == ".json":
        raise click.UsageError("KERNEL.ptx comes first, then LAUNCH.json.")
