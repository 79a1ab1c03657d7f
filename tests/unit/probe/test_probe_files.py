"""Kernels of probes stay what recorded answers were given to, and files of answers are refused at each limit."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from unit.gpu.fake_driver import H100, FakeDriver

import convc
from convc.errors import GpuError, InputError
from convc.probe.all import PROBES
from convc.probe.clocks import COUNTS, ROUNDS, slope
from convc.probe.probes import Probe, RuleProbe
from convc.probe.record import MOST_BYTES, MOST_ERROR, MOST_NAME, read_probed
from convc.probe.settled import parameters_toml

RECORDINGS = Path(__file__).parents[2] / "recordings"
RECORD = json.loads((RECORDINGS / "probes_h100.json").read_text())


def pieces(probe: Probe, target: str) -> Iterator[tuple[str, bytes]]:
    """What a GPU is given, and what stands for each reading of a rule."""
    for number, kernel in enumerate(probe.kernels(target)):
        data = b"".join(array.tobytes() for array in kernel.buffers.values())
        yield f"launch {number}", kernel.text.encode() + msgspec.json.encode(kernel.launch) + data
    if isinstance(probe, RuleProbe):
        for setting, changes in probe.variants.items():
            yield f"variant {setting}", repr(changes).encode()


def test_a_kernel_is_what_recorded_answers_were_given_to(golden):
    """An answer of a GPU is understood with the kernel of today: one that changed needs its probe run again."""
    lines = [
        f"{probe.name} {target} {piece} {hashlib.sha256(data).hexdigest()[:16]}\n"
        for probe in PROBES.values()
        for target in probe.targets
        for piece, data in pieces(probe, target)
    ]
    golden("probes", {"kernels.txt": "".join(lines)})


def first(change: dict[str, Any]) -> Callable[[dict[str, Any]], object]:
    """The first answer of the record with other fields."""
    return lambda record: record["probes"][0].update(change)


def device(change: dict[str, str]) -> Callable[[dict[str, Any]], object]:
    return lambda record: record["device"].update(change)


def again(record: dict[str, Any]) -> None:
    record["probes"].append(record["probes"][0])


def longer(record: dict[str, Any]) -> None:
    answer = record["probes"][0]["answers"]
    answer[0] = "AAAA" + answer[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (device({"name": "x" * (MOST_NAME + 1)}), "a name has at most 200 printable characters"),
        (device({"cuda": "x" * (MOST_NAME + 1)}), "a name has at most 200 printable characters"),
        (device({"name": "a\x1b[31mb"}), "a name has at most 200 printable characters"),
        (lambda record: record.update(date="\n"), "a name has at most 200 printable characters"),
        (device({"arch": "sm_89"}), "probes are for sm_90 and sm_100, got answers of 'sm_89'"),
        (first({"probe": "elekt"}), "there is no probe 'elekt'"),
        (first({"target": "sm_100a"}), "and the GPU is sm_90: got 'sm_100a'"),
        (first({"probe": "shift"}), "probe shift is for sm_100a, and the GPU is sm_90: got 'sm_90a'"),
        (again, "is there twice"),
        (first({"error": "x" * (MOST_ERROR + 1)}), "has more than 4000 characters"),
        (first({"answers": []}), "launches, got answers of 0"),
        (first({"answers": ["?"]}), "is not base64"),
        (longer, r"an answer of probe \w+ has \d+ bytes, got \d+"),
        (lambda record: record.update(more=1), "it is no file of `convc probe --run`"),
    ],
)
def test_what_is_no_record_of_a_gpu_is_refused(change, message, tmp_path):
    record = copy.deepcopy(RECORD)
    change(record)
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(record))
    with pytest.raises(InputError, match=message) as refused:
        read_probed(file, PROBES)
    assert refused.value.where == str(file)


@pytest.mark.parametrize(
    "change", [device({"name": "x" * MOST_NAME}), first({"error": "x" * MOST_ERROR, "answers": ["?"]})]
)
def test_what_is_as_long_as_it_may_be_is_taken(change, tmp_path):
    record = copy.deepcopy(RECORD)
    change(record)
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(record))
    assert len(read_probed(file, PROBES).probes) == len(RECORD["probes"])


def test_a_file_has_a_most_and_has_to_be_there(tmp_path):
    file = tmp_path / "answers.json"
    with pytest.raises(InputError, match="there is no"):
        read_probed(file, PROBES)
    text = json.dumps(RECORD)
    file.write_text(text.ljust(MOST_BYTES))
    assert read_probed(file, PROBES).device.name == RECORD["device"]["name"]
    file.write_text(text.ljust(MOST_BYTES + 1))
    with pytest.raises(InputError, match=f"at most {MOST_BYTES} bytes, got {MOST_BYTES + 1}"):
        read_probed(file, PROBES)


@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_what_the_answers_of_a_gpu_mean_to_the_last_digit(gpu, golden):
    """A file of parameters, and options of commands; their sense is judged in test_answers.py."""
    settled = convc.settle_probes(RECORDINGS / f"probes_{gpu}.json")
    options = [*settled.switch_options, *settled.time_options, *map(str, settled.rules.items())]
    golden("probes", {f"{gpu}.toml": parameters_toml(settled), f"{gpu}.txt": "\n".join(options) + "\n"})


def test_cycles_of_an_instruction_are_of_the_quickest_rounds_and_range_over_all_but_two():
    """By hand: 10, 15 and 4 cycles each in rounds 2 to 4; the quickest rounds of each launch are 16 apart."""
    span = COUNTS[1] - COUNTS[0]
    few = np.array([7000, 0, 100, 200, 350, *(ROUNDS - 5) * [300]], np.uint64)
    many = np.array([9000, 8000, 100 + 10 * span, 200 + 15 * span, 350 + 4 * span, *(ROUNDS - 5) * [300 + 10 * span]])
    value, low, high = slope([few, many.astype(np.uint64)])
    assert (value, low, high) == (pytest.approx(min(many) / span), 4, 15)
    assert slope([np.append(few, 0), np.append(many, 0)]) == (value, low, high), "what follows the rounds is not read"


def test_gpus_that_have_no_probes_are_told_what_has():
    with pytest.raises(GpuError) as refused:
        convc.run_probes(opened=lambda: FakeDriver(now=replace(H100, capability=(8, 9))))
    assert refused.value.hint == "B200 and GB200, H100 and H200 have these"
    with pytest.raises(GpuError) as refused:
        convc.run_probes(["shift"], opened=FakeDriver)
    assert refused.value.hint == "`convc probe` lists them"


def test_what_is_done_is_told_from_none_to_all():
    """Each probe is told before it runs, with the share that is behind."""
    said: list[tuple[str, float]] = []
    convc.run_probes(
        ["elect", "divergence"], opened=lambda: FakeDriver(now=H100), progress=lambda *told: said.append(told)
    )
    assert said == [("elect", 0.0), ("divergence", 0.5)]
