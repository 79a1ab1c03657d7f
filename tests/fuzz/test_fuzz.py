"""The fuzzer: it finds a bug that was planted, makes it smaller, goes on where it was; a minute of each subject."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fuzz import campaign as campaigns
from fuzz import convolutions, schedules, subjects
from fuzz.campaign import Journal, generator, work
from fuzz.convolutions import Convolutions, Gradients
from fuzz.launches import EXACT, Gpu, LaunchedOperators, Launches, target_of
from fuzz.models import Models
from fuzz.ptx import Texts
from fuzz.schedules import Schedules
from fuzz.subjects import kind_of, minimise, wrong_with
from support import oracles

from convc.api.choices import schedule_choices
from convc.build.folder import Layer
from convc.errors import GpuError, GpuFault, InputError
from convc.runtime.layer import run_packed

SUBJECTS = {
    "convolutions": Convolutions(),
    "gradients": Gradients(),
    "ptx": Texts(),
    "models": Models(),
    "schedules": Schedules(),
}
CASES = {"convolutions": 2, "gradients": 2, "ptx": 6, "models": 6, "schedules": 2, "derivation": 25}
SOME_S = 30
CASE = {
    "op": "Conv", "type": "float16", "signs": ["uint8", "uint8"], "batch": 2, "inputs": 4, "outputs": 2, "group": 2,
    "kernel": [2, 1], "dilation": [1, 1], "stride": [1, 1], "pads": [1, 0, 0, 0], "auto": "NOTSET", "extent": [3, 1],
    "bias": False, "then": "Relu", "seed": 5,
}  # fmt: skip


@pytest.mark.parametrize("name", SUBJECTS)
def test_cases_follow_from_seed_and_number_and_are_plain_data(name):
    subject = SUBJECTS[name]
    first = [subject.case(generator(1, number)) for number in range(20)]
    assert first == [subject.case(generator(1, number)) for number in range(20)]
    assert json.loads(json.dumps(first)) == first
    assert first != [subject.case(generator(2, number)) for number in range(20)]


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_few_cases_of_each(name, tmp_path):
    answers = dict(work(SUBJECTS[name], 7, range(CASES[name]), tmp_path))
    assert answers == dict.fromkeys(range(CASES[name]))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_half_a_minute_of_each(name, tmp_path):
    """Other cases on every day of the year."""
    seed = 1000 + time.localtime().tm_yday
    end = time.monotonic() + SOME_S
    number = 0
    while time.monotonic() < end:
        found = campaigns.in_process(name, seed, range(number, number + 5), tmp_path)
        assert not found, f"python -m tests.fuzz {name} --seed {seed} --count {number + 5}: {found}"
        number += 5


def test_a_planted_bug_is_found_and_made_smaller(monkeypatch):
    """The simulator is wrong by one wherever there is more than one image: what is left of a case is two pixels."""
    real = oracles.run_layer

    def planted(*arguments, **more):
        run = real(*arguments, **more)
        return dataclasses.replace(run, y=run.y + 1) if run.y.shape[0] > 1 else run

    subject = SUBJECTS["convolutions"]
    case = CASE
    assert wrong_with(subject, case) is None
    monkeypatch.setattr(oracles, "run_layer", planted)
    monkeypatch.setattr(subjects, "MOST_STEPS", 12)
    said = wrong_with(subject, case)
    assert said is not None
    smaller, _ = minimise(subject, case, said)
    assert smaller["batch"] == 2
    assert (smaller["then"], smaller["group"], smaller["inputs"], smaller["pads"]) == (None, 1, 1, [0, 0, 0, 0])


class Planted:
    """Numbers, of which those above 40 with a factor of 7 go wrong."""

    def case(self, rng: random.Random) -> dict:
        return {"number": rng.randrange(1000)}

    def check(self, case: dict) -> None:
        if case["number"] > 40 and case["number"] % 7 == 0:
            raise ZeroDivisionError("planted")
        if case["number"] == 13:
            raise InputError("a clean error")

    def smaller(self, case: dict):
        yield from ({"number": number} for number in (case["number"] // 2, case["number"] - 7) if number > 0)

    def write(self, case: dict, folder: Path) -> None:
        (folder / "case.json").write_text(json.dumps(case))


def test_what_goes_wrong_is_made_smaller_and_written_down(tmp_path):
    answers = dict(work(Planted(), 3, range(40), tmp_path))
    wrong = {number for number, said in answers.items() if said is not None}
    expected = {number for number in range(40) if wrong_with(Planted(), Planted().case(generator(3, number)))}
    assert wrong == expected != set()
    for number in wrong:
        folder = tmp_path / f"case-{number}"
        assert json.loads((folder / "case.json").read_text()) == {"number": 42}
        said = (folder / "message.txt").read_text()
        assert kind_of(said) == "ZeroDivisionError in check"
    assert wrong_with(Planted(), {"number": 13}) is None


def test_a_campaign_goes_on_where_it_was(monkeypatch, tmp_path):
    done: list[range] = []

    def batch(name: str, seed: int, numbers: range, folder: Path) -> dict[int, str]:
        done.append(numbers)
        return {21: "wrong"} if 21 in numbers else {}

    monkeypatch.setattr(campaigns, "in_process", batch)
    monkeypatch.setattr(campaigns, "BATCH", 20)
    campaigns.campaign("ptx", 1, 40, 1, tmp_path)
    again = campaigns.campaign("ptx", 1, 70, 2, tmp_path)
    assert sorted(done, key=lambda numbers: numbers.start) == [
        range(40),
        range(40, 60),
        range(60, 70),
    ]
    assert again.found == {21: "wrong"} == Journal.of(tmp_path).found
    assert again.batches == {0, 20, 40}


@pytest.mark.parametrize(
    ("batches", "jobs", "expected"),
    [
        (range(0, 1200, 100), 1, [[0, 100, 200, 300, 400], [500, 600, 700, 800, 900], [1000, 1100]]),
        (range(0, 400, 100), 2, [[0, 100], [200, 300]]),
        (range(0, 300, 100), 4, [[0], [100], [200]]),
        ([0, 100, 300, 400], 1, [[0, 100], [300, 400]]),
        ([], 1, []),
    ],
)
def test_a_process_does_neighbouring_batches(batches, jobs, expected):
    assert campaigns.stretches(list(batches), jobs) == expected


def test_choices_that_cannot_be_had_together_go_until_there_is_a_kernel(monkeypatch):
    tried: list[dict[str, str]] = []

    def oracles(problem, seed, judge, options):
        tried.append(
            {name: value for name, value in dataclasses.asdict(options).items() if value in ("on", "tma", "2")}
        )
        if len(tried) < 3:
            raise InputError("refused")
        return SimpleNamespace(artifact=SimpleNamespace(ptx="", launch=None))

    clean = SimpleNamespace(findings=(), unclear=())
    monkeypatch.setattr(schedules, "oracles_agree", oracles)
    monkeypatch.setattr(schedules, "audit_kernel", lambda ptx, launch: clean)
    case = SUBJECTS["schedules"].case(generator(1, 0))
    SUBJECTS["schedules"].check(case | {"options": {"store": "tma", "cta_group": "2", "split_k": "2"}})
    assert tried == [
        {"store": "tma", "cta_group": "2", "split_k": "2"},
        {"store": "tma", "cta_group": "2"},
        {"store": "tma"},
    ]


def test_one_kernel_of_eight_is_assembled(monkeypatch):
    judges: list[object] = []
    monkeypatch.setattr(convolutions, "oracles_agree", lambda problem, seed, judge: judges.append(judge))
    for seed in range(16):
        SUBJECTS["convolutions"].check(CASE | {"seed": seed})
    assert judges == 2 * [convolutions.assembled, *7 * [convolutions.unseen]]


def test_a_worker_that_dies_or_hangs_is_a_finding(monkeypatch, tmp_path):
    """The stand-in for a worker answers two cases, then dies; behind the third it hangs."""
    script = (
        "import sys, time, os, signal\n"
        "first, end = int(sys.argv[-2]), int(sys.argv[-1])\n"
        "for number in range(first, end):\n"
        "    if number == 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    if number == 4: time.sleep(60)\n"
        "    print(f'[{number}, null]', flush=True)\n"
    )
    real = subprocess.run

    def run(command: list[str], **more):
        return real([sys.executable, "-c", script, *command[-2:]], **more)

    monkeypatch.setattr(campaigns.subprocess, "run", run)
    monkeypatch.setattr(campaigns, "CASE_S", 0.4)
    found = campaigns.in_process("ptx", 1, range(6), tmp_path)
    assert sorted(found) == [2, 4]
    assert "ended with -9" in found[2]
    assert found[4] == "the process did not end"


def on_the_machine(layer: Layer, buffers: dict) -> np.ndarray:
    """The launch of a kernel where there is no GPU."""
    return run_packed(layer, buffers, EXACT).y


@pytest.mark.parametrize("kind", [Launches, LaunchedOperators])
@pytest.mark.parametrize("target", schedule_choices()["target"])
def test_launches_are_compared_with_the_reference(target, kind):
    """With the simulator as the GPU all is well; with one whose last element is another number it is not."""
    subject = kind(Gpu(on_the_machine, target))
    subject.most_work = 200_000
    case = subject.case(generator(1, 3))
    assert "target" not in case.get("options", ())
    assert wrong_with(subject, case) is None

    def planted(layer: Layer, buffers: dict) -> np.ndarray:
        y = on_the_machine(layer, buffers)
        y[-1, -1, -1, 0] += 1
        return y

    said = wrong_with(kind(Gpu(planted, target)), case)
    assert said is not None
    assert "whole numbers" in said


def test_a_launch_that_faults_ends_its_process(monkeypatch, capsys):
    def faulty(layer: Layer, buffers: dict) -> np.ndarray:
        raise GpuFault("an illegal address")

    def end(status: int) -> None:
        raise SystemExit(status)

    monkeypatch.setattr(os, "_exit", end)
    subject = Launches(Gpu(faulty, "sm_90a"))
    subject.most_work = 200_000
    with pytest.raises(SystemExit, match="1"):
        subject.check(subject.case(generator(1, 3)))
    assert "an illegal address" in capsys.readouterr().err


def test_a_gpu_that_no_target_is_for_is_refused():
    assert target_of((9, 0)) == "sm_90a"
    assert target_of((10, 0)) == "sm_100a"
    with pytest.raises(GpuError, match="this GPU is one of sm_86a"):
        target_of((8, 6))
