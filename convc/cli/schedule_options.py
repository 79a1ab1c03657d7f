"""Options of the commands that plan kernels: one for each field of `ScheduleOptions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

Command = Callable[..., Any]


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
        # Imported when the help is asked for: no call needs the list.
        from convc.api.choices import schedule_choices

        return schedule_choices()[self.option]

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The choices, as click shows those of its own type; ``ctx`` comes with click 8.2."""
        return f"[{'|'.join(self.choices)}]"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The choices that begin so."""
        return [CompletionItem(choice) for choice in self.choices if choice.startswith(incomplete)]


def schedule_options(command: Command) -> Command:
    """``--schedule``, ``--shift``, ``--border``, ``--rows``, ``--store``, ``--columns``, ``--target`` and the rest."""
    words = "Let the timing engine decide among the candidates that are estimated best."
    command = click.option("--timed", is_flag=True, help=words)(command)
    command = click.option(
        "--dependent-launch", is_flag=True, help="Set a kernel up while the one in front of it runs."
    )(command)
    command = click.option(
        "--target",
        type=_ScheduleChoice("target"),
        default="sm_100a",
        show_default=True,
        help="The GPU that kernels are for: sm_100a (Blackwell) or sm_90a (Hopper).",
    )(command)
    command = click.option(
        "--ctas", type=click.IntRange(1), metavar="N", help="How many CTAs walk over tiles; by default one for each SM."
    )(command)
    command = click.option(
        "--persistent",
        type=_ScheduleChoice("persistent"),
        default="auto",
        show_default=True,
        help="CTAs walk over tiles, each epilogue behind the next K loop (auto: where the estimate is better).",
    )(command)
    command = click.option(
        "--split-k",
        type=_ScheduleChoice("split_k"),
        default="off",
        show_default=True,
        help="So many CTAs share the K loop of a tile (auto: where tiles leave SMs idle and the estimate is better).",
    )(command)
    for name, words in (
        ("columns", "Make filter columns channels: of rows that overlap, or by the host."),
        ("filters", "Give every filter tile a stage, or put it beside the activations that it meets (slide)."),
        ("store", "Store results from registers (direct), through shared memory and TMA (tma), or as is faster."),
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
