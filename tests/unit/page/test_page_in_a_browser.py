"""The page in a real browser: its script runs without an error, sliders move lanes, steps light up, tables sort.

A browser without a window opens the page and prints what became of it (``--dump-dom``); a script of the test's, put at
the page's end, does what a reader would.
"""

from __future__ import annotations

import pytest

import convc
from convc.api.paging import page_report
from convc.page.lane_data import lane_data
from convc.page.render import page_html
from convc.report.perfetto import trace_bytes

WATCH = """<script>
window.faults = [];
window.addEventListener("error", (event) => window.faults.push(event.message));
document.addEventListener("securitypolicyviolation", (event) => window.faults.push(event.blockedURI));
</script>"""

READER = r"""<script>
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
  const answer = document.createElement("script");
  answer.type = "application/json";
  answer.id = "told";
  answer.textContent = JSON.stringify(told);
  document.body.append(answer);
}
</script>"""


AXE = """<script>
document.getElementById("kernel-0").remove();  // one kernel is like another
for (const each of document.querySelectorAll("details")) each.open = true;
axe.run({ exclude: [["svg"]] }, { resultTypes: ["violations"] }).then((found) => {
  const answer = document.createElement("script");
  answer.type = "application/json";
  answer.id = "told";
  const told = found.violations.map((one) => [one.id, one.help, one.nodes.length, one.nodes[0].html.slice(0, 200)]);
  answer.textContent = JSON.stringify(told);
  document.body.append(answer);
});
</script>"""


TAPS = convc.ScheduleOptions(columns="off")


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
    assert told["loads"] == ["load.a_0", "load.a_1"]
    assert any(f"{told['line']:5} " in words for words in told["shown"])
    assert told["closed"] == 0


def test_everybody_can_use_the_page(browser, report, axe):
    page = page_html(report).decode().replace("</body>", f"<script>{axe}</script>{AXE}</body>")
    assert browser.told(page, 1200) == []
