"""The table of options in `commands.md` names the commands that have each of them, and the page names every option."""

from __future__ import annotations

import re

import click
from pages import DOCS

from convc.cli import main

PAGE = (DOCS / "commands.md").read_text("utf-8")
PLANNING = ("compile", "verify", "inspect", "time", "draw", "report")


def options(command: click.Command) -> set[str]:
    """Long names of the options of a command, of a group those of all in it."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        inner = (command.get_command(context, name) for name in command.list_commands(context))
        return set().union(*(options(each) for each in inner if each is not None))
    return {name for each in command.params for name in each.opts if name.startswith("--")}


def commands() -> dict[str, set[str]]:
    """Options by the name of the command."""
    (group,) = (value for value in vars(main).values() if isinstance(value, click.Group))
    context = click.Context(group)
    return {name: options(group.get_command(context, name)) for name in group.list_commands(context)}


def test_each_row_names_the_commands_that_have_the_option():
    have = commands()
    rows = re.findall(r"^\| (`--[^|]*) \| ([^|]*) \|", PAGE, re.MULTILINE)
    assert len(rows) > 30
    for cell, named in rows:
        words = re.split(r", (?:and )?", named.removeprefix("all but "))
        listed = {name for word in words for name in (PLANNING if word == "those that plan" else (word,))}
        expected = set(have) - listed if named.startswith("all but ") else listed
        for option in re.findall(r"`(--[a-z-]+)", cell):
            assert {name for name, own in have.items() if option in own} == expected, option


def test_the_page_names_every_option():
    every = set().union(*commands().values())
    assert [option for option in sorted(every) if not re.search(rf"{option}(?![a-z-])", PAGE)] == []
