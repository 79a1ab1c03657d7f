"""Tuning records: kept, found and taken; options that are given, another problem, the switch and damage are not."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import convc
from convc import ScheduleOptions
from convc.compiler.compile import text_digest
from convc.compiler.kernels import compile_shared, shared_problem
from convc.compiler.tuning_file import dump_tunings, read_tunings
from convc.compiler.tunings import TuningRecord, Tunings
from convc.compiler.tunings import _key as tunings_key
from convc.errors import InputError
from convc.ir.tuned import Tuned
from convc.support.cache import KernelCache
from convc.support.resources import model_folder

MODEL = model_folder() / "tiny_conv.onnx"
PROBLEM = shared_problem(convc.load(MODEL).convs[0].problem)
CHOICE = {"schedule": "slide", "persistent": "on"}
KERNEL = text_digest(compile_shared(PROBLEM, ScheduleOptions(**CHOICE)).artifact.ptx)


def tuned(**more) -> Tuned:
    fields = {
        "device": "A GPU", "by": "gpu", "choice": CHOICE, "kernel": KERNEL, "title": "slide", "microseconds": 2.5,
        "spread": 0.25, "estimated": 3.6, "candidates": 7, "lost": 1,
    }  # fmt: skip
    return Tuned(**(fields | more))


def record(options: ScheduleOptions | None = None, **more) -> TuningRecord:
    return TuningRecord(problem=PROBLEM, options=options or ScheduleOptions(), tuned=tuned(**more))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch) -> Tunings:
    """The records of the user's cache, with one for the layer."""
    monkeypatch.setenv("CONVC_CACHE", str(tmp_path / "cache"))
    tunings = Tunings(KernelCache(tmp_path / "cache"))
    tunings.keep(record())
    return tunings


def test_all_verbs_take_the_record_and_say_so(kept, tmp_path):
    said = "tuned on A GPU, 2.5 us, 1.44x of the estimate's choice"
    build = convc.compile(MODEL, tmp_path / "b")
    (ptx,) = (tmp_path / "b").glob("kernels/*/kernel.ptx")
    assert text_digest(ptx.read_text()) == KERNEL
    found = convc.inspect(MODEL)
    assert found.compiled.artifact.ptx == ptx.read_text()
    assert (found.plan.schedule.name, found.plan.launch.persistent) == ("slide", True)
    assert said in str(found)
    assert "7 candidates were timed, 1 of them failed" in str(found)
    assert "as requested" not in str(found.plan.launch.why)
    assert len(found.plan.choices) > 1, "the table has all schedules"
    (verified,) = convc.verify(MODEL).layers
    (timed,) = convc.time(MODEL).layers
    assert verified.ok
    for one in (build.record().planned.tuning, verified.planned.tuning, timed.tuned):
        assert str(one) == said


def test_a_build_is_shown_as_it_was_tuned_whatever_is_recorded_since(kept, tmp_path):
    build = convc.compile(MODEL, tmp_path / "b")
    kept.keep(record(choice={"schedule": "reload"}))
    assert convc.inspect(build).compiled.artifact.ptx == convc.inspect(build).text


def test_the_record_that_was_kept_last_is_taken(kept):
    kept.keep(record(device="B GPU", choice={"schedule": "reload", "persistent": "off"}))
    assert kept.find(PROBLEM, ScheduleOptions()).device == "B GPU"
    assert kept.of_device(PROBLEM, ScheduleOptions(), "A GPU", "gpu") == tuned()
    assert kept.of_device(PROBLEM, ScheduleOptions(), "A GPU", "engine") is None


@pytest.mark.parametrize("options", [{"schedule": "reload"}, {"tuned": "off"}, {"timed": True}, {"target": "sm_90a"}])
def test_what_is_asked_for_wins(kept, options):
    assert kept.find(PROBLEM, ScheduleOptions(**options)) is None
    assert kept.find(dataclasses.replace(PROBLEM, batch=2), ScheduleOptions()) is None


def test_a_choice_that_leads_to_no_kernel_is_said_and_left(kept):
    kept.keep(record(choice={"schedule": "stationary"}, block_n=24))
    found = convc.inspect(MODEL)
    untuned = convc.inspect(MODEL, schedule=ScheduleOptions(tuned="off"))
    assert found.compiled.artifact.ptx == untuned.compiled.artifact.ptx
    assert "could not be taken: " in str(found.plan.tuned)


def test_a_text_that_has_changed_since_is_said(kept):
    kept.keep(record(kernel="0" * 16))
    assert str(convc.inspect(MODEL).plan.tuned).endswith("(its text has changed since)")


def test_a_damaged_entry_is_no_record(kept):
    key = tunings_key(PROBLEM, ScheduleOptions())
    kept.cache.put(key, b"damaged")
    kept.cache.close()
    assert Tunings(kept.cache).find(PROBLEM, ScheduleOptions()) is None


def test_nobody_who_looks_makes_a_database(tmp_path):
    assert Tunings(KernelCache(tmp_path)).find(PROBLEM, ScheduleOptions()) is None
    assert [*tmp_path.iterdir()] == []


def test_a_file_comes_back_as_it_was(tmp_path):
    file = tmp_path / "t.json"
    file.write_bytes(dump_tunings([record()]))
    assert read_tunings(file) == (record(),)


def change(data, path, value):
    *way, last = path.split(".")
    for name in way:
        data = data[int(name) if name.isdigit() else name]
    data[last] = value


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("format", "convc-tuning/9", "it is no file of tuning records"),
        ("more", 1, "unknown field"),
        ("records.0.tuned.device", "a\x1b[2J", "it is no file of tuning records"),
        ("records.0.tuned.microseconds", -1, "it is no file of tuning records"),
        ("records.0.tuned.choice", {"schedule": "best"}, "schedule must be one of"),
        ("records.0.tuned.choice", {"target": "sm_90a"}, "chooses target, which is no option that was left open"),
        ("records.0.tuned.choice", {"__class__": "x"}, "chooses __class__, which is no option that was left open"),
        ("records.0.tuned.choice", {"split_k": "2", "multicast": "2x1"}, "exclude each other"),
        ("records.0.options.store", "fast", "store must be one of"),
        ("records.0.options.schedule", "reload", "chooses schedule, which is no option that was left open"),
        ("records.0.problem.batch", 0, "batch must be at least 1"),
        ("records.0.problem.name", "mine", "a problem has the name of its kernel"),
    ],
)
def test_a_file_of_a_stranger_is_held_to_the_rules(tmp_path, path, value, said):
    data = json.loads(dump_tunings([record()]))
    change(data, path, value)
    file = tmp_path / "t.json"
    file.write_text(json.dumps(data))
    with pytest.raises(InputError) as raised:
        read_tunings(file)
    assert said in str(raised.value)
    assert str(file) in str(raised.value)
