"""Commands whose options of one value may come once.

Click takes the last of several values, so that ``--chip b200 --chip h200`` would drop one without a word.
"""

from __future__ import annotations

import collections

import click


class OnceCommand(click.Command):
    """A command that refuses a second value of an option, unless the option collects values (`multiple`)."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does; `click.UsageError` where a value would replace another one."""
        _, _, order = self.make_parser(ctx).parse_args([*args])
        for param, count in collections.Counter(order).items():
            takes_one = isinstance(param, click.Option) and not (param.is_flag or param.multiple or param.count)
            if takes_one and count > 1:
                times = "twice" if count == 2 else f"{count} times"
                raise click.UsageError(f"{max(param.opts, key=len)} takes one value and is given {times}.", ctx)
        return super().parse_args(ctx, args)
