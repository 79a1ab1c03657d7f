"""The page in a real browser: its script runs without an error, sliders move lanes, steps light up, tables sort.

A browser without a window opens the page and prints what became of it (``--dump-dom``); a script of the test's, put at
the page's end, does what a reader would.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest

import convc
from convc.api.paging import page_report
from convc.page.lane_data import lane_data
from convc.page.render import page_html

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = os.environ.get("CONVC_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)

pytestmark = pytest.mark.skipif(
    BROWSER is None,
    reason="no browser: apt-get install chromium-headless-shell, or set CONVC_BROWSER to the program of a Chromium",
)

WATCH = """<script>
window.faults = [];
window.addEventListener("error", (event) => window.faults.push(event.message));
document.addEventListener("securitypolicyviolation", (event) => window.faults.push(event.blockedURI));
</script>"""

READER = """<script>
const told = {};
const wait = (ready, then) => (ready() ? then() : setTimeout(() => wait(ready, then), 10));
const panel = document.querySelector("#kernel-0 .lanes");
panel.scrollIntoView();
wait(() => panel.querySelector(".stage svg") !== null, () => {
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
  for (const slice of document.querySelectorAll("#kernel-0 .zoomed [data-line]")) {
    slice.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    told.line = Number(slice.dataset.line);
    told.shown = [...document.querySelectorAll("#kernel-0 pre.chosen")].map((one) => one.textContent);
    if (told.shown.length > 0) break;  // the first slices are of lines that belong to no step
  }
  window.dispatchEvent(new Event("beforeprint"));
  told.closed = document.querySelectorAll("details:not([open])").length;
  const step = document.querySelector("tr[data-step='mma.multiply'], tr[data-step^='mma.multiply']");
  step.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
  told.step = step.dataset.step;
  told.lit = [...document.querySelectorAll("#kernel-0 pre.same")].map((one) => one.textContent);
  document.querySelector("#kernel-0 tr[data-step] a").focus();
  told.chosen = document.querySelectorAll("#kernel-0 pre.chosen").length;
  told.unnamed = [...document.querySelectorAll("input")].filter((one) => one.labels.length === 0).length;
  told.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  told.asked = performance.getEntriesByType("resource").length;
  told.faults = window.faults;
  const answer = document.createElement("script");
  answer.type = "application/json";
  answer.id = "told";
  answer.textContent = JSON.stringify(told);
  document.body.append(answer);
});
</script>"""


TAPS = convc.ScheduleOptions(columns="off")


@pytest.fixture(scope="module")
def report():
    return page_report("models/tiny_two_convs.onnx", schedule=TAPS)


@pytest.fixture(scope="module", params=[400, 2000], ids=["narrow", "wide"])
def told(request, report, tmp_path_factory):
    """What the reader in the page saw, in a window of so many pixels."""
    page = page_html(report).decode().replace("<head>", f"<head>{WATCH}").replace("</body>", f"{READER}</body>")
    folder = tmp_path_factory.mktemp("browser")
    (folder / "page.html").write_text(page)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    size = f"--window-size={request.param},1200"
    call = [str(BROWSER), *flags, size, f"--user-data-dir={folder}/profile", f"file://{folder}/page.html"]
    dumped = subprocess.run(call, capture_output=True, text=True, timeout=60, check=True).stdout
    found = re.search(r'<script type="application/json" id="told">(.*?)</script>', dumped, re.DOTALL)
    assert found, "the reader came to no end"
    return json.loads(found[1])


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
        held = [[lane, ",".join(map(str, numbers[1:4]))] for lane, numbers in enumerate(tap["lanes"])]
        assert sorted(frame["lanes"]) == held
    (tap,) = (tap for tap in data["taps"] if (tap["r"], tap["s"]) == (1, 2))
    row, n, h, w, _ = tap["lanes"][57]
    assert told["picked"] == f"{n},{h},{w}"
    assert told["sentence"].startswith(f"lane 57 at filter tap (1, 2): pixel ({n}, {h}, {w}) from row {row} of shared ")


def test_tables_sort_and_steps_light_up(told):
    assert told["up"] == ["head", "stem"]
    assert told["down"] == ["stem", "head"]
    assert told["sorted"] == "descending"
    assert told["lit"]
    assert all(f"//@ step={told['step']} " in words for words in told["lit"])
    assert told["chosen"] > 0
    assert any(f"{told['line']:5} " in words for words in told["shown"])
    assert told["closed"] == 0
