"""``convc time``: a model, a build, anybody's kernel; its numbers, and what is refused."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

import convc as package
from convc import ChipOptions, ScheduleOptions
from convc.api.timing import only
from convc.cli.main import main
from convc.compiler.schedules.all import RELOAD, SLIDE
from convc.draw.passes import passes_picture
from convc.report.passes import CSV_COLUMNS as PASS_COLUMNS
from convc.report.time_files import EVENT_COLUMNS, LAYER_COLUMNS
from convc.support.resources import model_folder
from convc.timing.parameters import read_chip
from convc.timing.passes import steps

FOREIGN = Path(__file__).resolve().parents[2] / "foreign" / "matmul_tma_f16"
FILES = (FOREIGN / "kernel.ptx", FOREIGN / "launch.json")


def test_a_model_has_a_line_for_each_layer(convc, two):
    shown = convc.good("time", two)
    lines = shown.splitlines()
    assert lines[0].split()[:4] == ["layer", "schedule", "cycles", "us"]
    assert [line.split()[0] for line in lines[1:3]] == ["stem", "head"]
    assert "total: " in shown


def test_what_lies_between_kernels_of_a_graph_is_less_with_dependent_launch(convc, two, tmp_path):
    """One gap between two kernels: the period of empty ones, less the entry of a CTA, which a kernel's time has."""
    found = []
    for options in ((), ("--pdl",)):
        convc.good("time", two, *options, "--set", "launch.entry=200", "--clock", "2", "--json", tmp_path / "t.json")
        found.append(json.loads((tmp_path / "t.json").read_text())["gaps_microseconds"])
    chip = read_chip("b200")
    assert found == pytest.approx([chip["launch.period"] - 0.1, chip["launch.dependent_period"] - 0.1])
    entry = chip["launch.entry"] / chip["chip.clock"] / 1000
    assert f"in a CUDA graph: {chip['launch.period'] - entry:.1f} us more" in convc.good("time", two)


def test_one_layer_is_shown_with_what_it_waits_for_and_what_it_rests_on(convc, tiny):
    shown = convc.good("time", tiny)
    assert "cycles" in shown
    assert "critical path of the first wave" in shown
    assert "sensitivity: change of the time over the range of a parameter, if 2 % or more" in shown
    assert "tma.latency (inferred)" in shown


def test_a_model_comes_from_stdin(convc, tiny):
    result = convc("time", "-", stdin=tiny.read_bytes())
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1:] == convc.good("time", tiny).splitlines()[1:]


def test_a_build_takes_as_long_as_its_model(convc, tiny, build, tmp_path):
    convc.good("time", tiny, "--json", tmp_path / "model.json")
    convc.good("time", build, "--json", tmp_path / "build.json")
    model, built = (json.loads((tmp_path / name).read_text()) for name in ("model.json", "build.json"))
    assert model["format"] == "convc-time/2"
    assert model["layers"][0]["cycles"] == built["layers"][0]["cycles"]
    path = model["layers"][0]["critical_path"]
    assert sum(part["cycles"] for part in path) == pytest.approx(sum(model["layers"][0]["wave_cycles"]))


def test_a_build_knows_what_its_order_of_tiles_fetches_until_its_text_is_changed(build, kernel):
    """L2 holds nothing: what is fetched again counts. Plans of older versions of convc also said what is ``beside``."""
    chip = ChipOptions(settings=("chip.l2_bytes=1024", "chip.memory=0.05"))
    [alone] = package.time(build, chip=chip).layers
    plan = kernel.with_name("plan.json")
    said = json.loads(plan.read_text())
    said["launch"]["order"]["timed"] = {"fetched": 10 * alone.kernel.operands.read, "beside": 1}  # as once written
    plan.write_text(json.dumps(said))
    [ordered] = package.time(build, chip=chip).layers
    assert ordered.kernel.operands.fetched == 10 * alone.kernel.operands.read
    assert ordered.kernel.cycles > 2 * alone.kernel.cycles
    kernel.write_text(kernel.read_text() + "\n// changed by hand\n")
    [changed] = package.time(build, chip=chip).layers
    assert changed.kernel.operands.fetched is None
    assert changed.kernel.cycles < 1.1 * alone.kernel.cycles


def test_anybodys_kernel_is_timed_by_lines(convc):
    shown = convc.good("time", FOREIGN / "kernel.ptx", FOREIGN / "launch.json", "--passes")
    assert "line " in shown
    assert "2 tcgen05.mma of 128 x 128, step by step" in shown
    assert "read A" in shown


def test_products_of_a_warp_have_their_published_steps(convc, tmp_path):
    wmma = FOREIGN.parent / "cuda_wmma"
    shown = convc.good("time", wmma / "kernel.ptx", wmma / "launch.json", "--passes")
    volta = shown.split("m16n16k16.f32.f32 on Volta, HMMA by HMMA ==")[1]
    assert "  1 0:3    0:1     4:5       0:3  X         1024  1024  2048     10  HMMA.884.F32.F32.STEP0" in volta
    assert "  4 8:15   0:15  8:15        2048  1024  4096  HMMA.1688.F32" in volta
    written = convc("time", wmma / "kernel.ptx", wmma / "launch.json", "--passes", "-o", tmp_path / "x.csv")
    assert written.exit_code == 2
    assert "steps are published for f16 only" in written.stderr


def test_parameters_and_the_clock_can_be_set(tiny):
    [usual] = package.time(tiny).layers
    [slow] = package.time(tiny, chip=ChipOptions(settings=("tma.latency=5000",))).layers
    [clocked] = package.time(tiny, chip=ChipOptions(clock=0.925)).layers
    [hopper] = package.time(tiny, schedule=ScheduleOptions(target="sm_90a")).layers
    assert slow.kernel.cycles > usual.kernel.cycles + 4000
    assert clocked.kernel.microseconds == pytest.approx(2 * usual.kernel.microseconds)
    assert (usual.kernel.chip.name, hopper.kernel.chip.name) == ("b200", "h200")
    assert repr(package.time(tiny)).startswith("<TimeReport tiny_conv.onnx: 1 kernel,")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--chip", "b100"], "there is no chip 'b100': expected one of b200, b300, h100, h200"),
        (["--set", "tma.fil=3"], "no parameter 'tma.fil'; did you mean tma.fill?"),
        (["--set", "tma.fill=3 GHz"], "tma.fill is in B/clk"),
        (["--set", "tma.fill"], "expected NAME=VALUE"),
        (["--clock", "0"], "0.1<=x<=10.0"),
        (["--layer", "conw"], "conv"),
        (["--chip", "h200"], "the kernel is for sm_100a, and chip h200 is sm_90: expected chip b200 or b300"),
        (["--chip", "b300", "--target", "sm_90a"], "leave --chip out, or compile with --target sm_100a"),
    ],
)
def test_what_there_is_not_is_refused(convc, tiny, arguments, said):
    assert said in convc.refused("time", tiny, *arguments)


def test_a_kernel_needs_its_launch_file(convc):
    assert "a kernel file needs its launch file" in convc.refused("time", FOREIGN / "kernel.ptx")
    assert "there is no such file or folder" in convc.refused("time", FOREIGN / "kernel.ptx", FOREIGN / "none.json")


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> tuple[str, Path]:
    """All that can be said of a kernel, on a terminal of 90 columns: what is shown, and the folder with the files."""
    folder = tmp_path_factory.mktemp("time")
    files = ["--csv", folder / "events.csv", "--trace", folder / "t.pftrace", "--passes", "-o", folder / "passes.csv"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "90")
        words = ["time", model_folder() / "tiny_conv.onnx", "--timeline", *files]
        done = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout, folder


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_kernel_is_shown_on_a_timeline_as_wide_as_the_terminal(written):
    shown, _ = written
    lines = shown[shown.index("== first wave") :].splitlines()
    tracks = [line for line in lines if "|" in line]
    assert {len(line) for line in tracks} == {90}
    names = [line.split("|")[0].strip() for line in tracks]
    assert names[:4] == [f"epilogue warp {warp}" for warp in range(4)]
    assert names[4] == "mma warp 4"
    assert {"tensor core", "fill", "copies in flight", "full[0]"} <= set(names)
    assert "T waits for TMA copy" in lines[-1]
    assert "TTTT" in next(line for line in tracks if line.startswith("mma"))


def test_a_kernel_is_written_event_by_event(written, tiny):
    events = rows_of((written[1] / "events.csv").read_text())
    assert tuple(events[0]) == EVENT_COLUMNS
    [layer] = package.time(tiny).layers
    last = max(float(event["end_cycle"]) for event in events)
    assert last == pytest.approx(layer.kernel.cycles - layer.kernel.launch.spread)
    loads = [event for event in events if event["name"] == "load"]
    assert all(int(event["bytes"]) > 0 and event["track"] == "tma" for event in loads)
    assert "TMA copy" in {event["waits_for"] for event in events}


def test_a_trace_is_written(written):
    assert (written[1] / "t.pftrace").stat().st_size > 10_000


def test_passes_are_written_as_rows(written):
    shown, folder = written
    assert "step by step" not in shown
    rows = rows_of((folder / "passes.csv").read_text())
    assert tuple(rows[0]) == PASS_COLUMNS
    assert {row["unit"] for row in rows} == {"read A", "read B", "multiply"}
    assert {row["shape"] for row in rows} == {"128 x 16"}


def test_passes_are_drawn():
    kernel = package.time(*FILES).layers[0].kernel
    picture = ElementTree.fromstring(passes_picture(kernel).svg())
    said = [title.text or "" for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    [shape] = kernel.shapes
    assert len(said) == 1 + len(list(steps(shape, kernel.chip, 2)))
    assert any("read A, rows 0 to 127" in text for text in said)


def test_the_profile_of_a_network_adds_up(convc, two, tmp_path):
    shown = convc.good("time", two, "--json", tmp_path / "t.json", "--csv", tmp_path / "t.csv")
    report = json.loads((tmp_path / "t.json").read_text())
    assert sum(layer["microseconds"] for layer in report["layers"]) == pytest.approx(report["microseconds"])
    assert sum(layer["share"] for layer in report["layers"]) == pytest.approx(1)
    assert sum(report["waits_for"].values()) == pytest.approx(1)
    for layer in report["layers"]:
        assert sum(step["cycles"] for step in layer["steps"]) == pytest.approx(layer["wave_cycles"][0])
    assert "100.0 %" in shown
    assert f"largest waits: {next(iter(report['waits_for']))}" in shown

    layers = rows_of((tmp_path / "t.csv").read_text())
    assert tuple(layers[0]) == LAYER_COLUMNS
    assert [layer["layer"] for layer in layers] == ["stem", "head"]
    assert sum(float(layer["share"]) for layer in layers) == pytest.approx(1)
    assert float(layers[-1]["cumulated_share"]) == pytest.approx(1)


def test_names_in_the_picture_are_only_text(tiny):
    kernel = package.time(tiny).layers[0].kernel
    named = dataclasses.replace(kernel, name='</title><script>"&\x00')
    assert ElementTree.fromstring(passes_picture(named).svg())[0].text.startswith('</title><script>"&?: MMAs')


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "x.svg"], "give --passes too"),
        (["--passes", "-o", "x.png"], "ends in .csv or .svg, got x.png"),
        (["--trace", "-", "--csv", "-"], "only one report can go to stdout"),
    ],
)
def test_files_that_cannot_be_are_refused(convc, tiny, arguments, said):
    assert said in convc.refused("time", tiny, *arguments)


def test_what_is_about_one_kernel_needs_one(convc, two, tmp_path):
    said = convc.refused("time", two, "--trace", tmp_path / "t.pftrace")
    assert "--trace is about one kernel: choose a layer with --layer" in said
    assert list(tmp_path.iterdir()) == []


def test_banks_of_tensor_memory_stand_side_by_side_with_every_legal_schedule(convc, tiny, tmp_path):
    asked = ("--what-if", "tmem.banks", "--set", "tmem.banks=4x128")
    shown = convc.good("time", tiny, *asked, "--json", tmp_path / "t.json")
    assert "on b200, tmem.banks=4x128" in shown
    report = json.loads((tmp_path / "t.json").read_text())
    [answer] = report["what_ifs"]
    settings = {one["setting"]: one for one in answer["settings"]}
    assert list(settings) == ["published", "8x64", "4x128"]
    assert [one["numbers"]["tensor_memory.shift"] for one in settings.values()] == [12, 1, 2]
    for one in settings.values():
        times = {time["schedule"]: time for time in one["times"]}
        assert {"reload", "slide", "shift chain", "shift ashift", "shift windows", "stationary"} == set(times)
        [fastest] = [time for time in one["times"] if time["fastest"]]
        assert fastest["cycles"] == min(time["cycles"] for time in one["times"])
        assert [time["planned"] for time in one["times"]] == [True] + 5 * [False]
        assert f"{times['slide']['microseconds']:.2f}" in shown
    cycles = {name: {t["schedule"]: t["cycles"] for t in one["times"]} for name, one in settings.items()}
    assert cycles["4x128"][report["layers"][0]["schedule"]] == report["layers"][0]["cycles"]
    assert cycles["8x64"]["shift ashift"] < cycles["4x128"]["shift ashift"] < cycles["published"]["shift ashift"]
    assert cycles["8x64"]["reload"] == cycles["4x128"]["reload"] == cycles["published"]["reload"]


def test_a_number_is_shown_at_both_ends_of_its_range():
    asked = ChipOptions(what_if=("tma.latency", "chip.clock", "tma.latency"), settings=("tma.latency=5000",))
    latency, clock = package.time(*FILES, chip=asked).what_ifs
    assert [one.setting for one in latency.settings] == ["low", "value", "high"]
    assert [one.numbers["tma.latency"] for one in latency.settings] == [450, 5000, 700]
    low, value, high = (one.times[0].cycles for one in latency.settings)
    assert low < high < value
    assert latency.unit == "clk"
    slow, _, fast = (one.times[0].microseconds for one in clock.settings)
    assert slow > fast


def test_layers_and_a_schedule_that_is_named_leave_no_choice(two, tiny):
    both = package.time(two, chip=ChipOptions(what_if=("tmem.banks",)))
    named = package.time(tiny, chip=ChipOptions(what_if=("tmem.banks",)), schedule=ScheduleOptions(schedule="slide"))
    assert [[time.layer for time in one.times] for one in both.what_ifs[0].settings] == 3 * [["stem", "head"]]
    assert [[time.schedule for time in one.times] for one in named.what_ifs[0].settings] == 3 * [["slide"]]
    assert not both.what_ifs[0].schedules


def test_what_is_asked_of_one_schedule_is_asked_of_the_others():
    asked = ScheduleOptions(
        schedule="reload",
        border="zero",
        rows="outer",
        target="sm_90a",
        store="direct",
        columns="host",
        persistent="on",
        cta_group="2",
        split_k="2",
        multicast="2x1",
        rasterization_order="hilbert",
        cache_hints="on",
        registers="on",
        ctas=3,
        tile_scheduler="dynamic",
        filters="apart",
        pdl=True,
        residual_load="tma",
        tuned="off",
    )
    others = {"schedule": "slide", "shift": "auto", "timed": False}
    others["cta_group"] = "2" if SLIDE.pairs else "auto"
    others["multicast"] = "2x1" if SLIDE.multicasts else "off"
    given = {field.name: getattr(asked, field.name) for field in dataclasses.fields(asked)}
    assert all(
        value != field.default or field.name in others
        for field, value in zip(dataclasses.fields(asked), given.values(), strict=True)
    )
    assert dataclasses.asdict(only(SLIDE, asked)) == given | others
    assert only(RELOAD, asked) == dataclasses.replace(asked, border="auto", rows="auto", filters="auto")
