"""Every entry of ``decisions.md`` has its three parts, and is short."""

from __future__ import annotations

import re

import pytest
from pages import text_of

PARTS = ["Context", "Choice", "What would change it"]
ENTRIES = dict(re.findall(r"^### (.+)\n((?:(?!#).*\n)*)", text_of("decisions.md"), re.MULTILINE))


def test_there_are_as_many_as_a_newcomer_asks_about():
    assert len(ENTRIES) >= 28


@pytest.mark.parametrize("title", ENTRIES)
def test_an_entry_has_context_choice_and_what_would_change_it(title):
    text = ENTRIES[title]
    assert re.findall(r"^\*(.+)\.\*", text, re.MULTILINE) == PARTS
    assert 4 <= len([line for line in text.splitlines() if line]) <= 10
