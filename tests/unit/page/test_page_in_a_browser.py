"""The page in a real browser: no error, sliders move lanes, steps light up, tables sort, the first screen answers.

A browser without a window opens the page and prints what became of it (``--dump-dom``); a script of the test's, put at
the page's end, does what a reader would.
"""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

import convc
from convc.api.paging import page_report
from convc.explain.why import why_lines
from convc.page.layouts import lane_data
from convc.page.render import example_html, page_html
from convc.report.perfetto import trace_bytes

WATCH = """<script>
window.faults = [];
window.addEventListener("error", (event) => window.faults.push(event.message));
document.addEventListener("securitypolicyviolation", (event) => window.faults.push(event.blockedURI));
</script>"""

TELL = """
const tell = (told) => {
  const answer = document.createElement("script");
  answer.type = "application/json";
  answer.id = "told";
  answer.textContent = JSON.stringify(told);
  document.body.append(answer);
};
"""
"""What the browser prints at the end."""

READER = (
    f"<script>{TELL}"
    + r"""
const told = {};
const wait = (ready, then) => (ready() ? then() : setTimeout(() => wait(ready, then), 10));
const panel = document.querySelector("#kernel-0 .lanes");
panel.scrollIntoView();
const drawn = () => panel.querySelector(".stage svg") !== null && document.querySelector("script.packed") === null;
wait(drawn, () => {
  const set = (name, value) => {
    const input = panel.querySelector("." + name);
    input.value = value;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  };
  told.frames = [];
  for (let r = 0; r <= Number(panel.querySelector(".row").max); r += 1) {
    for (let s = 0; s <= Number(panel.querySelector(".column").max); s += 1) {
      set("row", r);
      set("column", s);
      const lanes = [...panel.querySelectorAll(".stage svg:first-child [data-lane]")];
      told.frames.push({ r, s, lanes: lanes.map((one) => [Number(one.dataset.lane), one.dataset.pixel]) });
    }
  }
  set("row", 1);
  set("column", 2);
  set("lane", 57);
  told.sentence = panel.querySelector(".one").textContent;
  told.picked = panel.querySelector(".picked").closest("g").dataset.pixel;
  const names = () => [...document.querySelectorAll("#network tbody th")].map((one) => one.textContent);
  const button = document.querySelectorAll("#network thead button")[3];
  button.click();
  told.up = names();
  button.click();
  told.down = names();
  told.sorted = button.parentElement.getAttribute("aria-sort");
  for (const slice of document.querySelectorAll("#kernel-0 .zoomed [data-track] rect")) {
    if (!/line \d+$/.test(slice.textContent)) continue;
    slice.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    told.line = Number(slice.textContent.match(/line (\d+)$/)[1]);
    told.shown = [...document.querySelectorAll("#kernel-0 pre.chosen")].map((one) => one.textContent);
    if (told.shown.length > 0) break;  // the first slices are of lines that belong to no step
  }
  window.dispatchEvent(new Event("beforeprint"));
  told.closed = document.querySelectorAll("details:not([open])").length;
  const step = document.querySelector("tr[data-step='mma.multiply'], tr[data-step^='mma.multiply']");
  step.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
  told.step = step.dataset.step;
  told.lit = [...document.querySelectorAll("#kernel-0 pre[data-step].same")].map((one) => one.textContent);
  const back = document.querySelector("#kernel-0 pre[data-step^='mma.multiply']");
  back.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
  told.back = [back, ...document.querySelectorAll("#kernel-0 tr.same")].map((one) => one.dataset.step);
  told.nested = [...document.querySelectorAll("#kernel-0 .nest .same")].map((one) => one.dataset.kind);
  const load = document.querySelector("#kernel-0 .nest [data-kind=load]");
  load.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
  told.loads = [...document.querySelectorAll("#kernel-0 tr.same")].map((one) => one.dataset.step);
  document.querySelector("#kernel-0 tr[data-step] a").focus();
  told.chosen = document.querySelectorAll("#kernel-0 pre.chosen").length;
  told.unnamed = [...document.querySelectorAll("input")].filter((one) => one.labels.length === 0).length;
  told.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  told.asked = performance.getEntriesByType("resource").length;
  told.faults = window.faults;
  told.same = document.querySelectorAll("[data-same]").length;
  const operand = (kernel) => document.querySelector(`${kernel} [data-table=operand]`).textContent;
  told.operands = [operand("#kernel-0"), operand("#kernel-1")];
  URL.createObjectURL = (blob) => {
    blob.arrayBuffer().then((bytes) => end(new Uint8Array(bytes)));
    return "#";
  };
  HTMLAnchorElement.prototype.click = () => {};
  document.querySelector("#kernel-1 button.save").click();
});

function end(trace) {
  told.trace = [...trace].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  tell(told);
}
</script>"""
)

SCREEN = (
    f"<script>{TELL}"
    + r"""
const told = {};
const wait = (ready, then) => (ready() ? then() : setTimeout(() => wait(ready, then), 10));
const panel = document.querySelector(".kernel .lanes");
const box = (one) => {
  const { left, top, right, bottom } = one.getBoundingClientRect();
  return [left, top, right, bottom].map(Math.round);
};
wait(() => panel.querySelector(".stage svg") && !document.querySelector("script.packed"), () => {
  told.ready = performance.now();
  told.answers = [...document.querySelectorAll(".answer dd")].map((one) => [one.textContent, box(one)]);
  told.lane = [panel.querySelector(".one").textContent, box(panel.querySelector(".one"))];
  told.cells = [...panel.querySelectorAll("[data-lane] rect:first-of-type")].flatMap((one) => {
    const [left, top, right, bottom] = box(one);
    const point = [Math.round((left + right) / 2), top + 3];  // above the words, and where no diagonal goes
    const seen = bottom < innerHeight && document.elementFromPoint(...point) === one;
    return seen ? [[...point, getComputedStyle(one).fill, one.parentElement.dataset.state]] : [];
  });
  const column = panel.querySelector(".column");
  const took = (work) => {
    const began = performance.now();
    work();
    document.body.getBoundingClientRect();  // the page is laid out
    return performance.now() - began;
  };
  told.slide = took(() => column.dispatchEvent(new Event("input", { bubbles: true })));
  const yard = document.createElement("div");
  told.yard = took(() => {
    yard.innerHTML = "<p><b>x</b></p>".repeat(20000);
    document.body.append(yard);
  });
  yard.remove();
  tell(told);
});
</script>"""
)


AXE = (
    f"<script>{TELL}"
    + """
document.getElementById("kernel-0").remove();  // one kernel is like another
for (const each of document.querySelectorAll("details")) each.open = true;
axe.run({ exclude: [["svg"]] }, { resultTypes: ["violations"] }).then((found) => {
  tell(found.violations.map((one) => [one.id, one.help, one.nodes.length, one.nodes[0].html.slice(0, 200)]));
});
</script>"""
)


YARDS = 4
"""A computer on which the browser takes half a second and more to lay 20,000 lines out is busy, and gets more time."""

TAPS = convc.ScheduleOptions(schedule="slide", columns="off", store="direct", split_k="off")


@pytest.fixture(scope="module")
def report():
    return page_report("models/tiny_two_convs.onnx", schedule=TAPS)


@pytest.fixture(scope="module", params=[400, 2000], ids=["narrow", "wide"])
def told(request, browser, report):
    """What the reader in the page saw, in a window of so many pixels."""
    page = page_html(report).decode().replace("<head>", f"<head>{WATCH}").replace("</body>", f"{READER}</body>")
    return browser.told(page, request.param)


def test_nothing_fails_and_nothing_is_asked_of_a_network(told):
    assert told["faults"] == []
    assert told["asked"] == 0
    assert told["unnamed"] == 0
    assert told["wide"] <= 0


def test_sliders_move_the_lanes(told, report):
    data = lane_data(convc.inspect("models/tiny_two_convs.onnx", "stem", schedule=TAPS).tiles)
    assert len(told["frames"]) == len(data["taps"]) == 25
    for frame, tap in zip(told["frames"], data["taps"], strict=True):
        assert (frame["r"], frame["s"]) == (tap["r"], tap["s"])
        pixels = data["copies"][tap["copy"]]
        held = [[lane, ",".join(map(str, pixels[row]))] for lane, (row, *_) in enumerate(tap["lanes"])]
        assert sorted(frame["lanes"]) == held
    (tap,) = (tap for tap in data["taps"] if (tap["r"], tap["s"]) == (1, 2))
    row = tap["lanes"][57][0]
    n, h, w = data["copies"][tap["copy"]][row]
    assert told["picked"] == f"{n},{h},{w}"
    assert told["sentence"].startswith(f"lane 57 at filter tap (1, 2): pixel ({n}, {h}, {w}) from row {row} of shared ")


def test_the_button_saves_the_trace_and_pictures_in_common_are_shown_again(told, report):
    assert bytes.fromhex(told["trace"]) == trace_bytes(report.kernels[1].time)
    assert told["same"] == 0
    assert told["operands"][0] == told["operands"][1]


def test_tables_sort_and_steps_light_up(told):
    assert told["up"] == ["head", "stem"]
    assert told["down"] == ["stem", "head"]
    assert told["sorted"] == "descending"
    assert told["lit"]
    assert all(f"//@ step={told['step']} " in words for words in told["lit"])
    assert told["chosen"] > 0
    assert told["nested"] == ["multiply"]
    assert len(told["back"]) == 2
    assert len(set(told["back"])) == 1
    assert told["loads"] == ["load.a_0", "load.a_1"]
    assert any(f"{told['line']:5} " in words for words in told["shown"])
    assert told["closed"] == 0


@pytest.fixture(scope="module")
def layer():
    """The report of one layer, of which all schedules are timed."""
    return page_report("models/tiny_two_convs.onnx", "stem", schedule=TAPS)


@pytest.fixture(scope="module")
def layer_page(layer):
    """Its page."""
    return page_html(layer).decode()


SIZE = (1280, 800)


def test_the_first_screen_answers_three_questions(browser, layer, layer_page):
    """Why this schedule, where does the time go, what does lane 57 hold at s = 2: without scrolling or a click."""
    (kernel,) = layer.kernels
    told = browser.told(layer_page.replace("</body>", f"{SCREEN}</body>"), *SIZE)
    width, height = SIZE
    shown = [*told["answers"], told["lane"]]
    assert all(0 <= left < right <= width and 0 <= top < bottom <= height for _, (left, top, right, bottom) in shown)
    words = [each for each, _ in told["answers"]]
    assert set(why_lines(kernel.compiled.plan)) <= set(words)
    assert f"{kernel.time.microseconds:.2f} us, {kernel.time.cycles:.0f} cycles on b200" in words
    cause, share = next(iter(kernel.time.waits.items()))
    assert any(each.startswith(f"{cause} {share:.0%}") for each in words)
    assert re.match(r"lane 57 at filter tap \(\d+, 2\): pixel \(\d+, \d+, \d+\) from row", told["lane"][0])


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_first_screen_looks_as_the_page_says(browser, layer_page, dark):
    """Loosely: each lane has its colour where no letter is, and words can be seen; no font and no pixel is compared."""
    page = layer_page.replace("prefers-color-scheme:dark", "min-width:1px") if dark else layer_page
    page = page.replace("</body>", f"{SCREEN}</body>")
    told = browser.told(page, *SIZE)
    shot = np.asarray(Image.open(BytesIO(browser.screenshot(page, *SIZE))).convert("RGB")).astype(int)
    assert shot.shape == (SIZE[1], SIZE[0], 3)
    paper = (13, 17, 23) if dark else (255, 255, 255)
    assert np.abs(shot[4, 4] - paper).max() <= 2
    assert len(told["cells"]) > 32
    for x, y, fill, _ in told["cells"]:
        assert np.abs(shot[y, x] - [int(each) for each in re.findall(r"\d+", fill)][:3]).max() <= 2, (x, y, fill)
    assert len({fill for *_, fill, _ in told["cells"]}) >= 4
    for words, (left, top, right, bottom) in [*told["answers"], told["lane"]]:
        assert np.ptp(shot[top:bottom, left:right]) > 100, f"nobody can read {words!r}"


def assert_quick(told):
    """Ready in 2 s, and at a slider's move in a tenth of that, or in `YARDS` times the layout of 20,000 lines."""
    limit = max(2000, YARDS * told["yard"])
    assert 0 < told["ready"] < limit, told
    assert 0 < told["slide"] < limit / 10, told


def test_the_page_answers_in_two_seconds(browser, layer_page):
    assert_quick(browser.told(layer_page.replace("</body>", f"{SCREEN}</body>"), *SIZE))


@pytest.mark.slow
def test_a_page_of_53_layers_answers_in_two_seconds(browser):
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    page = page_html(page_report(light / "light_resnet50.onnx")).decode()
    script = SCREEN.replace("const box", "panel.scrollIntoView();\nconst box")
    assert_quick(browser.told(page.replace("</body>", f"{script}</body>"), *SIZE))


def test_the_worked_example_runs_without_a_fault(browser):
    script = SCREEN.replace("told.ready =", "told.faults = window.faults; told.ready =")
    page = example_html().decode().replace("<head>", f"<head>{WATCH}").replace("</body>", f"{script}</body>")
    told = browser.told(page, *SIZE)
    assert told["faults"] == []
    assert told["lane"][0].startswith("lane 15 at filter tap (1, 2)")


def test_everybody_can_use_the_page(browser, report, axe):
    page = page_html(report).decode().replace("</body>", f"<script>{axe}</script>{AXE}</body>")
    assert browser.told(page, 1200) == []
