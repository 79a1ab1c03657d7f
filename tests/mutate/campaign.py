"""A campaign: the map is brought up to date, mutants are drawn and judged, and a journal keeps what came of each."""

from __future__ import annotations

import dataclasses
import difflib
import json
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from mutate import warm
from mutate.copies import Process, copied, in_copy
from mutate.mutants import Mutant, Source
from mutate.reach import Reach, Reaching
from mutate.trial import Verdict, rounds, run_tests
from mutate.warm import COLD, Warm, wait

TRACE_S = 900
"""Seconds of processor time that the traced run of a test file may take."""

KILLED = ("killed", "late")
_tree = Path()
"""The copy that this worker process works on."""

_warm: Warm | None = None
"""What has collected the tests of this copy."""


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """Mutants of a checkout's files, and the tests that are run on them.

    Attributes:
        root: the checkout.
        folder: where the map and the journals are kept.
        source, tests: the files to draw from, and the tests to run, from the root.
        jobs: processes at a time.
        most_s: seconds of the tests that are run on a mutant, as traced.
    """

    root: Path
    folder: Path
    source: str
    tests: tuple[str, ...]
    jobs: int = 1
    most_s: float = 60

    @cached_property
    def reach(self) -> Reach:
        return Reach(self.folder / "map.sqlite")

    @cached_property
    def sources(self) -> dict[str, str]:
        """Path -> text of the files that mutants are drawn from."""
        return self._texts(self.source, "*.py")

    def _texts(self, top: str, names: str) -> dict[str, str]:
        place = self.root / top
        paths = sorted(place.rglob(names)) if place.is_dir() else [place]
        return {path.relative_to(self.root).as_posix(): path.read_text(encoding="utf-8") for path in paths}

    def trace(self) -> None:
        """Trace the test files that are new or have changed; each is kept as soon as it is done."""
        texts = {path: text for top in self.tests for path, text in self._texts(top, "test_*.py").items()}
        stale = self.reach.stale(texts)
        if not stale:
            return
        print(f"map: {len(stale)} of {len(texts)} test files are traced", flush=True)
        with self._workers() as (pool, trees):
            for file, answer in each(pool, traced, stale):
                if answer is None:
                    print(f"map: {file} took too long, or failed", flush=True)
                    continue
                self.reach.add(file, texts[file], answer, trees[0])

    def drawn(self, seed: int, count: int) -> list[Mutant]:
        """The first mutants in the order of a seed."""
        mutants = [mutant for path, text in self.sources.items() for mutant in Source(path=path, text=text).mutants]
        random.Random(seed).shuffle(mutants)
        return mutants[:count]

    def judge(self, mutants: Sequence[Mutant], journal: Path) -> list[Verdict]:
        """What comes of mutants; those that an earlier run has killed are not run again."""
        lines = journal.read_text(encoding="utf-8").splitlines() if journal.is_file() else []
        known = {verdict.name: verdict for verdict in (Verdict(**json.loads(line)) for line in lines)}
        done = {name: verdict for name, verdict in known.items() if verdict.said in KILLED}
        tasks = []
        for mutant in mutants:
            if mutant.name not in done:
                reached = self.reach.tests(mutant.path, self.sources[mutant.path], (mutant.line, mutant.statement))
                tasks.append((mutant, self.sources[mutant.path], reached))
        if not tasks:
            return [done[mutant.name] for mutant in mutants]
        with self._workers() as (pool, _), journal.open("a", encoding="utf-8") as kept:
            for _, verdict in each(pool, partial(tried, self.most_s), tasks):
                done[verdict.name] = verdict
                kept.write(json.dumps(dataclasses.asdict(verdict)) + "\n")
                kept.flush()
                if verdict.said not in KILLED:
                    print(f"{verdict.said}: {verdict.name}  ({verdict.by})\n{verdict.diff}", flush=True)
        return [done[mutant.name] for mutant in mutants]

    def summary(self, verdicts: Sequence[Verdict]) -> str:
        """How many of each kind, and the survivors, a line each."""
        counts = Counter(verdict.said for verdict in verdicts)
        dead = sum(counts[said] for said in KILLED)
        left = [f"  {verdict.name}" for verdict in verdicts if verdict.said == "survived"]
        return "\n".join(
            [
                f"{len(verdicts)} mutants: {dead} killed ({counts['late']} of them by the clock), "
                f"{counts['survived']} survived, {counts['unreached']} reached by no test",
                *left,
            ]
        )

    @contextmanager
    def _workers(self) -> Iterator[tuple[ProcessPoolExecutor, list[Path]]]:
        """Processes, each with a copy of the checkout of its own."""
        with tempfile.TemporaryDirectory(prefix="mutate-") as top:
            trees = [copied(Path(top) / f"{i}" / "tree", self.root) for i in range(self.jobs)]
            context = multiprocessing.get_context("fork")
            free = context.SimpleQueue()
            for tree in trees:
                free.put(tree)
            with ProcessPoolExecutor(self.jobs, context, _take_tree, (free, self.tests)) as pool:
                yield pool, trees


def each(pool: ProcessPoolExecutor, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Tasks with what came of them, as they end."""
    futures = {pool.submit(work, task): task for task in tasks}
    for future in as_completed(futures):
        yield futures[future], future.result()


def _take_tree(free: Any, tests: tuple[str, ...]) -> None:
    global _tree, _warm
    _tree = free.get()
    _warm = Warm(_tree, tests)
    for name in _warm.broken:
        print(f"tests: {name} cannot be collected", flush=True)


def traced(file: str) -> Path | None:
    """Trace a test file: where the answer lies, None where there is none."""
    answer = _tree.parent / (file.replace("/", ".") + ".json")
    assert _warm is not None
    _warm.trace(file, answer, TRACE_S)
    return answer if answer.is_file() else None


def tried(most_s: float, task: tuple[Mutant, str, dict[str, list[Reaching]]]) -> Verdict:
    """Judge a mutant in this worker's copy."""
    mutant, text, reached = task
    if not reached:
        return Verdict(name=mutant.name, said="unreached", by="no test", diff=diff_of(mutant, text))
    place = _tree / mutant.path
    times = place.stat()
    after = mutant.text(text)
    tests = rounds(mutant.path, reached, most_s)
    try:
        place.write_text(after, encoding="utf-8")
        # Byte code is kept by the second of the file's time: a time of its own for each mutant.
        os.utime(place, (times.st_atime, time.time() - 10**8 + abs(hash(mutant.name)) % 10**7))
        for status, words in _runs(mutant.path, (text, after), tests):
            if status is None:
                return Verdict(name=mutant.name, said="late")
            if status:
                return Verdict(name=mutant.name, said="killed", by=words.strip().rpartition("\n")[2][:200])
    finally:
        place.write_text(text, encoding="utf-8")
        os.utime(place, (times.st_atime, times.st_mtime))
    run = sum(len(some) for some in tests)
    there = sum(len(some) for some in reached.values())
    return Verdict(name=mutant.name, said="survived", by=f"{run} of {there} tests", diff=diff_of(mutant, text))


def _runs(path: str, texts: tuple[str, str], tests: list[list[Reaching]]) -> Iterator[tuple[int | None, str]]:
    """How runs of tests on a changed file ended, and what they printed.

    At first where all is imported. What an import or a collection does with the change is not seen there: whatever
    survives has to survive in processes that import anew.
    """
    assert _warm is not None
    every = [test for some in tests for test in some]
    ended, words = _warm.run(path, texts, every, _most_s(every))
    if ended.status != COLD:
        yield ended.status, words
    for some in tests:
        file = _tree.parent / "words.txt"
        work = partial(in_copy, _tree, partial(run_tests, [test.name for test in some]))
        ended = wait(Process(work, cpu_s=_most_s(some), words=file))
        yield ended.status, file.read_text(encoding="utf-8", errors="replace")


def _most_s(tests: Sequence[Reaching]) -> float:
    return warm.SLACK_S + warm.TIMES * sum(test.seconds for test in tests)


def diff_of(mutant: Mutant, text: str) -> str:
    """The change as a diff."""
    lines = difflib.unified_diff(
        text.splitlines(), mutant.text(text).splitlines(), mutant.path, mutant.path, lineterm="", n=1
    )
    return "\n".join(lines)
