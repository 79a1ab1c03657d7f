"""Which tests reach which line of convc: a map in a file, made by traced runs of the test files, one after the other.

A test file is traced again when its own text has changed. Where a file of convc has, its lines are looked up in the
text that was traced, and a line that is new has the tests of the line in front of it.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import sqlite3
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage
from mutate.swap import caches, imported_lines

TABLES = """
create table if not exists files (file text primary key, digest text, seconds text);
create table if not exists lines (source text, file text, text text, tests blob, primary key (source, file));
create table if not exists texts (digest text primary key, text blob);
"""


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class Timed:
    """Tells coverage whose lines are run, and takes the time of each test; those that fail are left out.

    Each test finds the caches of convc empty: what it takes from them it reaches as well as the one that filled them.
    """

    def __init__(self, coverage: Coverage) -> None:
        self.coverage = coverage
        self.caches = caches("convc")
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        for cache in self.caches:
            cache.cache_clear()
        self.coverage.switch_context(item.nodeid)
        began = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = round(time.process_time() - began, 4)
            self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)


def trace(answer: Path, run: Callable[[object], None]) -> int:
    """Run tests in this process, whose folder is the root of a copy and which has imported them, by a function that
    takes a plugin; write what they reached."""
    coverage = Coverage(data_file=None, include=["convc/*"], config_file=False)
    coverage.set_option("run:relative_files", True)
    timed = Timed(coverage)
    coverage.start()
    run(timed)
    coverage.stop()
    data = coverage.get_data()
    numbers = {name: i for i, name in enumerate(timed.seconds)}
    lines = {}
    for source in sorted(data.measured_files()):
        imported = imported_lines(Path(source).read_text(encoding="utf-8"))
        groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
        groups[()] = sorted(imported)
        for line, contexts in data.contexts_by_lineno(source).items():
            if line not in imported:
                groups[tuple(sorted(numbers[c] for c in contexts if c in numbers))].append(line)
        lines[source] = [[list(tests), reached] for tests, reached in groups.items()]
    seconds = {name: None if name in timed.failed else spent for name, spent in timed.seconds.items()}
    answer.write_text(json.dumps({"seconds": seconds, "lines": lines}))
    return 0


@dataclass(frozen=True, kw_only=True)
class Reaching:
    """A test that reaches a line, and the seconds of processor time that it took when it was traced."""

    name: str
    seconds: float

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]


class Reach:
    """The map, in a database."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(path)
        self._base.executescript(TABLES)
        self._seconds: dict[str, dict[str, float | None]] = {}

    def stale(self, texts: Mapping[str, str]) -> list[str]:
        """The test files that were not traced as their texts are now."""
        known = dict(self._base.execute("select file, digest from files"))
        return [file for file, text in texts.items() if known.get(file) != digest_of(text)]

    def add(self, file: str, text: str, answer: Path, sources: Path) -> None:
        """Keep what a traced run of a test file has answered; ``sources``: the root of the copy."""
        found = json.loads(answer.read_text())
        self._base.execute("delete from lines where file = ?", (file,))
        for source, groups in found["lines"].items():
            traced = (sources / source).read_text(encoding="utf-8")
            digest = digest_of(traced)
            self._base.execute("insert or ignore into texts values (?, ?)", (digest, zlib.compress(traced.encode())))
            row = (source, file, digest, zlib.compress(json.dumps(groups).encode()))
            self._base.execute("insert into lines values (?, ?, ?, ?)", row)
        facts = (file, digest_of(text), json.dumps(found["seconds"]))
        self._base.execute("insert or replace into files values (?, ?, ?)", facts)
        self._base.commit()
        self._seconds.pop(file, None)

    def seconds(self, file: str) -> dict[str, float | None]:
        """Of each test of a file the seconds; None where it fails without any change."""
        if file not in self._seconds:
            row = self._base.execute("select seconds from files where file = ?", (file,)).fetchone()
            self._seconds[file] = json.loads(row[0]) if row else {}
        return self._seconds[file]

    def tests(self, source: str, text: str, lines: tuple[int, ...]) -> dict[str, list[Reaching]]:
        """Test file -> its tests that reach the first of these lines that any does, of a file with this text now.

        Where the file had another text and none reached the line, as it came from elsewhere: those that reach the file.
        """
        found = {}
        rows = self._base.execute("select file, text, tests from lines where source = ?", (source,)).fetchall()
        for file, digest, groups in rows:
            then = lines if digest == digest_of(text) else lines_then(self._text(digest), text, lines)
            seconds = self.seconds(file)
            names = list(seconds)
            reached = json.loads(zlib.decompress(groups))
            numbers = next(filter(None, (_at(reached, line) for line in then)), ())
            if not numbers and digest != digest_of(text):
                numbers = set().union(*(tests for tests, _ in reached))
            timed = ((names[i], seconds[names[i]]) for i in sorted(numbers))
            found[file] = [Reaching(name=name, seconds=spent) for name, spent in timed if spent is not None]
        return {file: tests for file, tests in found.items() if tests}

    def _text(self, digest: str) -> str:
        (text,) = self._base.execute("select text from texts where digest = ?", (digest,)).fetchone()
        return zlib.decompress(text).decode()


def _at(groups: Iterable[tuple[list[int], list[int]]], line: int) -> set[int]:
    """Numbers of the tests that reach a line: where an import does, of all that reach the file."""
    here = next((tests for tests, lines in groups if line in lines), None)
    if here is None:
        return set()
    return set(here) or set().union(*(tests for tests, _ in groups))


def lines_then(traced: str, now: str, lines: Iterable[int]) -> tuple[int, ...]:
    """Where lines of a text stood in the text that was traced; the line in front where one is new."""
    matcher = difflib.SequenceMatcher(None, traced.splitlines(), now.splitlines(), autojunk=False)
    blocks = matcher.get_matching_blocks()
    before = ([(b.a, b.b, b.size) for b in blocks if b.size and b.b < line] for line in lines)
    return tuple(
        a + min(line - b, size) if (a, b, size) != (0, 0, 0) else 1
        for line, found in zip(lines, before, strict=True)
        for a, b, size in [max(found, default=(0, 0, 0), key=lambda block: block[1])]
    )
