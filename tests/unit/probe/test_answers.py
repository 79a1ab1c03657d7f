"""Probes on a GPU that is none, the file that comes of it, and the answers of an H100 and an H200, replayed."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner
from unit.gpu.fake_driver import BLACKWELL, H100, FakeDriver

import convc
from convc.cli.main import main
from convc.errors import GpuError, GpuFault
from convc.machine.base.switches import CHOICES, DEFAULTS, RECORDED
from convc.probe.all import PROBES
from convc.probe.kernel import OUT
from convc.probe.probes import RuleProbe
from convc.probe.record import read_probed
from convc.support.resources import schema_file
from convc.timing.parameters import read_chip

RECORDINGS = Path(__file__).parents[2] / "recordings"
RECORDED_FILE = RECORDINGS / "probes_h100.json"
BOTH_GPUS = pytest.mark.parametrize("file", [RECORDED_FILE, RECORDINGS / "probes_h200.json"], ids=["h100", "h200"])


def command(*words: object):
    return CliRunner().invoke(main, [str(word) for word in words], prog_name="convc")


def gpu(name: str, setting: str, now=BLACKWELL, **more) -> FakeDriver:
    """A GPU that answers a probe as the simulator does under a setting."""
    probe = PROBES[name]
    target = "sm_100a" if now is BLACKWELL else "sm_90a"
    data = probe.readings(target)[setting]
    kernel = probe.kernels(target)[0]

    def run(memory: dict[int, np.ndarray], params: list[bytes]) -> None:
        place = list(kernel.launch.buffers).index(OUT)
        memory[sorted(memory)[place]][: len(data)] = np.frombuffer(data, np.uint8)

    return FakeDriver(sizes=[8] * len(kernel.launch.params), kernel=run, now=now, **more)


@BOTH_GPUS
def test_what_a_gpu_answered_is_what_the_machine_does(file):
    settled = convc.settle_probes(file)
    assert settled.switches == {name: getattr(DEFAULTS, name) for name in RECORDED}
    assert settled.switch_options == ()
    assert all(outcome.known for outcome in settled.outcomes)
    known = {switch.name: switch.evidence for switch in convc.assumptions().switches}
    assert {name for name, evidence in known.items() if evidence == "recorded"} == set(RECORDED)


@BOTH_GPUS
def test_what_a_gpu_answered_lies_near_what_was_measured_otherwise(file):
    chip = read_chip("h200")
    settled = convc.settle_probes(file)
    assert settled.chip == "h200"
    for name, each in settled.parameters.items():
        low, high = chip.parameters[name].range
        assert each.range[0] <= high * 1.2, name
        assert each.range[1] >= low * 0.8, name
        assert (each.evidence, each.unit) == ("measured", chip.parameters[name].unit)
    assert set(settled.parameters) == {
        "threads.alu", "threads.divide", "shared_memory.load_latency", "threads.global_latency", "mbarrier.arrive",
        "mbarrier.wake", "mbarrier.poll", "gpc.together_in_step",
    }  # fmt: skip


def test_every_probe_for_hopper_ran_on_an_h200():
    record = read_probed(RECORDINGS / "probes_h200.json", PROBES)
    assert [answer.error for answer in record.probes] == [""] * 18
    assert {answer.probe for answer in record.probes} == {
        name for name, probe in PROBES.items() if "sm_90a" in probe.targets
    }


def test_answers_become_options_and_a_chip(tmp_path):
    target = tmp_path / "mine.toml"
    said = command("probe", "--apply", RECORDED_FILE, "-o", target)
    assert said.exit_code == 0, said.output
    assert "elect: lowest (elect)" in said.stdout.splitlines()
    assert f"wrote {target}" in said.stdout.splitlines()
    tables = tomllib.loads(target.read_text())
    assert tables["base"] == "h200"
    chip = read_chip(str(target))
    assert (chip.name, chip["mbarrier.wake"], chip["tma.fill"]) == (str(target), 55, read_chip("h200")["tma.fill"])
    assert chip.parameters["threads.alu"].source == "`convc probe alu` on NVIDIA H100, 2026-11-22"


@pytest.mark.parametrize("setting", CHOICES["refresh_lane"])
def test_a_run_settles_a_switch(setting, tmp_path, monkeypatch):
    used = gpu("refresh_lane", setting)
    monkeypatch.setattr("convc.api.probing.CudaDriver", lambda: used)
    file = tmp_path / "answers.json"
    said = command("probe", "--run", "refresh_lane", "-o", file)
    assert said.exit_code == 0, said.output
    assert f"refresh_lane: {setting} (refresh_lane)" in said.stdout
    assert ("--switch refresh_lane=zero" in said.stdout) == (setting == "zero")
    assert used.calls[-1] == "close"
    record = json.loads(file.read_text())
    jsonschema.validate(record, json.loads(schema_file("convc-probed/1").read_text("utf-8")))
    record["probes"][0]["outcome"] = "anything"
    file.write_text(json.dumps(record))
    assert convc.settle_probes(file).switches == {"refresh_lane": setting}, (
        "what a file says of outcomes is not believed"
    )
    assert read_probed(file, PROBES).device.name == "A Blackwell"


def test_probes_that_disagree_or_are_unknown_settle_nothing():
    readings = PROBES["colliding_stores"].readings("sm_90a")
    done = convc.run_probes(["colliding_stores"], opened=lambda: gpu("colliding_stores", "lowest", H100))
    assert done.settled.switches == {"colliding_stores": "lowest"}
    both = convc.run_probes(
        ["colliding_stores", "colliding_global_stores"], opened=lambda: gpu("colliding_stores", "highest", H100)
    )
    assert both.settled.switches == {}, "the second probe has the first one's answer, which is none of its own"
    assert [outcome.known for outcome in both.settled.outcomes] == [True, False]
    assert len(readings) == 2


def test_a_fault_opens_the_gpu_again_and_a_refusal_goes_on():
    faulting = gpu("elect", "lowest", H100, fails={"wait": GpuFault("it faulted")})
    drivers = [faulting, gpu("elect", "lowest", H100)]
    done = convc.run_probes(["divergence", "elect"], opened=lambda: drivers.pop(0))
    assert [answer.error for answer in done.record.probes] == ["it faulted", ""]
    assert faulting.calls[-1] == "close"
    assert done.settled.switches == {"elect": "lowest"}
    refusing = gpu("elect", "lowest", H100, fails={"load": GpuError("no")})
    done = convc.run_probes(["divergence", "elect"], opened=lambda: refusing)
    assert [answer.error for answer in done.record.probes] == ["no", "no"]


def test_nothing_runs_behind_a_fault_that_stays_or_a_hang():
    drivers = [gpu("elect", "lowest", H100, fails={"wait": GpuFault("it faulted")})]
    drivers.append(FakeDriver(fails={"device": GpuError("no context")}))
    done = convc.run_probes(["elect", "divergence"], opened=lambda: drivers.pop(0))
    assert done.record.probes[1].error.startswith(
        "not run: the GPU refuses this process after the fault of probe elect"
    )
    hanging = gpu("elect", "lowest", H100, hangs=True)
    done = convc.run_probes(["elect", "divergence"], opened=lambda: hanging)
    assert done.hangs
    assert [answer.error[:7] for answer in done.record.probes] == ["kernel ", "not run"]
    assert "close" not in hanging.calls


def test_what_a_stranger_says_went_wrong_is_made_visible(tmp_path):
    record = json.loads(RECORDED_FILE.read_text())
    record["probes"][0] |= {"answers": [], "error": "a \x1b[31mred\x1b[0m word"}
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(record))
    said = command("probe", "--apply", file)
    assert said.exit_code == 0, said.output
    assert "\x1b" not in said.stdout
    assert "red" in said.stdout.splitlines()[1]
    record["probes"][0]["error"] = "x" * 5000
    file.write_text(json.dumps(record))
    assert "has more than 4000 characters" in command("probe", "--apply", file).stderr


def test_gpus_that_probes_are_not_for():
    with pytest.raises(GpuError, match=r"probes are for sm_90 and sm_100, and this GPU is an A Hopper \(sm_89\)"):
        convc.run_probes(opened=lambda: FakeDriver(now=replace(H100, capability=(8, 9))))
    with pytest.raises(GpuError, match="none of the probes runs on A Hopper"):
        convc.run_probes(["shift"], opened=FakeDriver)
    said = command("probe", "--run")
    assert said.exit_code == 2
    assert said.stderr.startswith("error[G100]: ")


def test_every_open_switch_has_a_probe_but_two():
    without = {switch.name for switch in convc.assumptions().switches if not switch.probes}
    assert without == {"pair_mask", "approximate"}
    settled = {probe.switch for probe in PROBES.values() if isinstance(probe, RuleProbe) and probe.switch}
    assert settled | without == set(CHOICES) - {"numerics"}


def test_the_list_has_everything():
    said = command("probe", "--chip", "h200")
    assert said.exit_code == 0, said.output
    for name in (*PROBES, *(set(CHOICES) - {"numerics"}), "tensor_core.strip_columns"):
        assert name in said.stdout, name
