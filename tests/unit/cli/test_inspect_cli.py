"""``convc inspect``: everything that was decided about one layer, and the text it became."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import numpy as np
import pytest
from onnx import helper
from test_compile_cli import model_of

from convc.errors import PlanError
from convc.support.resources import make_models

HEADINGS = (
    "conv",
    "schedules",
    "plan",
    "loop nest",
    "index maps",
    "memory of one CTA",
    "roles and steps",
    "PTX, with the step of each line",
)


def parts_of(said: str) -> dict[str, list[str]]:
    """The lines under each heading."""
    parts: dict[str, list[str]] = {}
    for line in said.splitlines():
        heading = re.fullmatch(r"== (.*) ==", line)
        if heading:
            parts[heading[1]] = []
        elif parts:
            parts[list(parts)[-1]].append(line)
    return parts


@pytest.fixture(scope="module")
def parts(convc, tiny):
    return parts_of(convc.good("inspect", tiny, "--layer", "conv", "--full"))


@pytest.fixture(scope="module")
def reload_parts(convc, tiny):
    return parts_of(convc.good("inspect", tiny, "--layer", "conv", "--schedule", "reload", "--full"))


def test_all_parts_in_order(parts):
    assert tuple(parts) == HEADINGS
    assert all(any(line.strip() for line in lines) for lines in parts.values())


def test_one_screen_answers_and_says_where_the_rest_is(convc, tiny):
    said = convc.good("inspect", tiny, "--layer", "conv")
    lines = said.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 120
    for label in ("convolution  ", "kernel       ", "schedule     ", "time         ", "why          "):
        assert sum(line.startswith(label) for line in lines) == 1
    assert "--full" in lines[-2]
    assert lines[-1] == f"next: convc inspect {tiny} --layer conv --full"


def test_sentences_are_broken_where_the_terminal_ends(convc, tiny, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    narrow = convc.good("inspect", tiny, "--layer", "conv", "--only", "plan")
    assert max(map(len, narrow.splitlines())) <= 80
    monkeypatch.delenv("COLUMNS")
    wide = convc.good("inspect", tiny, "--layer", "conv", "--only", "plan")
    assert wide.split() == narrow.split()


@pytest.mark.parametrize(
    ("words", "paged"),
    [(["--full"], True), (["--only", "ptx"], True), ([], False), (["--full", "--no-pager"], False)],
)
def test_a_long_page_goes_through_a_pager_on_a_terminal_alone(convc, tiny, monkeypatch, words, paged):
    shown: list[str] = []
    call = ("inspect", tiny, "--layer", "conv", *words)
    plain = convc.good(*call)
    monkeypatch.setattr("click.echo_via_pager", shown.append)
    assert convc.good(*call) == plain
    assert shown == []
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setattr("convc.cli.inspect.terminal_stdin", lambda: True)
    said = convc.good(*call)
    assert len(shown) == paged
    assert ("== conv ==" in said or "mma.multiply" in said) != paged


def test_full_leaves_nothing_to_pick(convc, tiny):
    said = convc.refused("inspect", tiny, "--layer", "conv", "--full", "--only", "ptx")
    assert "--full shows all sections: leave --only out." in said


def test_the_loops_have_extents(reload_parts):
    loops = [line.split("#")[0].strip() for line in reload_parts["loop nest"] if line.strip().startswith("for ")]
    assert "for tile_m in 0..1:" in loops
    assert "for r in 0..2:" in loops
    assert "for e in 0..15:" in loops


def test_the_maps_are_shown_and_proved(reload_parts):
    text = "\n".join(reload_parts["index maps"])
    assert "m = tile_m*128 + lane" in text
    assert "(tile_m*128 + lane) // 144" in text
    assert "proved: " in text


def test_the_plan_shows_numbers_and_other_candidates(reload_parts):
    text = "\n".join(reload_parts["plan"])
    assert "schedule reload for sm_100a" in text
    assert "9 steps" in text
    assert "start_w = " in text
    assert "other tile widths (of equally fast ones on as many SMs, the one with the least traffic is chosen):" in text


def test_rejected_candidates_come_with_their_reason(convc, tmp_path):
    models = make_models()
    models.build_resnet50_layers(tmp_path / "m.onnx", [models.read_layers("demo")[-1]])
    said = convc.good("inspect", tmp_path / "m.onnx", "--layer", "layer4.1.conv2", "--only", "plan")
    plan = parts_of(said)["plan"]
    below = "\n".join(plan[plan.index("rejected candidates, by rule:") + 1 :])
    rejected = [line for line in below.replace("\n      ", " ").splitlines() if line]
    assert rejected
    for line in rejected:
        assert re.fullmatch(r"  \w+, \d+: .+: .+", line)
    assert len({line.split(",")[0] for line in rejected}) == len(rejected)


def test_the_memory_map_is_whole_and_does_not_overlap(parts):
    rows = [line.split() for line in parts["memory of one CTA"] if line.startswith("shared")]
    rows = [row for row in rows if row[4:6] != ["tile", "c:"]]  # over the others, when they have been multiplied
    ranges = sorted((int(row[1]), int(row[2])) for row in rows if row[2:] != ["total"])
    assert ranges[0][0] == 0
    for (_, end), (start, _) in pairwise(ranges):
        assert end <= start
    total = next(int(row[1]) for row in rows if row[2:] == ["total"])
    assert ranges[-1][1] <= total
    assert any("accumulator" in line for line in parts["memory of one CTA"])


def test_every_step_appears_in_the_text_and_marks_its_instructions(parts):
    listed = set()
    for line in parts["roles and steps"]:
        step = re.match(r" +((?:\w+)\.(?:\w+)) ", line)
        if step:
            listed.add(step[1])
    assert {"load.a", "mma.multiply", "epilogue.store"} <= listed
    marks = {line[6:].split("|")[0].strip() for line in parts["PTX, with the step of each line"]} - {""}
    assert marks <= listed
    assert {"load.a", "mma.multiply", "epilogue.store"} <= marks
    text = "\n".join(parts["PTX, with the step of each line"])
    assert re.search(r"mma\.multiply +\|.*tcgen05\.mma", text)
    assert re.search(r"epilogue\.store +\|.*cp\.async\.bulk\.tensor", text)


def test_lines_are_numbered_as_in_the_build(convc, parts, kernel):
    shown = [line.split(" | ", 1)[1] if " | " in line else "" for line in parts["PTX, with the step of each line"]]
    text = kernel.read_text().splitlines()
    assert [line.rstrip() for line in shown[: len(text)]] == [line.rstrip() for line in text]


def test_a_bad_call_is_refused(convc, tiny):
    said = convc.refused("inspect", tiny, "--layer", "conv", "--only", "plan,schedule")
    assert "there is no section 'schedule'; did you mean 'schedules'?" in said
    said = convc.refused("inspect", tiny, "--layer", "tail")
    assert "no layer 'tail'" in said
    assert "layers: conv" in said


@pytest.mark.parametrize("schedule", ["reload", "slide"])
@pytest.mark.parametrize(
    ("weight", "group", "said"),
    [
        ((8, 3), 4, "4 groups of 1 channels form one block-diagonal filter"),
        ((80, 3), 40, "40 groups of 1 channels, 8 per pack: 5 block-diagonal filters of 8 x 16 channels"),
        ((5, 3, 3, 3), 1, "along D every output plane becomes an image, with the 3 planes"),
    ],
)
def test_rows_volumes_and_groups_are_shown(convc, tmp_path, schedule, weight, group, said):
    filters, *kernel = weight
    channels = group if group > 1 else 2
    shape = (1, channels, *(9 for _ in kernel))
    path = model_of(
        tmp_path / "m.onnx",
        [helper.make_node("Conv", ["x", "w"], ["y"], name="c", group=group)],
        [("w", np.zeros((filters, channels // group, *kernel)))],
        x_shape=shape,
    )
    call = "inspect", path, "--layer", "c", "--schedule", schedule
    assert said in convc.good(*call)
    assert "-- Algorithm 3.b: shift --" in convc.good(*call, "--derivation")
    assert "(0, 0, 1)" in convc.good(*call, "--lanes")


def test_without_a_layer_there_is_a_list(convc, tmp_path):
    models = make_models()
    models.build_resnet50_layers(tmp_path / "m.onnx", models.read_layers("demo")[:3])
    said = convc.good("inspect", tmp_path / "m.onnx", "--json", tmp_path / "l.json")
    listed = json.loads((tmp_path / "l.json").read_text())
    assert listed["format"] == "convc-layers/1"
    lines = said.splitlines()
    assert lines[0].split() == ["layer", "operator", "convolution", "type", "schedule", "cycles", "of", "peak"]
    for line, layer in zip(lines[1:], listed["layers"], strict=False):
        assert line.split()[:2] == [layer["name"], "Conv"]
        assert layer["planned"]["schedule"] in line
        assert f" {layer['planned']['cycles']:.0f} " in line
    assert lines[-1].startswith(f"next: convc inspect {tmp_path}/m.onnx --layer ")


def test_a_layer_without_a_kernel_is_in_the_list(convc, tiny, monkeypatch):
    from convc.compiler import kernels

    def refuse(problem, options):
        raise PlanError("it does not fit")

    monkeypatch.setattr(kernels, "compile_problem", refuse)
    said = convc.good("inspect", tiny)
    assert re.search(r"^conv +Conv .* - +- +-$", said, re.M)
    assert "no kernel: conv: it does not fit" in said


def test_a_build_is_inspected_as_it_is(convc, two, tmp_path):
    convc.good("compile", two, "-o", tmp_path / "b", "--schedule", "slide", "--rows", "outer", "--layer", "stem")
    listed = convc.good("inspect", tmp_path / "b")
    assert re.search(r"^stem +Conv .* slide ", listed, re.M)
    said = convc.good("inspect", tmp_path / "b", "--layer", "stem", "--only", "ptx")
    (file,) = tmp_path.glob("b/kernels/*/kernel.ptx")
    assert [line.split(" | ", 1)[1] for line in said.splitlines()[2:]] == file.read_text().splitlines()
    assert "it was edited" not in convc.good("inspect", tmp_path / "b", "--layer", "stem")
    file.write_text(file.read_text().replace("// Schedule", "// A schedule"))
    assert "it was edited" in convc.good("inspect", tmp_path / "b", "--layer", "stem")
    assert "a build folder holds the options" in convc.refused("inspect", tmp_path / "b", "--dtype", "bf16")


def test_sections_are_picked(convc, tiny):
    said = convc.good("inspect", tiny, "--layer", "conv", "--only", "memory,schedules,derivation,lanes")
    assert list(parts_of(said)) == [
        "memory of one CTA", "schedules", "derivation", "lanes", "rows of shared memory", "masks", "claims",
    ]  # fmt: skip


def test_the_summary_says_why(parts):
    said = "\n".join(parts["conv"])
    for words in (
        "conv3x3_c16_k24",
        "schedule     reload",
        "us at 1.85 GHz",
        "why  ",
        "results are stored through SMEM",
    ):
        assert words in said


def test_the_plan_is_in_the_json(convc, tiny, tmp_path):
    said = convc.good("inspect", tiny, "--layer", "conv", "--json", tmp_path / "p.json")
    assert said == f"wrote {tmp_path}/p.json: plan and estimate of conv\n"
    data = json.loads((tmp_path / "p.json").read_text())
    assert (data["format"], data["layer"], data["schedule"]) == ("convc-inspect/1", "conv", "reload")
    assert data["estimate"]["cycles"] == data["plan"]["estimate"]["cycles"]
    assert data["why"]


@pytest.mark.parametrize("schedule", ["reload", "slide", "shift", "stationary"])
def test_the_loops_of_every_schedule_end_with_bias_and_epilogue(convc, two, schedule):
    said = convc.good("inspect", two, "--layer", "stem", "--schedule", schedule, "--only", "loops")
    assert re.search(r"y\[.*\] = .*acc\[lane, column\].* \+ bias\[.*# then relu", said)


@pytest.mark.parametrize("schedule", ["reload", "slide", "shift", "stationary"])
def test_no_line_has_a_step_that_it_does_not_belong_to(convc, tiny, schedule):
    said = convc.good("inspect", tiny, "--layer", "conv", "--schedule", schedule, "--only", "ptx")
    open_steps: list[str] = []  # of the blocks that are open, "" for those without a step
    named = ""
    for line in said.splitlines()[2:]:
        step, text = line[6:].split("|", 1)[0].strip(), line.split(" | ", 1)[1].split("// ")[0].strip()
        mark = re.match(r"//@ step=(\S+)", text)
        if mark:
            named = mark[1]
        elif text == "{":
            open_steps.append(named or (open_steps[-1] if open_steps else ""))
            named = ""
        elif text.startswith("}"):  # of a block, or of a list of registers
            open_steps.pop()
        elif step:
            assert step == open_steps[-1], line
