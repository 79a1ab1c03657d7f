"""Pictures of time, read back: they say what the timing engine says."""

from __future__ import annotations

import dataclasses
import gc
import re

import pytest
from click.testing import CliRunner
from support.drawings import marked, parsed, words

import convc
from convc.api.drawing import time_inspected, time_schedules
from convc.api.timing import roof_points
from convc.cli.main import main
from convc.draw.memory_time import memory_time_picture
from convc.draw.passes import passes_picture
from convc.draw.roofline import peak_tflops, roofline_picture
from convc.draw.schedules import schedules_picture
from convc.draw.svg import COLOURS, LETTER
from convc.draw.timeline import KINDS, timeline_picture
from convc.errors import InputError
from convc.explain.taken import legal_choices
from convc.machine.memory.global_memory import GlobalMemory
from convc.report.timeline import WAITS
from convc.support.resources import model_folder
from convc.timing.parameters import read_chip
from convc.timing.rings import stages
from convc.timing.timeline import timeline, walk

TINY = model_folder() / "tiny_conv.onnx"


@pytest.fixture(scope="module")
def report():
    return convc.time(TINY)


def test_units_are_busy_in_the_picture_as_long_as_in_the_engine(report):
    kernel = report.layers[0].kernel
    root = parsed(timeline_picture(kernel).svg())
    drawn = {group.get("data-track"): list(group) for group in root if group.get("data-track")}
    tracks = {track.name: track for track in timeline(kernel.launch).tracks}
    assert set(drawn) == set(tracks)
    pixel = kernel.launch.lengths[0] / 1200
    for name, track in tracks.items():
        boxes = [(float(box.get("data-start")), float(box.get("data-end"))) for box in drawn[name]]
        whole = [one for one in walk(track.slices) if one.kind in ("instruction", "wait", "work")]
        if track.kind == "stage":
            whole = [one for one in track.slices if one.name != "empty"]
        busy = sum(one.cycles for one in whole)
        assert boxes == sorted(boxes)
        assert sum(end - start for start, end in boxes) == pytest.approx(busy, abs=pixel * len(whole) + 1)
        assert boxes[0][0] == pytest.approx(whole[0].start, abs=0.1)
        assert boxes[-1][1] == pytest.approx(max(one.end for one in whole), abs=0.1)


def test_a_wait_in_the_picture_is_one_of_the_engine(report):
    kernel = report.layers[0].kernel
    waits = {one.name for track in timeline(kernel.launch).tracks for one in walk(track.slices) if one.kind == "wait"}
    states = {each["state"] for each in marked(timeline_picture(kernel).svg(), "state")}
    assert states - {"works", "busy", "in flight", "filling", "full"} <= {name.removeprefix("wait: ") for name in waits}
    assert "TMA copy" in states


def test_schedules_add_up():
    found = convc.inspect(TINY)
    timed = time_schedules(found)
    assert set(timed) == {choice.schedule.title for choice in legal_choices(found.plan)}
    svg = schedules_picture(found.plan, timed).svg()
    bars = {each["schedule"]: each for each in marked(svg, "schedule")}
    assert [title for title, bar in bars.items() if bar["chosen"] == "1"] == [found.plan.schedule.title]
    for title, one in timed.items():
        assert float(bars[title]["cycles"]) == pytest.approx(one.kernel.cycles, rel=1e-4)
    parts = sum(float(each["cycles"]) for each in marked(svg, "cause"))
    assert parts == pytest.approx(sum(one.kernel.cycles for one in timed.values()), rel=1e-3)
    lengths = [float(bar["cycles"]) for bar in bars.values()]
    assert lengths == sorted(lengths)
    plain = schedules_picture(found.plan, {}).svg()
    assert any("estimated" in each for each in words(plain))


def test_a_layer_stands_where_its_operations_and_bytes_say(report):
    (point,) = roof_points(report)
    (layer,) = report.layers
    (dot,) = marked(roofline_picture([point], report.chip).svg(), "layer")
    operands = layer.kernel.operands
    assert float(dot["intensity"]) == pytest.approx(2 * layer.macs / (operands.read + operands.written), rel=1e-5)
    assert float(dot["tflops"]) == pytest.approx(layer.tflops, rel=1e-5)
    roofs = {each["roof"]: each for each in marked(roofline_picture([point], report.chip).svg(), "roof")}
    assert float(roofs["memory"]["rate"]) == report.chip["chip.memory"]
    assert set(roofs) == {"memory", "L2", f"{point.element_bits} bits"}


def test_the_flat_roof_of_a_b200_is_what_nvidia_publishes():
    """2.25 PFLOPS of dense f16 at 1.85 GHz and 148 SMs; halved for twice the bits."""
    chip = read_chip("b200", [])
    assert peak_tflops(chip, 16) == pytest.approx(2243, rel=1e-3)
    assert peak_tflops(chip, 8) == 2 * peak_tflops(chip, 16)


def test_the_roofline_of_a_command_is_that_of_its_layers(report):
    ran = CliRunner().invoke(main, ["draw", "roofline", str(TINY)], catch_exceptions=False)
    assert ran.stdout.rstrip() == roofline_picture(roof_points(report), report.chip).svg().rstrip()


def test_a_roofline_needs_a_layer(report):
    with pytest.raises(InputError, match="there is none"):
        roofline_picture([], report.chip)


def test_results_show_themselves_in_notebooks(report):
    assert "first wave on b200" in report._repr_svg_()
    assert report._repr_svg_() == report.layers[0]._repr_svg_()
    several = dataclasses.replace(report, layers=report.layers * 2)
    assert "roofline of b200: 2 layers" in several._repr_svg_()
    assert "filter column 0" in convc.inspect(TINY)._repr_svg_()


@pytest.mark.parametrize("schedule", ["reload", "shift"])
def test_memory_over_time_is_that_of_the_barriers_and_of_the_tensor_core(schedule):
    found = convc.inspect(TINY, schedule=convc.ScheduleOptions(schedule=schedule))
    kernel = time_inspected(found)
    svg = memory_time_picture(kernel, found.program).svg()
    drawn = list(marked(svg, "held"))
    labels = {each.text: float(each.get("y")) for each in parsed(svg).iter() if each.get("class") == "soft end"}
    bands = {each.get("data-held"): float(each.get("y")) for each in parsed(svg).iter() if each.get("data-held")}
    for name in {tile.name for tile in found.plan.storage.tmem}:
        assert labels[name] == pytest.approx(bands[name] + 10, abs=0.2)
    for stage in stages(kernel.launch.replay):
        tiles = [each.name for each in found.plan.storage.smem if stage.ring in ("full", f"full_{each.name}")]
        assert tiles
        number = int(stage.name[-2])
        for tile in (found.plan.storage.smem_tile(name) for name in tiles):
            own = [each for each in drawn if each["held"] == f"{tile.name}{number}"]
            assert {int(each["offset"]) for each in own} == {tile.offset + number * tile.stage_bytes}
            full = [(each["start"], each["end"]) for each in own if each["state"] == "full"]
            assert full == [(f"{turn.full:.1f}", f"{turn.free:.1f}") for turn in stage.turns]
    works = [each for each in kernel.launch.events if each.track == "tensor core" and each.row == 0]
    multiplied = [each for each in drawn if each["state"] in ("multiplied into", "written")]
    assert [each["start"] for each in multiplied] == [f"{each.start:.1f}" for each in works]
    assert {each["held"] for each in drawn if each["state"] == "read out"} == {"acc"}


def test_a_time_leaves_no_memory_of_the_machine_behind():
    """Of large layers the buffers are many gigabytes, and nobody collects circles between two kernels."""
    found = convc.inspect(TINY)
    gc.collect()
    gc.disable()
    try:
        time_inspected(found)
        assert not any(isinstance(each, GlobalMemory) for each in gc.get_objects())
    finally:
        gc.enable()


def test_each_thing_has_its_own_colour_in_a_timeline():
    assert len(set(KINDS.values())) == len(KINDS)
    assert set(KINDS.values()) <= set(COLOURS)
    for dark in (False, True):
        assert len({COLOURS[kind][dark] for kind in KINDS.values()}) == len(KINDS)
    assert set(WAITS) <= set(KINDS)


def test_no_roof_crosses_its_words(report):
    """The words of the lowest roof begin behind it, those of the others end in front of theirs."""
    svg = roofline_picture(roof_points(report), report.chip).svg()
    assert {"TFLOP/s", "FLOP/byte of operands and results, each once"} <= set(words(svg))
    for name, ends in (("memory", False), ("L2", True)):
        found = re.search(rf'<text class="(halo(?: end)?)" x="([\d.]+)" y="([\d.]+)">{name}: ', svg)
        (line,) = re.findall(rf'data-roof="{name}".*?d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"', svg)
        x, y, to_x, to_y = map(float, line)
        at = y + (float(found[2]) - x) / (to_x - x) * (to_y - y)
        assert (found[1] == "halo end") == ends
        assert (float(found[3]) < at) == ends


def test_schedules_are_no_wider_than_their_bars():
    found = convc.inspect(TINY)
    picture = schedules_picture(found.plan, time_schedules(found))
    assert picture.width < 1300
    assert max(len(each) for each in words(picture.svg())) * LETTER < picture.width


def test_passes_say_what_their_colours_are(report):
    shown = set(words(passes_picture(report.layers[0].kernel).svg()))
    assert {"port: reads A", "port: reads B", "paler: the next MMA"} <= shown
