"""Options that have another name now: who types the old one is told the new one, in the command that was meant."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from convc.api.options import RENAMED

_COMMANDS = {"tile-order": "rasterization-order"}
_OPTIONS = {f"--{old.replace('_', '-')}": new for old, new in RENAMED.items()}


def refuse_old_command(ctx: click.Context, args: Sequence[str]) -> None:
    """Raise click.UsageError for a command by its old name; ``args`` begin with it."""
    new = _COMMANDS.get(args[0])
    if new is not None:
        raise click.UsageError(f"{args[0]} is called {new}: {shlex.join([*ctx.command_path.split(), new, *args[1:]])}")


def refuse_old_names(ctx: click.Context, args: Sequence[str]) -> None:
    """Refuse an option by its old name.

    Args:
        ctx: of the command that is called.
        args: behind its name.

    Raises:
        click.UsageError: one is there; it names the new option, and the whole command with it.
    """
    options = {name for param in ctx.command.params for name in param.opts}
    words: list[str] = []
    told = ""
    renamed = None
    for word in args:
        name, equals, value = word.partition("=")
        found = _OPTIONS.get(name)
        if found is not None and f"--{found.name.replace('_', '-')}" in options:
            renamed = found
            new = f"--{found.name.replace('_', '-')}"
            told = told or f"{name} is called {new}"
            words.append(f"{new}={found.value(value)}" if equals else new)
        elif renamed is not None and not word.startswith("-"):
            words.append(renamed.value(word))
            renamed = None
        else:
            words.append(word)
            renamed = None
    if told:
        raise click.UsageError(f"{told}: {shlex.join([*ctx.command_path.split(), *words])}", ctx)
