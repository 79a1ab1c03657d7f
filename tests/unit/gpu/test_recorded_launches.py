"""The simulator leaves in the buffers of kernels what an H200 left, launched with `convc.launch`; no GPU is needed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from recordings.record_launches import KERNELS, WAIT, inputs_of, launch_of, text_of

import convc
from convc.gpu.contents import digest
from convc.ir.findings import Verdict
from convc.support.resources import PACKAGE

TESTS = Path(__file__).parents[2]
RECORD = json.loads((TESTS / "recordings" / "kernels_h200.json").read_text())
LAUNCHES = {each["name"]: each for each in RECORD["launches"]}


@pytest.mark.parametrize("name", KERNELS)
def test_the_machine_leaves_the_bytes_of_the_gpu(name):
    text = text_of(name)
    done = convc.simulate(text, launch_of(name), inputs_of(name))
    assert {buffer: digest(array) for buffer, array in done.buffers.items()} == LAUNCHES[name]["digests"]


def test_everything_was_right_there_too():
    assert set(LAUNCHES) == set(KERNELS) == set(RECORD["host_programs"])
    assert all(each["as_on_the_machine"] for each in LAUNCHES.values())
    assert all(RECORD["host_programs"].values()), "the emitted programs printed the same digests"
    assert RECORD["cubin"]
    assert RECORD["maps"] == {"encoded": 1000, "same": 1000}
    assert set(RECORD["own_maps"].values()) == {"encoded"}


def test_a_kernel_without_its_wait_failed_the_comparison_and_is_found_by_the_checkers():
    assert not RECORD["without_wait"]["ok"]
    edited = text_of("im2col_rows").replace(WAIT, "")
    done = convc.simulate(edited, launch_of("im2col_rows"), inputs_of("im2col_rows"), check=True)
    assert done.verdict >= Verdict.incomplete


@pytest.mark.parametrize(
    ("mistake", "exit_code", "said"),
    [
        ("target", 2, "the kernel is for sm_100a, and this GPU is an NVIDIA H200"),
        ("fault", 1, "CUDA_ERROR_ILLEGAL_ADDRESS, 700"),
        ("behind", 1, "wrote behind buffer 'y': byte 4000 of 4000"),
        ("hang", 1, "has not ended after 3 s"),
        ("entry", 2, "refused cuModuleGetFunction: CUDA_ERROR_NOT_FOUND"),
        ("syntax", 2, "Unknown modifier '.f33'"),
        ("parameters", 2, "has 4 parameters, the launch file gives 3"),
    ],
)
def test_mistakes_were_told_on_the_gpu(mistake, exit_code, said):
    answer = RECORD["mistakes"][mistake]
    assert answer["exit"] == exit_code
    assert said in answer["stderr"]
    assert "Traceback" not in answer["stderr"]


def test_the_page_has_the_recorded_times():
    page = (PACKAGE / "docs" / "hardware_measurements.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| ([\d.]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    assert {name: (float(alone), float(row)) for name, alone, row in rows if name in LAUNCHES} == {
        name: (each["microseconds"], each["streamed"]) for name, each in LAUNCHES.items()
    }
