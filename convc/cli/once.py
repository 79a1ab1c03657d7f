"""Groups of commands that guess a misspelt name, and in which options of one value may come once.

Click takes the last of several values, so that ``--chip b200 --chip h200`` would drop one without a word.
"""

from __future__ import annotations

import collections
import shlex
from collections.abc import Sequence

import click

from convc.api.options import RENAMED
from convc.support.guessing import nearest


class OnceGroup(click.Group):
    """A group of commands, as the module says."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called, with its options once each; the nearest is guessed where there is none."""
        if ctx.resilient_parsing:  # a shell completes half a line, which may have mistakes still
            return super().resolve_command(ctx, args)
        names = self.list_commands(ctx)
        near = nearest(args[0], names)
        if args[0] not in names:
            refuse_old_command(ctx, args)
        if args[0] in names or near is None:
            name, command, rest = super().resolve_command(ctx, args)
            if command is not None:
                called = click.Context(command, info_name=name, parent=ctx)
                refuse_old_names(called, rest)
                refuse_second_values(called, rest)
            return name, command, rest
        return ctx.fail(f"No such command {args[0]!r}. Did you mean {near!r}?")


def refuse_second_values(ctx: click.Context, args: list[str]) -> None:
    """Refuse a second value of an option, unless the option collects values (`multiple`).

    Args:
        ctx: of the command that is called.
        args: behind its name.

    Raises:
        click.UsageError: a value would replace another one, or the arguments are none that click takes.
    """
    _, _, order = ctx.command.make_parser(ctx).parse_args([*args])
    for param, count in collections.Counter(order).items():
        takes_one = isinstance(param, click.Option) and not (param.is_flag or param.multiple or param.count)
        if takes_one and count > 1:
            times = "twice" if count == 2 else f"{count} times"
            raise click.UsageError(f"{max(param.opts, key=len)} takes one value and is given {times}.", ctx)


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
