"use strict";

// Tables: a button in each head sorts by that column.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const order = (a, b) => {
      const numbers = [Number(key(a)), Number(key(b))];
      return numbers.some(Number.isNaN) ? key(a).localeCompare(key(b)) : numbers[0] - numbers[1];
    };
    const rows = [...table.tBodies[0].rows].sort(order);
    table.tBodies[0].append(...(up ? rows : rows.reverse()));
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
  }));
}

// The tile on the image: what each lane holds at a filter tap, from the lane tables.
const CELL = 24;
const SLOT = 30;
const SVG = "http://www.w3.org/2000/svg";

function element(parent, name, attributes, words = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = words;
  parent.append(made);
  return made;
}

function real(data, n, h, w) {
  const [images, height, width] = data.image;
  return n >= 0 && n < images && h >= 0 && h < height && w >= 0 && w < width;
}

function sentence(data, tap, lane) {
  const [row, n, h, w, state, ...needed] = tap.lanes[lane];
  const who = `${data.unit} ${lane} at filter tap (${tap.r}, ${tap.s})`;
  const held = `(${n}, ${h}, ${w})`;
  const word = data.states[state];
  if (word === "idle") return `${who}: no output; row ${row} of shared memory holds pixel ${held}`;
  if (word === "masked") {
    return `${who}: masked, it holds pixel ${held} from row ${row} of shared memory and needs (${needed.join(", ")}), which is padding`;
  }
  const output = ` for output (${data.outputs[lane].join(", ")})`;
  if (word === "padding") return `${who}: padding ${held}, a zero in row ${row} of shared memory,${output}`;
  return `${who}: pixel ${held} from row ${row} of shared memory${word === "fresh" ? ", fetched anew," : ""}${output}`;
}

// One frame for all filter taps, so that the image stands still: rows and columns that any lane holds.
function frame(data) {
  const rows = new Map();
  let low = Infinity;
  let high = -Infinity;
  for (const tap of data.taps) {
    for (const [, n, h, w] of tap.lanes) {
      rows.set(`${n},${h}`, [n, h]);
      low = Math.min(low, w);
      high = Math.max(high, w);
    }
  }
  const sorted = [...rows.values()].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return { rows: sorted, place: new Map(sorted.map(([n, h], at) => [`${n},${h}`, at])), low, high };
}

function cell(parent, data, tap, lane, x, y, width, words, picked) {
  const [row, n, h, w, state] = tap.lanes[lane];
  const word = data.states[state];
  const group = element(parent, "g", { "data-lane": lane, "data-row": row, "data-pixel": `${n},${h},${w}`, "data-state": word });
  element(group, "title", {}, sentence(data, tap, lane));
  const plain = word === "idle" || !real(data, n, h, w);
  const tint = plain ? "pad" : `t${Math.floor(lane * 8 / tap.lanes.length)}`;
  const mark = lane === picked ? " picked" : "";
  element(group, "rect", { x, y, width, height: CELL, class: `${tint} box${real(data, n, h, w) ? "" : " dash"}${mark}` });
  if (word === "masked") element(group, "path", { class: "mark", d: `M${x} ${y}l${width} ${CELL}m0 ${-CELL}l${-width} ${CELL}` });
  if (word === "fresh") element(group, "rect", { x, y, width: 4, height: CELL, class: "hot" });
  if (word === "masked" || word === "fresh") element(group, "rect", { x: x + 1, y: y + 1, width: width - 2, height: CELL - 2, class: "rim" });
  element(group, "text", { x: x + width / 2, y: y + 16, class: word === "idle" ? "mid soft" : "mid" }, words);
}

function drawImage(data, tap, shape, picked) {
  const width = 80 + (shape.high - shape.low + 1) * CELL;
  const height = 24 + shape.rows.length * CELL;
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ class: "convc", width, height, role: "img" })) svg.setAttribute(key, value);
  element(svg, "title", {}, `pixels of tile ${data.tile} at filter tap (${tap.r}, ${tap.s})`);
  for (let w = shape.low; w <= shape.high; w += 1) {
    element(svg, "text", { x: 80 + (w - shape.low + 0.5) * CELL, y: 16, class: "soft mid" }, String(w));
  }
  shape.rows.forEach(([n, h], at) => {
    element(svg, "text", { x: 74, y: 24 + at * CELL + 16, class: "soft end" }, `n${n} h${h}`);
    for (let w = shape.low; w <= shape.high; w += 1) {
      if (real(data, n, h, w)) {
        element(svg, "rect", { x: 80 + (w - shape.low) * CELL, y: 24 + at * CELL, width: CELL, height: CELL, class: "idle" });
      }
    }
  });
  // Lanes with an output lie above those without, the picked one above all.
  const rank = (lane) => (lane === picked ? 2 : Number(data.outputs[lane] !== null));
  const lanes = [...tap.lanes.keys()].sort((a, b) => rank(a) - rank(b));
  for (const lane of lanes) {
    const [, n, h, w] = tap.lanes[lane];
    cell(svg, data, tap, lane, 80 + (w - shape.low) * CELL, 24 + shape.place.get(`${n},${h}`) * CELL, CELL, String(lane), picked);
  }
  return svg;
}

// The rows of the copy in shared memory, in order; in each the lane that holds it now.
function drawRows(data, tap, picked) {
  const rows = data.copies[tap.copy];
  const across = 16;
  const svg = document.createElementNS(SVG, "svg");
  const height = 24 + Math.ceil(rows.length / across) * CELL;
  for (const [key, value] of Object.entries({ class: "convc", width: 60 + across * SLOT, height, role: "img" })) svg.setAttribute(key, value);
  element(svg, "title", {}, `rows of copy ${tap.copy} in shared memory, with the lanes that hold them`);
  element(svg, "text", { x: 0, y: 16, class: "soft" }, `rows of shared memory, and the ${data.unit} that holds each`);
  const holder = new Map(tap.lanes.map((lane, number) => [lane[0], number]));
  rows.forEach((pixel, row) => {
    const x = 60 + (row % across) * SLOT;
    const y = 24 + Math.floor(row / across) * CELL;
    if (row % across === 0) element(svg, "text", { x: 54, y: y + 16, class: "soft end" }, String(row));
    if (holder.has(row)) {
      cell(svg, data, tap, holder.get(row), x, y, SLOT, String(holder.get(row)), picked);
    } else {
      element(element(svg, "g", {}), "rect", { x, y, width: SLOT, height: CELL, class: "idle box" });
    }
  });
  return svg;
}

for (const panel of document.querySelectorAll(".lanes")) {
  const data = JSON.parse(document.getElementById(panel.dataset.lanes).textContent);
  for (const tap of data.taps) {
    const pixels = data.copies[tap.copy];
    tap.lanes = tap.lanes.map(([row, ...rest]) => [row, ...pixels[row], ...rest]);
  }
  const shape = frame(data);
  const find = (name) => panel.querySelector(`.${name}`);
  const show = () => {
    const r = Number(find("row").value);
    const s = Number(find("column").value);
    const lane = Math.max(0, Math.min(data.outputs.length - 1, Number(find("lane").value) || 0));
    const tap = data.taps.find((one) => one.r === r && one.s === s);
    find("row-value").textContent = r;
    find("column-value").textContent = s;
    find("one").textContent = sentence(data, tap, lane);
    find("said").textContent = tap.said;
    find("stage").replaceChildren(drawImage(data, tap, shape, lane), drawRows(data, tap, lane));
  };
  for (const name of ["row", "column", "lane"]) find(name).addEventListener("input", show);
  find("stage").addEventListener("click", (event) => {
    const group = event.target.closest("[data-lane]");
    if (group === null) return;
    find("lane").value = group.dataset.lane;
    show();
  });
  // A page of many kernels draws each tile when it comes into view.
  const seen = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) {
      seen.disconnect();
      show();
    }
  });
  seen.observe(panel);
}

// Lines of the nest, of the tile program, of the PTX and of machine code that belong to one step light up together.
function link(linked) {
  const rows = [...linked.querySelectorAll("tr[data-step]")];
  const kinds = (element) => (element?.dataset.kind ?? "").split(" ").filter((kind) => kind !== "");
  // A line of the nest stands for all steps that do it; a step for itself and the lines of the nest that it does.
  const linesOf = (at) => {
    const steps = at.dataset.step ? [at.dataset.step]
      : rows.filter((row) => kinds(row).includes(at.dataset.kind)).map((row) => row.dataset.step);
    const done = at.dataset.step ? kinds(rows.find((row) => row.dataset.step === at.dataset.step)) : kinds(at);
    return [
      ...steps.flatMap((step) => [...linked.querySelectorAll(`[data-step="${CSS.escape(step)}"]`)]),
      ...done.flatMap((kind) => [...linked.querySelectorAll(`.nest [data-kind="${CSS.escape(kind)}"]`)]),
    ];
  };
  const mark = (at, how) => {
    for (const line of linked.querySelectorAll(`.${how}`)) line.classList.remove(how);
    const lines = at ? linesOf(at) : [];
    for (const line of lines) line.classList.add(how);
    return lines;
  };
  const lineOf = (event) => event.target.closest("[data-step], [data-kind]");
  linked.addEventListener("mouseover", (event) => mark(lineOf(event), "same"));
  linked.addEventListener("mouseleave", () => mark(null, "same"));
  linked.addEventListener("focusin", (event) => mark(lineOf(event), "chosen"));
  linked.addEventListener("click", (event) => {
    const lines = mark(lineOf(event), "chosen");
    const here = event.target.closest(".side");
    for (const side of linked.querySelectorAll(".side")) {
      const line = side === here ? undefined : lines.find((one) => side.contains(one));
      if (line) side.scrollTop += line.getBoundingClientRect().top - side.getBoundingClientRect().top - 40;
    }
  });
}

// A slice of the timeline shows the line of the PTX that it is about.
function jump(section) {
  section.querySelector(".zoomed").addEventListener("click", (event) => {
    const line = Number(event.target.closest("[data-track] rect")?.textContent.match(/line (\d+)$/)?.[1]);
    const runs = [...section.querySelectorAll(".linked pre[id]")];
    const run = runs.findLast((one) => Number(one.id.split("-").pop()) <= line);
    if (run === undefined) return;
    run.closest("details").open = true;
    run.click();
    run.scrollIntoView({ block: "center" });
  });
}

// A picture that stands further up is shown again where a lid is opened.
function unfold(details) {
  for (const each of details.querySelectorAll("[data-same]")) {
    each.replaceChildren(...[...document.getElementById(each.dataset.same).children].map((one) => one.cloneNode(true)));
    each.removeAttribute("data-same");
  }
}

for (const each of document.querySelectorAll("details")) each.addEventListener("toggle", () => unfold(each));

// Paper has no lids: everything is printed.
window.addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) {
    unfold(each);
    each.open = true;
  }
});

// Long parts of the page, and traces, lie in it as gzip in base64.
function inflated(script) {
  const bytes = new Blob([Uint8Array.from(atob(script.textContent), (one) => one.charCodeAt(0))]);
  return new Response(bytes.stream().pipeThrough(new DecompressionStream("gzip")));
}

// The button saves the file that the viewer opens.
for (const button of document.querySelectorAll("button.save")) {
  button.addEventListener("click", async () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await inflated(document.getElementById(button.dataset.trace)).blob());
    link.download = button.dataset.name;
    link.click();
    URL.revokeObjectURL(link.href);
  });
}

// The timeline grows along its cycles; its width is that of the picture times the zoom.
function zoom(section) {
  const svg = section.querySelector(".zoomed svg");
  const range = section.querySelector(".zoom");
  const width = Number(svg.getAttribute("width"));
  svg.setAttribute("preserveAspectRatio", "none");
  range.addEventListener("input", () => svg.setAttribute("width", width * Number(range.value)));
}

// Everything is unpacked at once, so that the page can be searched and printed; one part after the other.
(async () => {
  for (const script of document.querySelectorAll("script.packed")) {
    const section = script.closest("section");
    const template = document.createElement("template");
    template.innerHTML = await inflated(script).text();
    const [part] = template.content.children;
    script.replaceWith(part);
    if (part.matches(".linked")) link(part);
    else {
      zoom(section);
      jump(section);
    }
  }
})();
