"""Every golden kernel has a report: all its pictures are drawn, and the page has what its plan and its text say."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import re

import pytest
from test_golden_kernels import CHOICES, PROBLEMS

from convc.api.timing import element_bits
from convc.compiler.compile import compile_problem
from convc.draw.lanes import lanes_picture
from convc.draw.passes import passes_picture
from convc.draw.roofline import RoofPoint, roofline_picture
from convc.draw.schedules import timed_schedule
from convc.errors import InputError
from convc.explain.tiles import plan_tiles
from convc.explain.why import why_lines
from convc.page.records import PageKernel, PageLayer, PageReport
from convc.page.render import page_html
from convc.timing.kernel import time_kernel
from convc.timing.parameters import read_chip

USUAL = ("scaled_nvfp4", "hopper_slide_f16")
"""Operands and a chip that no model of the other tests of pages has."""

CUT = {"large_output_f32": dataclasses.replace(PROBLEMS["large_output_f32"], batch=64)}
"""Fewer images: the simulator holds all buffers of a launch, here 15 GiB."""


@pytest.mark.parametrize(
    "name", [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in PROBLEMS]
)
def test_a_golden_kernel_has_a_report(name):
    problem = CUT.get(name, PROBLEMS[name])
    compiled = compile_problem(problem, **CHOICES[name])
    text = compiled.artifact.ptx
    chip = read_chip("h200" if CHOICES[name]["options"].target == "sm_90a" else "b200", [])
    time = time_kernel(text, compiled.artifact.launch, {}, chip, name=name)
    point = RoofPoint(name=name, macs=problem.macs, element_bits=element_bits(problem), kernel=time)
    schedules = {compiled.plan.schedule.title: timed_schedule(compiled.plan, time)}
    kernel = PageKernel(compiled=compiled, text=text, time=time, schedules=schedules)
    layer = PageLayer(name=name, problem=problem, kernel=0, point=point)
    page = page_html(PageReport(source=name, chip=chip, layers=(layer,), kernels=(kernel,))).decode()
    assert len(page) < 1 << 20
    for line in why_lines(compiled.plan):
        assert line.replace("'", "&#39;").replace("<", "&lt;").replace(">", "&gt;") in page
    packed = [gzip.decompress(base64.b64decode(each)).decode() for each in re.findall(r'class="packed">([^<]*)<', page)]
    assert f"{name}: first wave on {chip.name}, {time.launch.lengths[0]:.0f} cycles" in packed[0]
    steps = set(re.findall(r"//@ step=(\S+)", text))
    assert steps <= set(re.findall(r'data-step="([^"]*)"', packed[1]))
    if not compiled.layout.summed:  # then lanes are weights, and have no pixels
        assert lanes_picture(plan_tiles(compiled.plan).typical()).parts
    if "sm_90" in chip.targets:
        with pytest.raises(InputError, match=r"no tcgen05\.mma"):
            passes_picture(time)
    elif not any(shape.ws for shape in time.shapes):  # of those no measurement says how they work inside
        assert passes_picture(time).parts
    assert roofline_picture([point], chip).parts
