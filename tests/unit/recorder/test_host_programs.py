"""Host programs in C, without a GPU: memory, maps, variables, clusters, failures, and what the stand-ins lack."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

import convc
from convc.cli.main import main
from convc.errors import InputError, ToolError
from convc.recorder import program
from convc.recorder.linked import linked_runtime
from convc.support.resources import schema_file
from tests.unit.recorder.test_fatbin import entry, fatbin

HERE = Path(__file__).parent
TEXT = HERE / "kernels.ptx"


@pytest.fixture(scope="module")
def stand_ins(programs, tmp_path_factory) -> Path:
    """The stand-ins, built once for all tests."""
    folder = tmp_path_factory.mktemp("libraries")
    program.build_stand_ins(programs / "runtime_program.13", folder)
    return folder


@pytest.fixture
def record(programs, stand_ins, monkeypatch, capfd):
    """Run a program; the recording and what it printed."""
    monkeypatch.setattr(
        program, "build_stand_ins", lambda _, folder: shutil.copytree(stand_ins, folder, dirs_exist_ok=True)
    )

    def run(*words: str | Path, name: str = "host_program", **options):
        done = convc.record([str(programs / name), *map(str, words)], **options)
        return done, capfd.readouterr().out

    return run


def test_a_program_finds_its_results(record):
    done, said = record("add", TEXT, check=True)
    assert done.ok
    assert said == "device 0, compute capability 10\npassed\n"
    (launch,) = done.launches
    assert (launch.entry, launch.grid, launch.block, launch.file) == (
        "add",
        (2, 1, 1),
        (128, 1, 1),
        "host_program.1.ptx",
    )
    assert repr(done).endswith("host_program: exit status 0, 1 launch, clean>")


def test_the_target_is_what_the_program_sees(record):
    assert record("add", TEXT, target="sm_90a")[1] == "device 0, compute capability 9\npassed\n"


def test_a_tensor_map_is_encoded_or_refused_as_the_driver_does(record):
    done, said = record("tensor", TEXT, check=True)
    assert done.ok
    assert said.splitlines()[1:] == ["stride 60: 1", "passed"]
    assert [note[:33] for note in done.notes] == ["tensor map: strides[0] (globalStr"]


def test_variables_keep_what_kernels_and_the_program_leave_in_them(record):
    done, said = record("state", TEXT)
    assert done.status == 0
    assert said.splitlines()[1:] == ["counter 9 of 4 bytes", "too much: 1", "asked for: 0"]
    assert len(done.launches) == 3
    assert "more than the 49152" in done.notes[0]


def test_a_cluster_and_memory_that_both_sides_have(record):
    done, said = record("cluster", TEXT)
    assert done.launches[0].cluster == (2, 1, 1)
    assert said.splitlines()[1:] == ["ranks 0 1 0 1"]


def test_a_fault_is_the_programs_and_a_finding(record):
    done, said = record("fault", TEXT)
    assert not done.ok
    assert done.status == 1
    assert said.splitlines()[1:] == ["cuLaunchKernel: 719, unspecified launch failure"]
    assert [finding.rule for finding in done.findings] == ["fault"]


def test_a_race_is_found_though_the_program_passes(record):
    done, said = record("race", TEXT, check=True)
    assert (done.status, done.ok, said.splitlines()[1]) == (0, False, "passed")
    assert done.findings[0].rule == "race-shared-memory"


@pytest.fixture
def image(tmp_path) -> Path:
    """A fat binary with the kernels' text."""
    file = tmp_path / "image"
    file.write_bytes(fatbin(entry(TEXT.read_bytes())))
    return file


@pytest.mark.parametrize("version", [12, 13])
def test_the_runtime_registers_and_launches(record, image, version):
    done, said = record(image, name=f"runtime_program.{version}")
    assert done.ok
    assert said.splitlines() == [
        "the simulator of convc: 148 SMs",
        "value 8, time passed",
        "managed 42, as a symbol 42",
        "unknown kernel: invalid device function, then 0",
    ]


@pytest.mark.parametrize("version", [12, 13])
def test_a_graph_runs_in_the_order_of_its_dependencies(record, image, version):
    done, said = record("captured", image, name=f"graph_program.{version}", check=True)
    assert done.ok
    assert said.splitlines() == ["6 nodes, 0 calls, first 0, captured 1 then 0", "3 calls"]
    assert [launch.entry for launch in done.launches] == ["add"] * 6
    assert record("explicit", image, name=f"graph_program.{version}")[1] == "a circle: 1\n"


def test_what_a_capture_does_not_allow_is_refused_as_the_driver_does(record, image):
    done, said = record("refused", image, name="graph_program.13")
    assert said.splitlines() == [
        "fork without join: 904, no graph",
        "legacy stream: 906, then 901",
        "synchronize: 900, then 901",
        "event from outside: 905, then 901",
        "event inside: 907, then 901",
        "launches now: 0",
    ]
    assert len(done.launches) == 1, "none of those that were captured"


def test_translation_units_are_linked(record, image, tmp_path):
    defined = ".visible .const .align 4 .u32 step = 1;"
    whole = TEXT.read_text()
    assert defined in whole
    texts = (whole.replace(defined, ".extern .const .align 4 .u32 step;"), whole.partition(".visible")[0] + defined)
    units = [tmp_path / "unit0", tmp_path / "unit1"]
    for unit, text in zip(units, texts, strict=True):
        unit.write_bytes(fatbin(entry(text.encode())))
    image.write_bytes(fatbin(entry(b"\x7fELF", kind=2)))  # what nvlink made of them
    assert record(image, *units, name="runtime_program.13")[1].splitlines()[1] == "value 8, time passed"


def test_a_program_sees_fewer_sms(record, image):
    assert record(image, name="runtime_program.13", sms=3)[1].splitlines()[0] == "the simulator of convc: 3 SMs"
    for sms, message in ((133, "sm_90a has 1 to 132 SMs, got 133"), (0, "1 to 132"), ("3", "a number")):
        with pytest.raises(InputError, match=message):
            record(image, name="runtime_program.13", sms=sms, target="sm_90a")


def test_a_runtime_that_is_linked_into_the_program_is_redirected(linked_program, image, capfd):
    assert subprocess.run([linked_program, image], check=False).returncode == 7, "it has no driver"
    done = convc.record([str(linked_program), str(image)], check=True)
    assert done.ok
    assert capfd.readouterr().out.splitlines()[1:] == [
        "value 8, time passed",
        "managed 42, as a symbol 42",
        "unknown kernel: invalid device function, then 0",
    ]
    assert "cudaGraphCreate" in {each.name for each in linked_runtime(linked_program)}


def test_without_its_symbols_it_is_left_as_it_is(linked_program, tmp_path):
    stripped = tmp_path / "stripped"
    shutil.copy(linked_program, stripped)
    assert linked_runtime(stripped)
    subprocess.run(["strip", stripped], check=True)
    assert linked_runtime(stripped) == ()


def test_on_another_processor_the_runtime_is_asked_for_as_a_library(programs, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(InputError, match="on x86-64 alone, not on aarch64") as refused:
        linked_runtime(programs / "linked_program")
    assert refused.value.hint == "nvcc -cudart shared"
    assert linked_runtime(programs / "host_program") == ()


def test_a_function_that_is_not_there_is_refused_by_its_name(record):
    with pytest.raises(InputError, match="calls cuTexObjectCreate, which convc record does not implement") as refused:
        record("missing", TEXT)
    assert refused.value.hint.startswith("the simulator has no texture unit")


def test_names_that_a_program_links_get_stubs(tmp_path, monkeypatch):
    commands: list[list[str]] = []
    monkeypatch.setattr(program, "_compile", commands.append)
    named = tmp_path / "named"
    named.write_bytes(
        b"\0cudaGraphClone\0cuTexRefCreate\0cudaMalloc\0__cudaRegisterTexture@lib\0cudaword\0cuMemcpy_ptds\0"
    )
    program.build_stand_ins(named, tmp_path)
    assert [line.split("(")[0] for line in (tmp_path / "stubs.c").read_text().splitlines()[1:]] == [
        "void __cudaRegisterTexture", "void cuTexRefCreate", "void cudaGraphClone",
    ]  # fmt: skip
    assert "-Wl,--defsym=cuMemcpy_ptds=cuMemcpy" in commands[0], "of the thread's default stream"


def test_the_command_reports_behind_the_program(record, programs, tmp_path):
    report = tmp_path / "report.json"
    words = [str(programs / "host_program"), "race", str(TEXT)]
    done = CliRunner().invoke(main, ["record", "--check", "--json", str(report), "--", *words])
    assert done.exit_code == 1
    assert "race: 1 launch, 1 CTAs, " in done.stderr
    assert "1 launch: error, 3 findings" in done.stderr
    told = json.loads(report.read_text())
    assert (told["format"], told["status"], told["verdict"]) == ("convc-record/1", 0, "error")
    assert len(told["groups"]) == 3
    jsonschema.validate(told, json.loads(schema_file("convc-record/1").read_text(encoding="utf-8")))


def test_a_launch_is_written_as_a_folder_that_exec_runs(record, tmp_path):
    record("add", TEXT, emit_launch=tmp_path / "launches")
    folder = tmp_path / "launches" / "001-add"
    done = convc.simulate(folder / "kernel.ptx", folder / "launch.json")
    sums = done.buffers["a2"].view("f4")
    assert sums.tolist() == [number + 1 for number in range(256)]
    with pytest.raises(InputError, match="has something in it"):
        record("add", TEXT, emit_launch=tmp_path / "launches")
    with pytest.raises(InputError, match="no folder can be made there"):
        record("add", TEXT, emit_launch=folder / "kernel.ptx")


def test_what_cannot_be_recorded(record, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="there is no program of that name"):
        convc.record([str(tmp_path / "nothing")])
    with pytest.raises(InputError, match="runs for one of sm_100a, sm_90a"):
        record("add", TEXT, target="sm_80")
    with pytest.raises(InputError, match="a list of the program"):
        convc.record("program")
    monkeypatch.setattr(program.shutil, "which", lambda name: None)
    with pytest.raises(ToolError, match="there is none"):
        program.compiler()


def test_the_file_that_has_nvidias_runtime_in_it_is_named(record, programs, tmp_path):
    with pytest.raises(InputError, match="into the program, whose functions have no symbols") as refused:
        record("table", TEXT)
    assert refused.value.where == str(programs / "host_program")
    source, library = tmp_path / "library.c", tmp_path / "library.so"
    source.write_text("int ask(int (*call)(void *, void *)) { int said = call(0, 0); return said + 1; }\n")
    subprocess.run([program.compiler(), "-shared", "-fPIC", "-o", library, source], check=True)
    with pytest.raises(InputError, match="into a library of the program") as refused:
        record("table", TEXT, library)
    assert refused.value.where == str(library)
