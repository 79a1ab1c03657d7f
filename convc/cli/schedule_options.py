"""Options of the commands that plan kernels: one for each field of `ScheduleOptions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

Command = Callable[..., Any]

CHOICES: tuple[tuple[str, str | None, str], ...] = (
    ("schedule", "auto", "Load activations for every filter tap (reload), or share them between filter columns."),
    ("shift", None, "How schedule shift moves rows: see `convc inspect`."),
    ("border", None, "Mask lanes whose pixel is padding, or let them hold a zero."),
    ("rows", None, "One stream of pixels an output row, or one for all rows."),
    ("store", None, "Store results from registers (direct), through shared memory and TMA (tma), or as is faster."),
    (
        "residual_load",
        None,
        "Let the threads that add a residual read it (direct), or copies bring it ahead (tma).",
    ),
    ("filters", None, "Give every filter tile a stage, or put it beside the activations that it meets (slide)."),
    ("columns", None, "Make filter columns channels: of rows that overlap, or by the host."),
    (
        "persistent",
        "auto",
        "CTAs walk over tiles, each epilogue behind the next K loop (auto: where the estimate is better).",
    ),
    (
        "work",
        "static",
        "Persistent CTAs take tiles by their number, or ask for those whose CTAs have not begun (fetched).",
    ),
    (
        "pairs",
        "auto",
        "Two CTAs multiply as one, each with half of the filter tile (auto: where the estimate is better).",
    ),
    (
        "split_k",
        None,
        "So many CTAs share the K loop of a tile (auto: where tiles leave SMs idle and the estimate is better; off for "
        "sm_90a by default).",
    ),
    (
        "multicast",
        "off",
        "CTAs of a cluster of so many tiles load for each other (auto: where the estimate is better).",
    ),
    (
        "tile_order",
        "auto",
        "In which order tiles are made (auto: along M first, or what moves fewest bytes where L2 does not hold all).",
    ),
    (
        "cache_hints",
        None,
        "Copies say what L2 should keep and what it may lose (auto: where it does not hold all of a launch).",
    ),
    (
        "registers",
        "auto",
        "Warps that load hand registers over to those that multiply (auto: on sm_90a, where these want more).",
    ),
    ("target", "sm_100a", "The GPU that kernels are for: sm_100a (Blackwell) or sm_90a (Hopper)."),
)
"""Options with a choice, in the order of the help: name, default where the command line has one, and what it says."""


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
        "--ctas",
        type=click.IntRange(1, (1 << 31) - 1),
        metavar="N",
        help="How many CTAs walk over tiles, with --persistent on; by default one for each SM.",
    )(command)
    for name, default, words in reversed(CHOICES):
        shown = default is not None
        command = click.option(
            f"--{name.replace('_', '-')}", type=_ScheduleChoice(name), default=default, show_default=shown, help=words
        )(command)
    return command
