"""A process that has imported convc and collected the tests once, and forks for each question about them.

An import and a collection cost many times what most tests do. A fork has both, and what it changes ends with it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import _pytest.main
import pytest
from mutate.copies import Ended, Process, in_copy
from mutate.reach import Reaching, trace
from mutate.swap import empty_caches, swapped

COLD = 77
"""Exit status of a process that could not make a change where it stands."""

SLACK_S, TIMES = 15, 5
"""A run of tests may take so much longer than they took when they were traced: these seconds more, so many times."""

TEST_SLACK_S = 5
"""And a single one these seconds more."""


def wait(process: Process) -> Ended:
    """How a process ended."""
    while True:
        ended = process.ended()
        if ended is not None:
            return ended
        time.sleep(0.01)


class Warm:
    """The process, seen from outside.

    Args:
        tree: the copy of the checkout.
        tests: the folders or files of tests that are collected, from there.
    """

    def __init__(self, tree: Path, tests: tuple[str, ...]) -> None:
        self._words = tree.parent / "warm.txt"
        self._ours, theirs = multiprocessing.Pipe()
        work = partial(in_copy, tree, partial(_collect, (self._ours, theirs), tests, self._words))
        self._process = Process(work, cpu_s=None, words=tree.parent / "collected.txt")
        theirs.close()
        self.broken: list[str] = self._ours.recv()

    def trace(self, file: str, answer: Path, cpu_s: float) -> Ended:
        """Run a test file, and write what it reached."""
        return self._ask("trace", cpu_s, file, answer)

    def run(self, path: str, texts: tuple[str, str], tests: Sequence[Reaching], cpu_s: float) -> tuple[Ended, str]:
        """Run tests until one fails with a file's text changed: how that ended, and what it printed."""
        ended = self._ask("run", cpu_s, path, texts, [(test.name, test.seconds) for test in tests])
        return ended, self._words.read_text(encoding="utf-8", errors="replace")

    def _ask(self, *question: Any) -> Ended:
        self._ours.send(question)
        status, seconds = self._ours.recv()
        return Ended(status=status, seconds=seconds)

    def stop(self) -> None:
        self._ours.close()
        self._process.stop()


def _collect(pipe: tuple[Connection, Connection], tests: tuple[str, ...], words: Path) -> int:
    others, ours = pipe
    others.close()  # or the end of those who ask would not be seen
    options = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:terminalreporter", "--continue-on-collection-errors"]
    pytest.main([*options, *tests], plugins=[_Answers(ours, words)])
    return 0


class _Answers:
    """In place of running the tests that were collected: answers questions until nobody asks."""

    def __init__(self, pipe: Connection, words: Path) -> None:
        self.pipe = pipe
        self.words = words
        self.broken: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.pipe.send(self.broken)
        session.testsfailed = 0
        items = {item.nodeid: item for item in session.items}
        while True:
            try:
                kind, cpu_s, *question = self.pipe.recv()
            except EOFError:
                return True
            work = partial({"trace": _traced, "run": _ran}[kind], session, items, *question)
            ended = wait(Process(work, cpu_s=cpu_s, words=self.words))
            self.pipe.send((ended.status, ended.seconds))


def _traced(session: pytest.Session, items: dict[str, pytest.Item], file: str, answer: Path) -> int:
    session.items[:] = [item for name, item in items.items() if name.partition("::")[0] == file]
    empty_caches()
    return trace(answer, partial(_loop, session))


def _ran(
    session: pytest.Session, items: dict[str, pytest.Item], path: str, texts: tuple[str, str],
    tests: list[tuple[str, float]],
) -> int:  # fmt: skip
    if not swapped(os.path.abspath(path), *texts):
        return COLD
    empty_caches()
    session.items[:] = [items[name] for name, _ in tests if name in items]
    session.config.option.maxfail = 1
    timed = _Timed(dict(tests))
    _loop(session, timed)
    print(f"\n{timed.failed}" if timed.failed else "")
    return 1 if timed.failed else 0


def _loop(session: pytest.Session, plugin: object) -> None:
    """Run the tests of a session with one plugin more."""
    session.config.pluginmanager.register(plugin)
    with suppress(session.Failed):
        _pytest.main.pytest_runtestloop(session)


class _Timed:
    """Ends the process where a test takes much longer than when it was traced, and keeps which failed first."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self.failed = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        signal.setitimer(signal.ITIMER_PROF, TEST_SLACK_S + TIMES * self.seconds[item.nodeid])
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid
