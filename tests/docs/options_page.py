"""The page ``options.md``, made from the table of options and the rows of conflicts."""

from __future__ import annotations

from convc.compiler.options import AUTO, Option, ScheduleOptions, options
from convc.compiler.planner.conflicts import GIVEN, Conflict, choices, conflicts

HEAD = """# Options of a schedule

The commands that plan kernels (compile, verify, inspect, time, tune, draw, report) take these options, and
`convc.ScheduleOptions` has a field for each: `--split-k 2` is `ScheduleOptions(split_k="2")`. `auto` means the same
everywhere: the planner decides. A build folder records the options that it was compiled with.
[schedules.md](schedules.md) explains them.

This page is generated from `convc/compiler/options.py` and `convc/compiler/planner/conflicts.py`
(`tests/docs/test_options.py --update-golden`); [add_an_option.md](add_an_option.md) adds one.
"""

TABLE = "\n## Values\n\n| option | value | meaning | applies to |\n| --- | --- | --- | --- |\n"

EXCLUDED = """
## Conflicts

Conflicting options, and options without the ones that they need, are refused (exit 2).

| option | excludes, or needs | reason |
| --- | --- | --- |
"""


def page() -> str:
    """The text of the page."""
    rows = "".join(_rows(name, option) for name, option in options().items())
    return HEAD + TABLE + rows + EXCLUDED + "".join(map(_conflict, conflicts()))


def _spelled(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _rows(name: str, option: Option) -> str:
    """What an option is, then a line for each of its values, the default first."""
    default = str(getattr(ScheduleOptions(), name))
    kind = "" if option.values and option.most is None else " N" if option.most else ", a switch"
    lines = [f"| `{_spelled(name)}`{kind} | | {option.help} | {option.applies} |"]
    for value, meaning in sorted(option.values.items(), key=lambda item: item[0] != default):
        shown = f"`{value}`, the default" if value == default else f"`{value}`"
        lines.append(f"| | {shown} | {meaning} | |")
    return "\n".join(lines) + "\n"


def _conflict(row: Conflict) -> str:
    """A row of the second table."""
    excluded = f"needs `{_with_dashes(row.needs)}`" if row.needs else _values(row.other, row.excluded)
    return f"| {_values(row.option, row.values)} | {excluded} | {row.why} |\n"


def _with_dashes(needs: str) -> str:
    """An option with its value as it is typed."""
    name, _, value = needs.partition(" ")
    return f"{_spelled(name)} {value}"


def _values(name: str, values: tuple[str, ...]) -> str:
    """An option with some of its values."""
    if values == (GIVEN,):
        return f"`{_spelled(name)}`"
    known = [value for value in choices().get(name, ()) if value != AUTO]
    listed = sorted(values, key=lambda value: known.index(value) if value in known else -1)
    return f"`{_spelled(name)}` {', '.join(listed)}"
