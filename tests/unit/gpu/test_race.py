"""Races: kernels take turns, one that faults, hangs or is refused is lost, the others go on; in a process apart too."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest
from unit.gpu.fake_driver import FakeDriver

import convc
from convc import ScheduleOptions, TuneOptions, WorkOptions
from convc.cli.main import main
from convc.compiler.tuning_file import read_tunings
from convc.errors import GpuError, GpuFault, InputError
from convc.gpu.apart import race_apart
from convc.gpu.plan import LaunchPlan
from convc.gpu.race import Began, Limits, Lost, Refused, Runner, Turn, noise, race, tally
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam
from convc.support.resources import model_folder

MODEL = model_folder() / "tiny_conv.onnx"
LAUNCH = LaunchSpec(
    entry="k",
    grid=(1, 1, 1),
    block=(32, 1, 1),
    buffers={"b": BufferSpec(dtype="f16", shape=(8,))},
    params=(PointerParam(buffer="b"),),
)


@dataclass
class Racing(FakeDriver):
    """A GPU on which a launch takes microseconds by what its text says; ``bad`` ones fail in a way of their own."""

    bad: dict[str, Exception | str] = field(default_factory=dict)
    microseconds: dict[str, float] = field(default_factory=dict)
    now_us: float = 0.0
    waits: list[str] = field(default_factory=list)

    def load(self, image: bytes) -> str:
        text = image.decode()
        if self.bad.get(self._word(text)) == "refused":
            raise GpuError("refused")
        return text

    def function(self, module: str, entry: str) -> str:
        return entry if entry == "sm_clock" else module

    def parameter_sizes(self, function: str, count: int | None) -> list[int]:
        if function == "sm_clock":
            return [8, 8]
        head = function[function.index(".entry") :].partition("{")[0]
        return [128 if "128]" in each else 8 for each in re.findall(r"\.param[^,)]*", head)]

    def _word(self, text: str) -> str:
        return next((word for word in (*self.bad, *self.microseconds) if word in text), "")

    def launch(self, function: str, plan: LaunchPlan, params: list[np.ndarray]) -> None:
        super().launch(function, plan, params)
        if function != "sm_clock":
            word = self._word(function)
            self.waits.append(word)
            self.now_us += self.microseconds.get(word, 10.0)

    def mark(self) -> float:
        return self.now_us

    def wait(self, event: float, seconds: float) -> bool:
        last = self.bad.get(self.waits[-1], "") if self.waits else ""
        if isinstance(last, Exception):
            raise last
        return last != "hangs"

    def elapsed(self, start: float, end: float) -> float:
        return end - start


def runner(word: str) -> Runner:
    return Runner(text=f".visible .entry k(.param .u64 b) {{ // {word}\n}}", launch=LAUNCH)


def test_kernels_take_turns():
    gpu = Racing(microseconds={"one": 10.0, "two": 20.0})
    events = list(race(gpu, [runner("one"), runner("two")], Limits()))
    turns = [(event.runner, event.microseconds) for event in events if isinstance(event, Turn)]
    assert turns == [(0, 10.0), (1, 20.0)] * 9
    assert events[:2] == [Began(0), Began(1)]
    assert gpu.memory == {}


def test_behind_the_end_of_its_time_few_are_loaded_and_few_turns_begin():
    words = ["one", "two", "three"]
    events = list(race(Racing(), [runner(word) for word in words], Limits(seconds=1e-9)))
    assert [event.runner for event in events if isinstance(event, Turn)] == [0, 1] * 3


@pytest.mark.parametrize(
    ("how", "said"),
    [(GpuFault("it faulted"), "it faulted"), ("hangs", "did not end within 5"), ("refused", "refused")],
)
def test_a_bad_kernel_is_lost_and_the_others_are_measured(how, said):
    limits = Limits(timeout=5)
    started = []

    def start(some):
        started.append(len(some))
        return race(Racing(bad={"two": how}), some, limits)

    found = tally([runner("one"), runner("two"), runner("three")], start)
    assert [*found.times] == [0, 2]
    assert said in found.lost[1]
    assert started == ([3] if how == "refused" else [3, 2])


def test_all_may_be_lost():
    gpu = Racing(bad={"one": GpuFault("a"), "two": "hangs"})
    found = tally([runner("one"), runner("two")], lambda some: race(gpu, some, Limits()))
    assert (found.times, [*found.lost]) == ({}, [0, 1])


def apart(program: str, timeout: float = 20.0) -> list:
    return list(race_apart([runner("one")] * 2, Limits(timeout=timeout), (sys.executable, "-c", program)))


def test_a_process_that_dies_or_says_nothing_loses_the_kernel_that_had_its_turn(monkeypatch):
    began = (
        "import sys; sys.stdin.read(); print('[\"began\",1]'.replace('[\"began\",1]', "
        + repr('{"type":"began","runner":1}')
        + "), flush=True); "
    )
    assert apart(began + "sys.exit(7)") == [Began(1), Lost(1, "the process that launched it ended with 7", True)]
    monkeypatch.setattr("convc.gpu.apart.LOADING_S", 0.0)
    event = apart(began + "import time; time.sleep(60)", timeout=1.0)[-1]
    assert event == Lost(1, "no result within 1 s: ended", True)


def test_without_a_gpu_the_process_says_so(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (event,) = race_apart([runner("one")], Limits())
    assert isinstance(event, Refused)
    with pytest.raises(GpuError):
        tally([runner("one")], lambda some: iter([event]))


def test_contents_are_alike_for_the_same_shape_and_no_zeros():
    for dtype in ("f16", "bf16", "f32", "e4m3", "s8", "u8", "s32"):
        spec = BufferSpec(dtype=dtype, shape=(3, 50))
        assert noise(spec).shape == (3, 50)
        assert noise(spec).tobytes() == noise(spec).tobytes()
        assert np.count_nonzero(noise(spec).astype(np.float32)) > 100


# ---- the verb ------------------------------------------------------------------------------------------------------

OPTIONS = TuneOptions(candidates=3)
NARROW = ScheduleOptions(target="sm_90a", schedule="reload", columns="off", store="direct")
WORDS = ("--schedule", "reload", "--columns", "off", "--store", "direct")


@pytest.fixture
def work(tmp_path) -> WorkOptions:
    return WorkOptions(cache=tmp_path / "cache")


def test_the_fastest_is_kept_under_the_name_of_the_gpu_and_compiled(work, tmp_path):
    export = tmp_path / "t.json"
    options = TuneOptions(candidates=3, export=export, own_target=True)
    given = ScheduleOptions(schedule="reload", columns="off", store="direct")
    gpu = Racing(microseconds={"step=load.tiles": 5.0})
    report = convc.tune(MODEL, options=options, schedule=given, work=work, driver=gpu)
    (layer,) = report.layers
    assert (report.where, report.engine, report.target, layer.measured) == ("A Hopper", False, "sm_90a", True)
    assert (layer.record.tuned.candidates, layer.record.options) == (3, NARROW)
    assert (layer.record.tuned.microseconds, layer.record.tuned.estimated) == (5.0, 10.0)
    assert read_tunings(export) == (layer.record,)
    again = convc.tune(MODEL, options=OPTIONS, schedule=NARROW, work=work, driver=Racing())
    assert (again.layers[0].record, again.layers[0].measured) == (layer.record, False)
    build = convc.compile(MODEL, tmp_path / "b", schedule=NARROW, work=work)
    assert build.record().planned.tuning.record == layer.record.tuned
    other = WorkOptions(cache=tmp_path / "other")
    assert convc.tune(None, options=TuneOptions(records=export), work=other).imported == 1
    listed = convc.compile(MODEL, tmp_path / "c", schedule=NARROW, work=other)
    assert listed.record().kernel == build.record().kernel


def test_who_is_interrupted_keeps_what_was_measured(work):
    model = model_folder() / "tiny_two_convs.onnx"
    steps = convc.tune_layers(model, options=OPTIONS, schedule=NARROW, work=work, driver=Racing())
    next(steps)
    next(steps)
    steps.close()
    report = convc.tune(model, options=OPTIONS, schedule=NARROW, work=work, driver=Racing())
    assert [layer.measured for layer in report.layers] == [False, True]


def test_a_layer_of_which_nothing_ends_has_no_record(work):
    gpu = Racing(bad={".entry": GpuFault("it faulted")})
    report = convc.tune(MODEL, options=OPTIONS, schedule=NARROW, work=work, driver=gpu)
    (layer,) = report.layers
    assert (report.ok, layer.record, layer.reason) == (False, None, "no candidate finished")
    assert {reason for _, reason in layer.lost} == {"it faulted"}


@pytest.mark.parametrize(
    ("options", "schedule", "kind", "said"),
    [
        (TuneOptions(), ScheduleOptions(), GpuError, "the kernels are for sm_100a, and this GPU is an A Hopper"),
        (TuneOptions(on="tpu"), None, InputError, "on must be one of auto, gpu, engine"),
        (TuneOptions(candidates=0), None, InputError, "candidates must be in 1..1000"),
        (TuneOptions(seconds=float("nan")), None, InputError, "seconds must be above 0"),
        (TuneOptions(), ScheduleOptions(timed=True), InputError, "leave timed out"),
        (TuneOptions(records="no.json"), None, InputError, "no such file"),
    ],
)
def test_what_cannot_be_tuned_is_refused(work, options, schedule, kind, said):
    with pytest.raises(kind) as raised:
        convc.tune(MODEL, options=options, schedule=schedule, work=work, driver=Racing())
    assert said in str(raised.value)


def command(*words: object):
    from click.testing import CliRunner

    return CliRunner().invoke(main, [str(word) for word in words], prog_name="convc")


def test_the_command_says_who_timed_what_was_lost_and_ends_with_1(monkeypatch, tmp_path):
    monkeypatch.setenv("CONVC_CACHE", str(tmp_path))
    gpu = Racing()
    monkeypatch.setattr("convc.api.bench.CudaDriver", lambda: gpu)
    monkeypatch.setattr("convc.api.bench.race_apart", lambda some, limits: race(gpu, some, limits))
    done = command("tune", MODEL, "--candidates", 3, *WORDS)
    assert done.exit_code == 0, done.output
    assert "kernels for sm_90a on A Hopper" in done.stdout
    assert "conv" in done.stdout
    gpu.bad = {".entry conv": "hangs"}
    done = command("tune", MODEL, "--candidates", 2, "--again", *WORDS)
    assert done.exit_code == 1, done.output
    assert "did not end within 10 s" in done.stdout
    assert "no record: conv: no candidate finished" in done.stdout


def test_the_command_refuses(monkeypatch, tmp_path):
    nothing = command("tune")
    assert (nothing.exit_code, "there is nothing to tune" in nothing.stderr) == (2, True)
    no_gpu = command("tune", MODEL, "--on", "gpu", "--export", tmp_path / "t.json")
    assert no_gpu.exit_code == 2
    no_cache = command("tune", MODEL)
    assert (no_cache.exit_code, "no compile cache to keep" in no_cache.stderr) == (2, True)


def test_without_a_gpu_the_engine_times_and_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("CONVC_CACHE", str(tmp_path))
    done = command("tune", MODEL, "--candidates", 2, "--on", "engine", *WORDS)
    assert done.exit_code == 0, done.output
    assert "the timing engine times kernels for sm_100a, on a b200" in done.stdout
    assert "tuned on the timing engine's b200" in command("inspect", MODEL, *WORDS).stdout
