"""Pages that list words have all of them: what tables print, options of commands, rules of findings."""

from __future__ import annotations

import importlib
import re

import click
import pytest
from pages import DOCS, text_of

from convc.cli.main import COMMANDS
from convc.explain import listing, schedules
from convc.machine import Counters
from convc.page import render
from convc.report import build, counts, timing
from convc.report.network import NETWORK_COLUMNS
from convc.report.own_data import DATA_COLUMNS
from convc.report.tables import CSV_COLUMNS
from convc.report.verify import LAYER_COLUMNS


def words() -> set[str]:
    """The words of the glossary: what stands in the first cells of its tables."""
    cells = re.findall(r"^\| (.*?) \|", text_of("glossary.md"), re.MULTILINE)
    return {word for cell in cells for word in cell.split(", ")}


def counted() -> set[str]:
    """What ``--counts`` calls its lines, without the buffer or the shape behind it."""
    return {label.strip() for label, _, _ in counts._lines(Counters())} | set(counts.TABLES)


TABLES = {
    "verify": [name for name, _ in LAYER_COLUMNS],
    "reweight": [name for name, _ in NETWORK_COLUMNS],
    "own data": [name for name, _ in DATA_COLUMNS],
    "csv": CSV_COLUMNS,
    "counts": counted(),
    "compile": [name for name, _ in build.WIDE_COLUMNS],
    "inspect": [name for name, _ in listing.WIDE_COLUMNS],
    "schedules": [column.heading for column in schedules.COLUMNS if column.heading],
    "report": render.COLUMNS,
    "time": [column.heading for column in (*timing.COLUMNS, *timing.STEP_COLUMNS)],
}


@pytest.mark.parametrize("printed", TABLES.values(), ids=TABLES)
def test_every_word_that_a_table_prints_is_explained(printed):
    assert set(printed) - words() == set()


def test_no_word_is_explained_twice():
    cells = re.findall(r"^\| (.*?) \|", text_of("glossary.md"), re.MULTILINE)
    said = [word for cell in cells for word in cell.split(", ") if word not in {"word", "---"}]
    assert sorted({word for word in said if said.count(word) > 1}) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_on_the_page(name):
    module = name.replace("-", "_")
    command = getattr(importlib.import_module(f"convc.cli.{module}"), f"{module}_command")
    commands = command.commands.values() if isinstance(command, click.Group) else [command]
    params = [param for each in commands for param in each.params]
    options = {max(option.opts, key=len) for option in params if isinstance(option, click.Option)}
    page = text_of("commands.md")
    assert {option for option in options if not re.search(rf"{option}\b", page)} - {"--help"} == set()


def options_of(name: str) -> set[str]:
    """The options of a command, and of those in it."""
    module = name.replace("-", "_")
    command = getattr(importlib.import_module(f"convc.cli.{module}"), f"{module}_command")
    commands = command.commands.values() if isinstance(command, click.Group) else [command]
    return {option for each in commands for param in each.params for option in param.opts}


def test_the_table_of_shared_options_names_the_commands_that_have_them():
    page = text_of("commands.md")
    planning = re.search(r"Those that plan are (.*?):", page)[1].replace(" and ", ", ")
    rows = re.findall(r"^\| (`--.*?) \| ([a-z, -]+) \|", page, re.MULTILINE)
    assert len(rows) > 25
    for cell, named in rows:
        said = set(named.replace("those that plan", planning).removeprefix("all but ").split(", "))
        said = set(COMMANDS) - said if named.startswith("all but") else said
        for option in re.findall(r"`(--[a-z-]+)", cell):
            assert {name for name in COMMANDS if option in options_of(name)} == said, option


RULE = re.compile(r"""(?:report\(|rule ?= ?|Verdict\.\w+, )\s*"([a-z]+(?:-[a-z]+)+)\"""")


def test_every_finding_is_on_the_page():
    rooms = [DOCS.parent / room for room in ("machine", "sanitizer")]
    texts = [path.read_text("utf-8") for room in rooms for path in room.rglob("*.py")]
    rules = {rule for text in texts for rule in RULE.findall(text)}
    assert "completion-order" in rules
    assert {rule for rule in rules if f"`{rule}`" not in text_of("checking.md")} == set()
