"""The HTML of a report.

Jinja escapes every text that the template prints, but for what it calls ``safe``: the files of this folder, pictures,
whose words `convc.draw.svg` escapes, and the data of scripts, which `script_json` does.
"""

from __future__ import annotations

import base64
import functools
import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import jinja2

from convc.compiler.plan.records import Plan
from convc.draw.descriptors import descriptor_picture
from convc.draw.lanes import lanes_picture
from convc.draw.memory import memory_picture
from convc.draw.memory_time import memory_time_picture
from convc.draw.roofline import roofline_picture
from convc.draw.schedules import schedules_picture
from convc.draw.svg import STYLE, Picture, clean
from convc.draw.timeline import timeline_picture
from convc.errors import ToolError
from convc.explain.chain import chain_lines
from convc.explain.example import PROBLEM, example_tiles, print_example
from convc.explain.summary import summary_lines
from convc.explain.tiles import KernelTiles, plan_tiles
from convc.explain.why import two_times, why_lines
from convc.page.contents import PageContents, PageKernel
from convc.page.layouts import lane_data, layouts, tensor_maps
from convc.page.linked_text import descriptors, sass_runs, step_lines, text_lines, text_runs, turns_of
from convc.report.console import page_text
from convc.report.format import convolution, human_bytes
from convc.report.perfetto import trace_bytes
from convc.timing.kernel import KernelTime

FOLDER = Path(__file__).parent
LABEL = 13
"""Letters of the labels in the lines of a summary."""

COLUMNS = ("layer", "convolution", "schedule", "us", "share", "waits for", "verdict")
"""Of the table of layers; the last one where the layers were verified."""

WAITS = 3
"""Causes that are named in an answer."""

FEW = 4
"""Kernels of a page up to which it has tensor maps and memory over time, 27 KB and more each, and more of the MMAs."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """A picture in a page: its text, and the id of its place; "" in place of the text where it stands further up."""

    place: str
    svg: str


@dataclass(frozen=True, slots=True)
class _Pictures:
    """The pictures of a page, each there once: kernels have layouts and descriptors in common."""

    places: dict[str, str] = field(default_factory=dict[str, str])

    def told(self, pairs: Iterable[tuple[str, Picture]]) -> list[tuple[str, _Shown]]:
        """Pictures with sentences, each at the place where it was shown first."""
        return [(said, self._shown(picture)) for said, picture in pairs]

    def _shown(self, picture: Picture) -> _Shown:
        svg = _svg(picture)
        if svg in self.places:
            return _Shown(self.places[svg], "")
        self.places[svg] = f"picture-{len(self.places)}"
        return _Shown(self.places[svg], svg)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )
    filters = cast("dict[str, Any]", environment.filters)
    filters["packed"] = _packed
    return environment


def page_html(report: PageContents) -> bytes:
    """The whole page, UTF-8: one file that needs nothing else."""
    points = [layer.point for layer in report.layers if layer.point is not None]
    several = len(report.layers) > 1 or not report.kernels
    pictures = _Pictures()
    return filled(
        "page.html.j2",
        title=clean(f"{report.source} on {report.chip.name}"),
        rows=_rows(report),
        several=several,
        total=f"{report.microseconds:.1f}",
        clock=f"{report.chip['chip.clock']:g}",
        columns=COLUMNS if report.verdicts else COLUMNS[:-1],
        verified=bool(report.verdicts),
        roofline=_svg(roofline_picture(points, report.chip)) if several and points else None,
        kernels=[_kernel(report, place, pictures) for place in range(len(report.kernels))],
    )


def filled(template: str, **values: object) -> bytes:
    """A page of a template, with the style and the script that all pages have, UTF-8."""
    style = f"{STYLE}\n{(FOLDER / 'page.css').read_text()}"
    script = (FOLDER / "page.js").read_text()
    return _environment().get_template(template).render(style=style, script=script, **values).encode()


def tile_parts(tiles: KernelTiles) -> dict[str, Any]:
    """The lanes of a tile, if they have pixels, and its loop nests, as ``parts.html.j2`` shows them."""
    nests = {
        "nests": "\n".join(chain_lines(tiles.stages())),
        "claims": [str(each) for each in tiles.claims],
        "cases": [str(each) for each in tiles.cases],
    }
    if not tiles.pixels:
        return {**nests, "lanes": ""}
    lanes = lane_data(tiles)
    rows, columns = lanes["kernel"]
    return {
        **nests,
        "rows": rows,
        "columns": columns,
        "unit": lanes["unit"],
        "lane_count": len(lanes["outputs"]),
        "first": lanes["first"],
        "lanes": script_json(lanes),
    }


def _packed(content: str) -> str:
    """Markup as gzip in base64, which the page's script unpacks when it is opened."""
    return f'<script type="application/gzip" class="packed">{_gzip(content.encode())}</script>'


def _gzip(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()


def script_json(data: object) -> str:
    """JSON that can stand in a script element: no ``<`` ends it, none begins a comment."""
    plain = json.dumps(data, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _svg(picture: Picture) -> str:
    """A picture without the style that the page has once."""
    return picture.svg(style=False)


def _rows(report: PageContents) -> list[dict[str, Any]]:
    """The table of layers."""
    times = [_time(report, layer.kernel) for layer in report.layers]
    longest = max((time.microseconds for time in times if time is not None), default=1.0)
    rows: list[dict[str, Any]] = []
    for number, (layer, time) in enumerate(zip(report.layers, times, strict=True)):
        kernel = None if layer.kernel is None else report.kernels[layer.kernel]
        us = 0.0 if time is None else time.microseconds
        rows.append(
            {
                "number": number,
                "name": clean(layer.name),
                "kernel": layer.kernel,
                "convolution": convolution(layer.problem),
                "schedule": layer.reason or "none" if kernel is None else kernel.compiled.schedule,
                "us": f"{us:.2f}",
                "share": f"{100 * us / max(report.microseconds, 1e-9):.1f}",
                "bar": f"{100 * us / longest:.1f}",
                "waits": "" if time is None else _waits(time, 1),
                "verdict": report.verdicts.get(layer.name, ""),
            }
        )
    return rows


def _time(report: PageContents, kernel: int | None) -> KernelTime | None:
    """The time of a kernel, where there is one."""
    return None if kernel is None else report.kernels[kernel].time


def _waits(time: KernelTime, most: int) -> str:
    """The largest causes of a kernel's critical path."""
    return ", ".join(f"{cause} {share:.0%}" for cause, share in list(time.waits.items())[:most])


def _kernel(report: PageContents, place: int, pictures: _Pictures) -> dict[str, Any]:
    """Everything about a kernel."""
    kernel = report.kernels[place]
    plan = kernel.compiled.plan
    launch = kernel.compiled.artifact.launch
    tiles = plan_tiles(plan)
    line_turns, turns = turns_of(kernel.time.trace)
    text = text_lines(kernel.text, line_turns)
    code = kernel.time.assembly.code if kernel.time.assembly else ()
    few = len(report.kernels) <= FEW
    names = [clean(layer.name) for layer in report.layers if layer.kernel == place]
    fused = next(layer.fused for layer in report.layers if layer.kernel == place)
    return {
        "place": place,
        "names": names,
        "answer": _answer(kernel),
        "summary": [(line[:LABEL].strip(), clean(line[LABEL:])) for line in _summary(kernel, fused)],
        "schedules": _svg(schedules_picture(plan, kernel.schedules)),
        **tile_parts(tiles),
        "memory": _svg(memory_picture(plan)),
        "memory_time": _svg(memory_time_picture(kernel.time, kernel.compiled.program)) if few else "",
        "layouts": pictures.told(layouts(plan, kernel.text, launch, 16 if few else 8)),
        "descriptors": pictures.told(
            (f"first given at step {step}", descriptor_picture(found)) for step, found in descriptors(kernel.text)
        ),
        "maps": pictures.told(tensor_maps(launch) if few else ()),
        "trace": _trace(kernel.time),
        "timeline": _svg(timeline_picture(kernel.time)),
        "steps": step_lines(kernel.compiled.program, text, kernel.time.parts),
        "runs": text_runs(text),
        "nest": tiles.nest().marked(),
        "sass": sass_runs(code, text, turns),
    }


def _trace(time: KernelTime) -> str:
    """The trace of a kernel as gzip in base64; "" where the package that writes traces is not there."""
    try:
        content = trace_bytes(time)
    except ToolError:
        return ""
    return _gzip(content)


def _summary(kernel: PageKernel, fused: tuple[str, ...]) -> list[str]:
    return list(summary_lines(kernel.compiled, fused, kernel.text, kernel.edited, kernel.time.cycles))


def _answer(kernel: PageKernel) -> list[tuple[str, str]]:
    """The answer first: schedule, time, waits, CTAs and waves, memory."""
    plan = kernel.compiled.plan
    time = kernel.time
    return [
        ("schedule", kernel.compiled.schedule),
        *(("why" if number == 0 else "", line) for number, line in enumerate(why_lines(plan))),
        ("time", f"{time.microseconds:.2f} us, {time.cycles:.0f} cycles on {time.chip.name}"),
        ("", two_times(plan, time.cycles)),
        ("waits for", _waits(time, WAITS)),
        ("CTAs", f"{time.ctas} on {time.launch.busy} SMs, up to {time.launch.beside} per SM, {_waves(time)}"),
        ("memory", _memory(plan)),
    ]


def _waves(time: KernelTime) -> str:
    """Rounds of CTAs over the SMs."""
    return "1 wave" if time.launch.rounds == 1 else f"{time.launch.rounds} waves"


def _memory(plan: Plan) -> str:
    """Memory of a CTA."""
    storage = plan.storage
    shared = human_bytes(storage.smem_bytes)
    return f"{shared} of shared memory, {storage.tmem_columns} columns of tensor memory a CTA"


def example_html() -> bytes:
    """The worked example as a page, UTF-8: tiles of 16 lanes on images of 9x9 pixels, in one file."""
    tiles = example_tiles()
    return filled(
        "example.html.j2",
        title="The worked example: a 3x3 filter on images of 9x9 pixels",
        problem=PROBLEM.describe(),
        example=tile_parts(tiles),
        picture=lanes_picture(tiles.lanes(0)).svg(style=False),
        printed=page_text(lambda console: print_example(console, True)),
    )
