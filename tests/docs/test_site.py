"""What Sphinx would refuse of the site, found without it: markup in docstrings of the verbs, links out of the pages.

`make docs` builds the site itself, and takes half a minute.
"""

from __future__ import annotations

import importlib
import inspect
import re

import pytest
from pages import DOCS, text_of


def shown() -> list[tuple[str, str]]:
    """Module and name of all that the page of the API shows."""
    found: list[tuple[str, str]] = []
    module = ""
    for kind, name in re.findall(r"\.\. (currentmodule|autofunction|autoclass):: ([\w.]+)", text_of("api.md")):
        if kind == "currentmodule":
            module = name
        else:
            found.append((module, name))
    return found


MARKUP = {
    r"\|[^|\s]([^|]*[^|\s])?\|": "a substitution: write ``|x|``",
    r"(?<![\w*])\*(?=[^\s*])[^*]*$": "emphasis that does not end",
    r"(?<=\w)_(?=[\s.,;:)])": "a reference to a target",
    r"`": "a backquote without its other",
}
"""Markup of reStructuredText that a sentence has by mistake, and what it is taken for."""


def literals_out(text: str) -> str:
    """A docstring without its code: literals, roles and examples."""
    prose = text.partition("\nExample")[0]
    return re.sub(r"``.+?``|`[^`]+`", "code", prose, flags=re.DOTALL)


def mistakes(text: str) -> list[str]:
    """What Sphinx would warn of."""
    paragraphs = literals_out(text).split("\n\n")
    return [
        f"{what}: {part.strip()[:80]!r}"
        for part in paragraphs
        for found, what in MARKUP.items()
        if re.search(found, part)
    ]


@pytest.mark.parametrize(("module", "name"), shown())
def test_a_docstring_is_what_sphinx_takes(module, name):
    assert mistakes(inspect.getdoc(getattr(importlib.import_module(module), name)) or "") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("at most rtol * |expected|; more", "a substitution"),
        ("see words_ for it", "a reference"),
        ("all of *this", "emphasis"),
        ("the `verb", "a backquote"),
        ("at most ``rtol * |expected|``, 2 * 3, a_b and `verify`", ""),
    ],
)
def test_the_check_finds_what_sphinx_finds(text, said):
    assert "".join(mistakes(text)).startswith(said)
    assert bool(mistakes(text)) == bool(said)


def test_a_link_leads_to_a_page_of_the_site_or_to_an_address():
    for page in DOCS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8")):
            assert target.startswith("https://") or (DOCS / target).resolve().is_relative_to(DOCS), (
                f"{page.name}: {target}"
            )
