"""Words of the field: what has a common name is called by it, in code, messages, templates and pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import DOCS

ROOT = DOCS.parents[1]
OLD = {
    "kernel in front": r"\bkernel (in front|behind)\b",
    "CTAs that share a tile": r"\bCTAs (that )?share (a|the) tile\b",
    "CTAs that walk": r"\bCTAs (that|which) walk\b|\bwalks? over (the )?tiles\b",
    "tile order": r"\btile order\b|\border of (the )?tiles\b(?! of [AB]\b)",
    "columns as channels": r"\bcolumns as channels\b",
    "there and back": r"\bthere and back\b",
    "own instructions": r"\bown instructions of a wait\b",
    "rests on": r"\b(answer|kernel|schedule|plan)s? (that )?rests? on\b",
    "witness": r"\bwitness(es)?\b",
    "moves fewest bytes": r"\bmoves? (the )?fewest bytes\b",
    "copy through TMA": r"\bcop(y|ies) through TMA\b",
    "latency of TMA": r"\b(latency|rows) of TMA\b",
    "places looked at": r"\bplaces looked at\b",
    "the commands that plan": r"\b[Tt]hose that plan\b",
    "dependent launch": r"(?<![Pp]rogrammatic )(?<!`)(?<!error\[)\bdependent launch(es)?\b(?!,)",
}
"""The old words as patterns; ordinary English that merely has the same letters is none of them."""

STEMS = {
    "kernel in front": "kernel ",
    "CTAs that share a tile": " share",
    "CTAs that walk": " walk",
    "tile order": " order",
    "rests on": " rest",
    "moves fewest bytes": "fewest",
    "copy through TMA": "through TMA",
    "latency of TMA": " of TMA",
    "the commands that plan": "hose that plan",
    "dependent launch": "ependent launch",
}
"""Letters that a line must have before its pattern is tried, which is quick; else the word itself."""

ELSEWHERE = (
    "convc/docs/glossary.md",
    "tests/docs/test_words.py",
    "tests/recordings/",
    "tests/unit/gpu/test_recorded_features.py",
    "convc/derive",
    "tests/golden/",
)
"""The table of old words; what was recorded; and the derivation, whose theorems and the kernels' comments are data."""
NOTES = re.compile(r"\bnote ?= ?\"")
"""A step's words in the text of a kernel: the text is what digests name, so these stay as they are."""


def read() -> list[Path]:
    """Files of the repository in which people read words."""
    folders = [ROOT / name for name in ("convc", "templates", "tests", "benchmarks")]
    found = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(path for folder in folders for path in folder.rglob("*"))]
    found = [path for path in found if path.suffix in {".py", ".md", ".j2", ".toml"}]
    found = [path for path in found if not str(path.relative_to(ROOT)).startswith(ELSEWHERE)]
    assert len(found) > 500, "too few files were looked at"
    return found


def test_old_words_are_gone():
    patterns = [(STEMS.get(word, word), re.compile(pattern)) for word, pattern in OLD.items()]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in read()
        for text in [path.read_text("utf-8")]
        for stem, pattern in patterns
        if stem in text
        for line in text.splitlines()
        if stem in line and pattern.search(line) and not NOTES.search(line)
    ]
    assert found == [], "the glossary has the words of today:\n" + "\n".join(found)


@pytest.mark.parametrize("word", OLD)
def test_a_pattern_finds_its_word(word):
    """Each pattern finds what it stands for, so that none is there in vain."""
    said = {
        "own instructions": "own instructions of a wait",
        "rests on": "the answer rests on",
        "the commands that plan": "those that plan",
    }
    assert re.search(OLD[word], said.get(word, word))
