"""Every probe tells its outcomes apart before any GPU is asked, and ptxas takes its text."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from convc.errors import InputError
from convc.machine import RunOptions, run
from convc.machine.base.switches import Switches
from convc.probe.all import PROBES
from convc.probe.clocks import COUNTS, ROUNDS
from convc.probe.kernel import OUT, ProbeKernel, probe_text
from convc.probe.probes import BOTH, SHOTS, ClockProbe, RuleProbe, chosen
from convc.support.ptxas import assemble
from convc.timing.kernel import time_kernel
from convc.timing.parameters import chip_for, read_chip

RUN = RunOptions()
RULES = [(probe.name, target) for probe in PROBES.values() if isinstance(probe, RuleProbe) for target in probe.targets]
CLOCKS = [
    (probe.name, target) for probe in PROBES.values() if isinstance(probe, ClockProbe) for target in probe.targets
]


@pytest.mark.one_of(3)
@pytest.mark.parametrize(("name", "target"), RULES)
def test_each_outcome_is_told_apart_and_the_first_is_the_machines(name, target):
    probe = PROBES[name]
    kernels = probe.kernels(target)
    readings = probe.readings(target)
    assert len(set(readings.values())) == len(readings) == len(probe.settings) > 1
    options = RunOptions(switches=Switches(numerics=probe.numerics))
    plain = run(kernels[0].text, kernels[0].launch, kernels[0].buffers, options=options).buffers[OUT].tobytes()
    assert readings[probe.settings[0]] == plain
    assert all(len(data) == kernels[0].out_bytes <= 1 << 15 for data in readings.values())
    for setting, data in readings.items():
        assert probe.read(target, [data] * len(kernels)).setting == setting
    other = bytes(byte ^ 0x5A for byte in plain)
    answer = probe.read(target, [other] * len(kernels))
    assert (answer.setting, str(answer)) == ("", "unknown answer: please report the file")


def test_what_is_proved_by_one_launch_of_several():
    probe = PROBES["ashift_then_cp"]
    readings = probe.readings("sm_100a")
    both = [readings["ordered"]] * (SHOTS - 1)
    assert probe.read("sm_100a", [*both, readings["ordered"]]).setting == "ordered"
    assert probe.read("sm_100a", [*both, readings["unordered"]]).setting == "unordered"
    assert probe.read("sm_100a", [*both, bytes(16640)]).setting == ""


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_the_assembler_takes_every_text(target):
    """All kernels with the same declarations as entries of one module."""
    kernels: list[ProbeKernel] = []
    for probe in PROBES.values():
        kernels += probe.kernels(target)[:1] if target in probe.targets else ()
    heads: dict[str, list[str]] = {}
    for number, kernel in enumerate(kernels):
        head, _, rest = kernel.text.partition(".visible .entry probe(")
        declared = "".join(line for line in head.splitlines(True) if not line.startswith("//"))
        heads.setdefault(declared, []).append(f".visible .entry probe{number}({rest}")
    for head, entries in heads.items():
        assemble(head + "\n".join(entries), target)


@pytest.mark.parametrize("frame", ["warp", "clock", "copy", "wake", "stream", "tensor"])
def test_a_frame_changes_in_its_target_and_its_middle_alone(frame):
    lines = [probe_text(frame, target, "    bar.sync 0;").splitlines() for target in BOTH]
    differ = [pair for pair in zip(*lines, strict=True) if pair[0] != pair[1]]
    assert [one.split()[0] for one, _ in differ] == [".version", ".target"]
    assert not any(re.fullmatch("// [A-Z]+", line) for line in lines[0])


def cycles(few: int, many: int) -> list[bytes]:
    """Rounds of two launches, the first of which fetch their instructions."""
    start = np.array([900, 40, 0, 0, 1, 0, 2, 0], np.uint64)
    return [(start + number).tobytes() for number in (few, many)]


@pytest.mark.parametrize(
    ("name", "each", "parameter", "value"),
    [
        ("alu", 4, "threads.alu", 4),
        ("divide", 57, "threads.divide", 57),
        ("shared_load", 23, "shared_memory.load_latency", 23),
        ("global_load", 300, "threads.global_latency", 300),
        ("arrive", 6, "mbarrier.arrive", 6),
        ("shift", 44, "tensor_memory.shift", 44),
        ("copy", 64, "tensor_memory.copy", 64),
        ("copy_least", 48, "tensor_memory.copy_least", 48),
        ("copy_small", 18, "tensor_memory.copy_small", 18),
    ],
)
def test_cycles_become_parameters(name, each, parameter, value):
    probe = PROBES[name]
    target = probe.targets[-1]
    answers = cycles(100 + COUNTS[0] * each, 100 + COUNTS[1] * each)
    sizes = [kernel.out_bytes for kernel in probe.kernels(target)]
    answers = [
        bytes(size - 256) + data.ljust(256, b"\0") if size > 256 else data
        for data, size in zip(answers, sizes, strict=True)
    ]
    answer = probe.read(target, answers)
    assert answer.values == {parameter: pytest.approx(value)}
    assert answer.low[parameter] <= value <= answer.high[parameter]
    assert probe.parameters == (parameter,)
    assert not probe.read(target, [bytes(size) for size in sizes]).values


def test_wake_ups_that_are_uniform():
    waits = np.concatenate([np.full(8, 9999), np.linspace(120, 265, 248)]).astype(np.uint64)
    answer = PROBES["wake"].read("sm_90a", [waits.tobytes()])
    assert answer.values == {"mbarrier.wake": pytest.approx(70), "mbarrier.poll": pytest.approx(145, abs=1)}
    assert answer.low["mbarrier.wake"] == 70
    assert answer.high["mbarrier.wake"] == 120


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_shared_requests(target):
    chip = read_chip(chip_for(target))
    ctas = int(chip["chip.sms"])
    own = np.full(ctas, 100_000, np.uint64)
    same = np.full(ctas, 40_000, np.uint64)
    answer = PROBES["l2_sharing"].read(target, [own.tobytes(), same.tobytes()])
    assert answer.values == {"gpc.together_in_step": pytest.approx(2.5)}
    assert not PROBES["l2_sharing"].read(target, [same.tobytes(), own.tobytes()]).values, "reading the same is slower"


@pytest.mark.parametrize(
    ("name", "value", "near"),
    [
        ("shared_load", 37, 0.01), ("arrive", 21, 0.01), ("shift", 50, 0.12), ("ashift", 30, 0.15), ("copy", 40, 0.1),
        ("copy_least", 90, 0.06), ("copy_small", 70, 0.1), ("l2_sharing", 2.0, 0.1),
    ],
)  # fmt: skip
def test_the_model_of_a_chip_finds_the_number_that_it_was_given(name, value, near):
    """Each kernel is timed on a chip with that number; its cycles, in place of the clock's, give the number back."""
    probe = PROBES[name]
    target = probe.targets[0]
    kernels = probe.kernels(target)
    (parameter,) = probe.parameters
    chip = read_chip(chip_for(target), [f"{parameter}={value}"])
    times = [time_kernel(kernel.text, kernel.launch, kernel.buffers, chip).cycles for kernel in kernels]
    answers: list[bytes] = []
    for kernel, spent in zip(kernels, times, strict=True):
        words = kernel.out_bytes // 8
        rounds = 1 if words > ROUNDS and name == "l2_sharing" else ROUNDS
        answers.append(np.full(words, round(spent / rounds), np.uint64).tobytes())
    assert probe.read(target, answers).values[parameter] == pytest.approx(value, rel=near)


@pytest.mark.parametrize(("name", "target"), CLOCKS)
def test_a_clock_probe_runs_on_the_machine(name, target):
    """Its numbers mean nothing there; it comes to its end, and nothing is wrong with it."""
    for kernel in PROBES[name].kernels(target)[:1]:
        ctas = (0, 1) if kernel.launch.ctas > 1 else None
        result = run(kernel.text, kernel.launch, kernel.buffers, options=replace(RUN, ctas=ctas))
        assert result.findings == ()


def test_names_are_found_or_refused():
    assert [probe.name for probe in chosen(PROBES, ["elect", "shift"])] == ["elect", "shift"]
    assert chosen(PROBES, []) == tuple(PROBES.values())
    with pytest.raises(InputError, match="there is no probe 'elekt'") as caught:
        chosen(PROBES, ["elekt"])
    assert "did you mean 'elect'?" in str(caught.value)
