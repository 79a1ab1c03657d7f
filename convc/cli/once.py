"""Options of one value may come once.

Click takes the last of several values, so that ``--chip b200 --chip h200`` would drop one without a word.
"""

from __future__ import annotations

import collections

import click


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
