"""The page of a report, read back: well-formed, alone, escaped, and its numbers those of the lane tables."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper
from support.drawings import marked, table

import convc
from convc.api.paging import page_report
from convc.cli.main import main
from convc.draw.issued import issued_mmas
from convc.explain.example import example_tiles
from convc.explain.tiles import plan_tiles
from convc.ir.launch import TensorMapParam
from convc.page.layouts import STATES, lane_data, layouts, tensor_maps
from convc.page.linked_text import descriptors, sass_runs, step_lines, text_lines, text_runs, turns_of
from convc.page.render import page_html, script_json
from convc.ptx.descriptors import decode_shared
from convc.timing.assembler import assembly

TAPS = convc.ScheduleOptions(schedule="slide", columns="off", store="direct", split_k="off")
EVIL = "</script><script>alert(1)</script>"
VOID = {"meta", "input", "br", "hr", "link", "img"}
S = 2


class Page(HTMLParser):
    """A page that is read: its elements with their attributes, ids, words by element, and data of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[tuple[str, str]] = []
        self.data: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        opened, _ = self.open.pop()
        assert opened == tag, f"</{tag}> closes <{opened}> at {self.getpos()}"

    def handle_data(self, data):
        if self.open:
            tag, attributes = self.open[-1]
            self.words.append((tag, data))
            if tag == "script" and attributes.get("id"):
                self.data[str(attributes["id"])] = self.data.get(str(attributes["id"]), "") + data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def unpacked(text):
    """A page as its script makes it: long parts lie in it as gzip in base64."""
    return re.sub(
        r'<script type="application/gzip" class="packed">(.*?)</script>',
        lambda found: gzip.decompress(base64.b64decode(found[1])).decode(),
        text,
    )


@pytest.fixture(scope="module")
def model():
    """Three layers of two kernels, one of them called as if it were markup; each copies filter tap (1, S)."""
    weights = np.zeros((8, 8, 3, 3), np.float16)
    weights[:, 0, 1, S] = 1
    one = np.ones((8, 8, 1, 1), np.float16)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name=EVIL, pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "w"], ["b"], name="again", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["b", "o"], ["y"], name="last & least"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, (1, 8, 9, 11))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)
    values = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(one, "o")]
    graph = helper.make_graph(nodes, "three", [x], [y], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture(scope="module")
def report(model):
    return page_report(model, schedule=TAPS)


@pytest.fixture(scope="module")
def text(report):
    return unpacked(page_html(report).decode())


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


@pytest.mark.parametrize(("count", "compared"), [(1, False), (2, True)])
def test_layers_are_compared_where_there_are_two(report, count, compared):
    part = replace(report, layers=report.layers[:count], kernels=report.kernels[:1])
    few = unpacked(page_html(part).decode())
    assert ("roofline of b200" in few) == compared


def test_the_page_is_whole_and_needs_no_network(text, page):
    assert not page.open
    ids = [attributes["id"] for _, attributes in page.elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        assert "src" not in attributes
        target = attributes.get("href")
        assert target is None or (target[0] == "#" and target[1:] in ids), target
    assert "default-src 'none'" in str(page.named("meta"))
    for far in ("@import", "url(", "fetch(", "XMLHttpRequest", "eval("):
        assert far not in text, far
    assert len(text) < 1 << 20


def test_layers_with_one_kernel_share_a_section(page):
    sections = [attributes["id"] for attributes in page.named("section")]
    assert sections == ["network", "kernel-0", "kernel-1"]
    links = [str(each.get("href")) for each in page.named("a")]
    assert [links.count(f"#kernel-{number}") for number in (0, 1)] == [2, 1]


def test_names_of_layers_are_words(text, page):
    assert EVIL not in text
    assert any(tag == "a" and words == EVIL for tag, words in page.words)
    assert any("last & least" in words for _, words in page.words)
    scripts = page.named("script")
    assert len(scripts) == 5  # lanes and trace of two kernels, and the page's own
    assert all(set(attributes) <= {"type", "id"} for attributes in scripts)


def test_data_of_scripts_ends_no_script():
    names = ["</script>", "<!--", "&amp;", "\u2028"]
    assert json.loads(script_json(names)) == names
    assert not set("<>&") & set(script_json(names))


def test_lanes_of_the_page_hold_what_the_machine_multiplies(model, page, tmp_path):
    """Every pixel has a value of its own: the output of filter tap (1, S) says which pixel each lane multiplied."""
    data = json.loads(page.data["kernel-0-lanes"])
    (tap,) = (tap for tap in data["taps"] if (tap["r"], tap["s"]) == (1, S))
    x = np.zeros((1, 8, 9, 11), np.float16)
    x[:, 0] = 1 + np.arange(99).reshape(9, 11)
    y = convc.run(convc.compile(model, tmp_path / "build", layer="again", schedule=TAPS), x)
    shown = 0
    for output, (row, state, *_) in zip(data["outputs"], tap["lanes"], strict=True):
        n, h, w = data["copies"][tap["copy"]][row]
        if output is None:
            assert STATES[state] == "idle"
            continue
        image, p, q = output
        assert y[image, 0, p, q] == (0 if STATES[state] in ("masked", "padding") else x[n, 0, h, w])
        shown += 1
    assert shown == 99
    assert data["outputs"][57] is not None


@pytest.mark.parametrize("tiles", [None, example_tiles()], ids=["compiled", "example"])
def test_lane_data_is_the_lane_tables(report, tiles):
    tiles = tiles or plan_tiles(report.kernels[0].compiled.plan)
    data = lane_data(tiles)
    assert [(tap["r"], tap["s"]) for tap in data["taps"]] == [(r, s) for r in range(3) for s in range(3)]
    for tap in data["taps"]:
        table = tiles.lanes(data["tile"], tap["r"])
        (buffer,) = (each for each in table.buffers if tap["s"] in each.taps)
        held = [lane.cells[buffer.taps.index(tap["s"])] for lane in buffer.lanes]
        pixels = [data["copies"][tap["copy"]][row] for row, *_ in tap["lanes"]]
        assert pixels == [[c.held.n, c.held.h, c.held.w] for c in held]
        needed = [None if c.needed is None or not c.masked else [c.needed.n, c.needed.h, c.needed.w] for c in held]
        assert [rest or None for _, _, *rest in tap["lanes"]] == needed


def test_steps_and_lines_of_the_text_meet(report):
    kernel = report.kernels[0]
    lines = text_lines(kernel.text, turns_of(kernel.time.trace)[0])
    steps = step_lines(kernel.compiled.program, lines, kernel.time.parts)
    assert "\n".join(line.words for line in lines) + "\n" == kernel.text
    assert {line.step for line in lines} == {step.step for step in steps if step.lines} | {""}
    assert sum(step.lines for step in steps) == sum(bool(line.step) for line in lines)
    assert sum(step.cycles for step in steps) <= sum(part.cycles for part in kernel.time.parts) + 1
    assert any(step.cycles > 0 for step in steps)
    runs = text_runs(lines)
    assert [words for run in runs for words in run.words] == [
        f"{line.number:5} {line.turns or '':>5} {line.words}" for line in lines
    ]
    multiplied = sum(line.turns for line in lines if "tcgen05.mma." in line.words)
    assert multiplied == len(issued_mmas(kernel.text, kernel.compiled.artifact.launch))
    assert {run.first: run.step for run in runs}.items() >= {(step.first, step.step) for step in steps if step.lines}


def test_lines_of_a_nest_have_the_statements_of_its_body():
    for stage in example_tiles().stages():
        nest = stage.algorithm.nest.text()
        lines = nest.marked()
        kinds = Counter(line.does for line in lines)
        assert {line.does for line in lines} >= {f"loop-{axis}" for axis, _, _ in nest.loops}
        assert kinds["multiply"] == 1
        assert kinds["clear"] == kinds["store"] == (nest.accumulate != "")
        assert bool(kinds["load"]) == (nest.load is not None)
        assert bool(kinds["move"]) == (nest.move is not None)


def test_every_statement_of_the_nest_is_done_by_steps(report):
    kernel = report.kernels[0]
    steps = step_lines(kernel.compiled.program, text_lines(kernel.text), kernel.time.parts)
    done = {kind for step in steps for kind in step.kinds.split()}
    assert done >= {"load", "multiply", "store", "loop-r"}
    (copy,) = (step for step in steps if step.step == "load.b")
    assert copy.kinds == ""


def test_machine_code_belongs_to_the_steps_of_its_lines(report):
    kernel = report.kernels[1]
    lines = text_lines(kernel.text)
    code = assembly(kernel.text, kernel.compiled.artifact.launch.entry).code
    runs = sass_runs(code, lines)
    assert sum(len(run.words) for run in runs) == len(code)
    assert all(one.step != two.step for one, two in itertools.pairwise(runs))
    steps = {run.step for run in runs for words in run.words if " UTCHMMA" in words or " UTCQMMA" in words}
    assert {step.partition("_")[0] for step in steps} == {"mma.multiply"}


def test_descriptors_of_the_text_are_right(report):
    for kernel in report.kernels:
        found = descriptors(kernel.text)
        assert {each.name for _, each in found} == {"instruction", "matrix"}
        assert not any(each.wrong for _, each in found)
        (instruction,) = {each.word for _, each in found if each.name == "instruction"}
        assert f"mov.b32 %shape, {instruction:#010x};" in kernel.text


def test_layouts_are_those_of_the_launch(report):
    """Addresses of the first MMA and numbers of the tensor maps are read back from the pictures."""
    kernel = report.kernels[0]
    plan = kernel.compiled.plan
    launch = kernel.compiled.artifact.launch
    found = dict(layouts(plan, kernel.text, launch, 8))
    mma = issued_mmas(kernel.text, launch)[0]
    drawn = table(found["MMA 0 of the first CTA, at its addresses"].svg(), "A")
    assert int(drawn[0][0], 16) == decode_shared(mma.a).start
    assert len(drawn) == 8
    assert sum(said.startswith("swizzle") for said in found) == len({tile.swizzle for tile in plan.storage.smem})
    assert [said for said in found if said.startswith("a warp")] == [
        f"a warp of the epilogue loads tensor memory with .{'.'.join(each)}"
        for each in dict.fromkeys(re.findall(r"tcgen05\.ld\S*\.(32x32b)\.(x\d+)", kernel.text))
    ]
    maps = list(tensor_maps(launch))
    given = [each.map for each in launch.params if isinstance(each, TensorMapParam)]
    for (_, picture), tensor_map in zip(maps, given, strict=True):
        fields = {each["field"]: int(each["value"]) for each in marked(picture.svg(), "field")}
        assert fields["global_dim[0]"] + 1 == tensor_map.dims[0]
        assert fields["channels"] == tensor_map.channels
        pieces = {each["piece"]: int(each["bits"]) for each in marked(picture.svg(), "piece")}
        assert pieces["192-223"] == fields["global_dim[0]"]
    assert len(maps) == 2


def test_results_show_themselves_in_notebooks(model, report, tmp_path):
    (shown,) = Page(report._repr_html_()).named("iframe")
    assert "allow-same-origin" not in str(shown["sandbox"])
    assert shown["srcdoc"] == page_html(report).decode()
    for found in (convc.verify(model, schedule=TAPS), convc.compile(model, tmp_path / "build", schedule=TAPS)):
        page = Page(found._repr_html_())
        assert not page.open
        cells = [words for tag, words in page.words if tag == "td"]
        assert EVIL in "".join(cells)
        assert {tag for tag, _ in page.elements} == {"table", "caption", "thead", "tbody", "tr", "th", "td"}
        assert sum(tag == "tr" for tag, _ in page.elements) == 1 + 3


def test_the_worked_example_is_a_page_of_its_own(tmp_path):
    done = CliRunner().invoke(
        main, ["report", "--example", "-o", str(tmp_path / "example.html")], catch_exceptions=False
    )
    page = Page((tmp_path / "example.html").read_text())
    assert done.exit_code == 0
    assert not page.open
    data = json.loads(page.data["example-lanes"])
    assert data == json.loads(json.dumps(lane_data(example_tiles())))
    (tap,) = (tap for tap in data["taps"] if [tap["r"], tap["s"]] == data["first"] == [1, 2])
    row, state, *needed = tap["lanes"][8]
    assert (STATES[state], data["copies"][tap["copy"]][row], needed) == ("masked", [1, 4, 0], [0, 4, 9])
    assert any("-- Algorithm 1: the definition --" in words for _, words in page.words)


def test_times_are_those_of_the_timing_engine(report, page):
    timed = [kernel.time.microseconds for kernel in report.kernels]
    shown = [each["data-value"] for each in page.named("td") if each.get("data-value")]
    assert shown[::2] == [f"{timed[place]:.2f}" for place in (0, 0, 1)]
    assert sum(float(share) for share in shown[1::2]) == pytest.approx(100, abs=0.2)


@pytest.mark.slow
def test_a_page_of_53_layers_stays_below_4_megabytes_and_a_half():
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    report = page_report(light / "light_resnet50.onnx")
    assert len(report.layers) == 53
    assert len(page_html(report)) < 4_500_000
