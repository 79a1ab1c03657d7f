"""Patterns that every Python reads alike: a group repeated without a way back loses its place on 3.11.2 (Debian 12)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.parsed import nodes_of

PACKAGE = Path(__file__).resolve().parents[2] / "convc"
SOURCES = sorted(PACKAGE.rglob("*.py"))

POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)[*+?]\+")


def patterns(path: Path) -> list[str]:
    """Texts that a file hands to `re`, and parts of them."""
    calls = (node for node in nodes_of(path) if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."))
    return [
        node.value
        for call in calls
        for node in ast.walk(call)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_no_group_is_repeated_without_a_way_back():
    found = {path.name for path in SOURCES if any(POSSESSIVE_GROUP.search(text) for text in patterns(path))}
    assert not found


@pytest.mark.parametrize(
    ("text", "is_one"), [(r"(?:a|b)*+", True), (r"(a)?+", True), (r"[ab]*+", False), (r"\)++", False)]
)
def test_a_possessive_group_is_seen(text, is_one):
    assert bool(POSSESSIVE_GROUP.search(text)) == is_one
