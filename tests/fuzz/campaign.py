"""A campaign: numbered cases in worker processes, a journal that it goes on from, reproductions of what is found."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.subjects import Subject, minimise, wrong_with

TESTS = Path(__file__).parents[1]
BATCH = 100
"""Cases that the journal counts as one."""

STRETCH = 5
"""Most batches of a worker process: its start and first case cost as much as about twenty others."""

CASE_S = 60
"""Seconds that a case may take in all, on the average of a batch; a process of several batches has no more in all."""


@dataclass
class Journal:
    """What is done: numbers of finished batches, and of the cases that went wrong."""

    path: Path
    batches: set[int] = field(default_factory=set)
    found: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> Journal:
        """The journal of a folder, empty where there is none."""
        path = folder / "journal.json"
        if not path.is_file():
            return cls(path)
        data = json.loads(path.read_text(encoding="utf-8"))
        return cls(path, set(data["batches"]), {int(number): said for number, said in data["found"].items()})

    def save(self) -> None:
        """Write it, in one step."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"batches": sorted(self.batches), "found": self.found}, indent=1)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(text + "\n", encoding="utf-8")
        fresh.replace(self.path)


def generator(seed: int, number: int) -> random.Random:
    """The random numbers of a case."""
    return random.Random(f"{seed} {number}")


def work(subject: Subject, seed: int, numbers: range, folder: Path) -> Iterator[tuple[int, str | None]]:
    """Check cases; what is found is made smaller and written down. (number, what is wrong) of each."""
    for number in numbers:
        case = subject.case(generator(seed, number))
        said = wrong_with(subject, case)
        if said is not None:
            case, said = minimise(subject, case, said)
            target = folder / f"case-{number}"
            target.mkdir(parents=True, exist_ok=True)
            subject.write(case, target)
            (target / "message.txt").write_text(said, encoding="utf-8")
        yield number, None if said is None else said.strip().splitlines()[-1]


def serve(subject: Subject, seed: int, numbers: range, folder: Path) -> None:
    """Be a worker process: a line of JSON for each case, as soon as it is done."""
    for number, said in work(subject, seed, numbers, folder):
        print(json.dumps([number, said]), flush=True)


def in_process(name: str, seed: int, numbers: range, folder: Path) -> dict[int, str]:
    """Check a batch in processes of its own; one that dies or hangs is a finding, and another goes on behind it."""
    found: dict[int, str] = {}
    first = numbers.start
    while first < numbers.stop:
        command = [sys.executable, "-m", "fuzz", name, "--seed", str(seed), "--folder", str(folder)]
        command += ["--work", str(first), str(numbers.stop)]
        most_s = CASE_S * min(len(numbers), BATCH)
        try:
            done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=most_s, check=False)
            lines, end = done.stdout, f"the process ended with {done.returncode}: {done.stderr.strip()[-300:]}"
            well = done.returncode == 0
        except subprocess.TimeoutExpired as late:
            lines = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
            end, well = "the process did not end", False
        answers = dict(json.loads(line) for line in lines.splitlines() if line.startswith("["))
        found |= {number: said for number, said in answers.items() if said is not None}
        first = max(answers, default=first - 1) + 1
        if well:
            return found
        if first < numbers.stop:
            found[first] = end
            target = folder / f"case-{first}"
            target.mkdir(parents=True, exist_ok=True)
            (target / "message.txt").write_text(end, encoding="utf-8")
            first += 1
    return found


def stretches(batches: list[int], jobs: int) -> list[list[int]]:
    """Batches, by their first cases, in runs of neighbours, one process each; where it can be, one for each job."""
    most = max(1, min(STRETCH, len(batches) // jobs))
    found: list[list[int]] = []
    for first in batches:
        if found and first == found[-1][-1] + BATCH and len(found[-1]) < most:
            found[-1].append(first)
        else:
            found.append([first])
    return found


def campaign(name: str, seed: int, count: int, jobs: int, folder: Path) -> Journal:
    """Do all batches that the folder's journal does not have yet."""
    journal = Journal.of(folder)
    left = stretches([first for first in range(0, count, BATCH) if first not in journal.batches], jobs)

    def one(batches: list[int]) -> tuple[list[int], dict[int, str]]:
        return batches, in_process(name, seed, range(batches[0], min(batches[-1] + BATCH, count)), folder)

    with ThreadPoolExecutor(jobs) as pool:
        for batches, found in pool.map(one, left):
            journal.batches.update(first for first in batches if first + BATCH <= count)
            journal.found |= found
            journal.save()
            for number, said in sorted(found.items()):
                print(f"{name} {number}: {said}\n  {folder / f'case-{number}'}", flush=True)
    journal.save()
    return journal
