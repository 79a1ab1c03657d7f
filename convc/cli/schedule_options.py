"""Options of the commands that plan kernels: one for each field of `ScheduleOptions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from convc.api.options import AUTO, Option, ScheduleOptions
from convc.api.options import options as schedule_table
from convc.cli.choice import ParamType

Command = Callable[..., Any]


class _ScheduleChoice(ParamType):
    """A field of `ScheduleOptions`: what it may be is asked of the compiler where the help is shown.

    The planner refuses other values. A kernel that is found in the cache needs no planner, so none is loaded for it.
    """

    name = "schedule choice"

    def __init__(self, option: str) -> None:
        self.option = option

    @property
    def choices(self) -> tuple[str, ...]:
        """Everything that the option may be."""
        # Imported when the help is asked for: no call needs the list.
        from convc.api.choices import schedule_choices

        return schedule_choices()[self.option]

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The choices, as click shows those of its own type; ``ctx`` comes with click 8.2."""
        return f"[{'|'.join(self.choices)}]"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The choices that begin so."""
        return [CompletionItem(choice) for choice in self.choices if choice.startswith(incomplete)]


class _Count(click.IntRange):
    """A number, or ``auto``."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or ``auto`` as it is."""
        return value if value == AUTO else super().convert(value, param, ctx)


def schedule_options(command: Command) -> Command:
    """An option for each row of the table, in its order."""
    defaults = ScheduleOptions()
    for name, option in reversed([*schedule_table().items()]):
        default = getattr(defaults, name)
        command = click.option(*_spelling(name), **_kind(name, option), default=default, help=_help(option))(command)
    return command


def _spelling(name: str) -> tuple[str, str]:
    """The option as it is typed, and its field."""
    return f"--{name.replace('_', '-')}", name


def _kind(name: str, option: Option) -> dict[str, Any]:
    """What click takes for a row: a choice, a number or a switch."""
    if option.most is not None:
        return {"type": _Count(1, option.most), "metavar": "N|auto", "show_default": True}
    if option.values:
        return {"type": _ScheduleChoice(name), "show_default": True}
    return {"is_flag": True}


def _help(option: Option) -> str:
    """The sentence of the help: what the option is, and what ``auto`` is."""
    auto = option.values.get(AUTO)
    return option.help if auto is None else f"{option.help} auto: {auto}."
