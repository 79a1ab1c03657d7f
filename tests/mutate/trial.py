"""One mutant: which tests are run on it, in which order, and what came of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import pytest
from mutate.reach import Reaching

FIRST_S = 8.0
"""Seconds, as traced, of the tests that are run first: those of the mutant's package, then the quickest."""

FIRST_FILES = 5
"""Most files that these tests are in: each costs its collection."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What came of a mutant.

    Attributes:
        name: `Mutant.name`.
        said: ``killed``, ``late`` (it took too long, which counts as killed), ``survived`` or ``unreached``.
        by: the test that killed it; of a survivor how many tests were run of how many that reach it.
        diff: of a survivor the change.
    """

    name: str
    said: str
    by: str = ""
    diff: str = ""


class Chosen:
    """Runs some of the tests that were collected, and says which failed first."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = frozenset(names)
        self.failed = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.names]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


def run_tests(names: Iterable[str]) -> int:
    """Run tests in this process until one fails, whose name is printed last; 1 where one does."""
    chosen = Chosen(set(names))
    files = list(dict.fromkeys(name.partition("::")[0] for name in names))
    status = pytest.main(["-q", "-x", "-p", "no:cacheprovider", "--tb=line", *files], plugins=[chosen])
    print(f"\n{chosen.failed}" if chosen.failed else "")
    return 0 if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else 1


def rounds(source: str, reached: Mapping[str, list[Reaching]], most_s: float) -> list[list[Reaching]]:
    """The tests that are run on a mutant of a file, in rounds of a process each; ``most_s`` seconds in all.

    The first round is of files of the mutant's package, and of those with the quickest tests; the second of the rest,
    the quickest files first.
    """
    package = f"tests/unit/{source.split('/')[1].removesuffix('.py')}"

    def cost(file: str) -> tuple[bool, float]:
        return not file.startswith(package), sum(test.seconds for test in reached[file])

    first: list[Reaching] = []
    second: list[Reaching] = []
    spent = 0.0
    for files, file in enumerate(sorted(reached, key=cost), 1):
        for test in sorted(reached[file], key=lambda test: test.seconds):
            if first and spent + test.seconds > most_s:
                break
            spent += test.seconds
            early = not first or (spent <= FIRST_S and files <= FIRST_FILES)
            (first if early else second).append(test)
    return [tests for tests in (first, second) if tests]
