"""Pages that list words have all of them: what tables print, options of commands, rules of findings."""

from __future__ import annotations

import re

import pytest
from pages import DOCS, text_of

from convc.explain import listing, schedules
from convc.machine import Counters
from convc.page import render
from convc.report import build, counts, timing
from convc.report.network import NETWORK_COLUMNS
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


RULE = re.compile(r"""(?:report\(|rule ?= ?|Verdict\.\w+, )\s*"([a-z]+(?:-[a-z]+)+)\"""")


def test_every_finding_is_on_the_page():
    packages = [DOCS.parent / package for package in ("machine", "sanitizer")]
    texts = [path.read_text("utf-8") for package in packages for path in package.rglob("*.py")]
    rules = {rule for text in texts for rule in RULE.findall(text)}
    assert "completion-order" in rules
    assert {rule for rule in rules if f"`{rule}`" not in text_of("checking.md")} == set()
