"""The pages of options: made from the table, complete, and few files know an option by its name."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from options_page import page
from pages import DOCS, module_of, text_of

from convc.cli import main
from convc.compiler.options import AUTO, ScheduleOptions, options
from convc.compiler.planner.conflicts import choices, conflicts, schedules_for
from convc.compiler.schedules.all import names, variants
from convc.errors import InputError

PAGE = (DOCS / "commands.md").read_text("utf-8")
PLANNING = ("compile", "verify", "inspect", "time", "tune", "draw", "report")
ROOT = DOCS.parents[1]
MOST_FILES = 9


def options_of(command: click.Command) -> set[str]:
    """Long names of the options of a command, of a group those of all in it."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        inner = (command.get_command(context, name) for name in command.list_commands(context))
        return set().union(*(options_of(each) for each in inner if each is not None))
    return {name for each in command.params for name in each.opts if name.startswith("--")}


def commands() -> dict[str, set[str]]:
    """Options by the name of the command."""
    (group,) = (value for value in vars(main).values() if isinstance(value, click.Group))
    context = click.Context(group)
    return {name: options_of(group.get_command(context, name)) for name in group.list_commands(context)}


def typed() -> set[str]:
    """The options of the table, as they are typed."""
    return {f"--{name.replace('_', '-')}" for name in options()}


def test_each_row_names_the_commands_that_have_the_option():
    have = commands()
    rows = re.findall(r"^\| (`--[^|]*) \| ([^|]*) \|", PAGE, re.MULTILINE)
    assert len(rows) > 15
    for cell, named in rows:
        words = re.split(r", (?:and )?", named.removeprefix("all but "))
        listed = {name for word in words for name in (PLANNING if word == "planning" else (word,))}
        expected = set(have) - listed if named.startswith("all but ") else listed
        for option in re.findall(r"`(--[a-z-]+)", cell):
            assert {name for name, own in have.items() if option in own} == expected, option


def test_commands_that_plan_have_the_whole_table_and_no_other_has_it():
    for option in typed() - {"--target", "--rows", "--border"}:  # words that other commands use too
        assert {name for name, own in commands().items() if option in own} == set(PLANNING), option
    assert all(typed() <= commands()[name] for name in PLANNING)


def test_the_page_names_every_option():
    every = set().union(*commands().values()) - typed()
    assert [option for option in sorted(every) if not re.search(rf"{option}(?![a-z-])", PAGE)] == []


def test_the_page_of_options_is_made_from_the_table(request):
    file = DOCS / "options.md"
    if request.config.getoption("--update-golden"):
        file.write_text(page(), "utf-8")
    assert file.read_text("utf-8") == page(), "run this test with --update-golden"


def test_the_table_has_the_schedules_that_there_are():
    assert (*options()["schedule"].values,) == (AUTO, *names())
    assert (*options()["shift"].values,) == (AUTO, *variants())


def test_a_default_is_a_value():
    for name, values in choices().items():
        assert getattr(ScheduleOptions(), name) in values
        assert all(options()[name].values.values()), "each with a meaning"


@pytest.mark.parametrize("row", conflicts(), ids=lambda row: f"{row.option} {row.values} {row.other} {row.excluded}")
def test_each_row_of_conflicts_is_refused_with_its_reason(row):
    known = choices()
    one = (
        "3" if row.option == "ctas" else row.values[0] if row.values[0] in known[row.option] else known[row.option][-1]
    )
    two = 3 if row.other == "ctas" else row.excluded[-1]
    chosen = ScheduleOptions(**{row.option: int(one) if row.option == "ctas" else one, row.other: two})
    assert row.holds(chosen)
    assert row.why in row.error(chosen).message
    assert not row.holds(ScheduleOptions())
    with pytest.raises(InputError, match=r"exclude each other|needs"):
        schedules_for(chosen)


def test_numbers_of_choices_are_texts():
    assert ScheduleOptions(split_k=2) == ScheduleOptions(split_k="2")
    assert ScheduleOptions(ctas=2).ctas == 2


def test_nobody_is_told_that_none_leaves_an_option_open():
    with pytest.raises(InputError, match="'auto' leaves it open"):
        schedules_for(ScheduleOptions(store=None))


def test_the_example_of_the_page_runs(tmp_path):
    added = module_of("add_an_option.md", tmp_path)
    assert [*added.Prefetch.__metadata__[0].values] == [AUTO, "on", "off"]


def test_few_files_know_an_option_by_its_name():
    listed = re.findall(r"^\| `([^`]+)` \|", text_of("add_an_option.md"), re.MULTILINE)
    assert len(listed) <= MOST_FILES
    name = re.compile(r"\bsplit[_-]k\b")
    places = [
        (DOCS.parent, "*.py"),
        (DOCS / "schemas", "*.json"),
        (ROOT / "templates", "*.j2"),
        (ROOT / "tests/support", "option_sets.py"),
    ]
    files = [DOCS / "options.md", *(file for folder, kind in places for file in folder.rglob(kind))]
    naming = {_named(file) for file in files if file.is_file() and name.search(file.read_text("utf-8"))}
    assert naming == set(listed)


def _named(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()
