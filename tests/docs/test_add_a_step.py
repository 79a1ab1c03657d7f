"""The step of ``add_a_step.md``, as it stands there: checked, shown, emitted, assembled, run and interpreted."""

from __future__ import annotations

import re

import jinja2
import numpy as np
import pytest
from pages import blocks, module_of
from support.interpret.run import interpret
from support.records import replace
from support.schedules import RELOAD_ONLY

from convc.compiler.compile import compile_problem
from convc.compiler.emit.kernel import emit
from convc.compiler.emit.render import environment
from convc.compiler.tile.program import walk
from convc.compiler.tile.show import show
from convc.compiler.tile.steps.base import Loop, template_name
from convc.compiler.tile.uses import reads
from convc.compiler.tile.verify import contradictions
from convc.host_layout import repack
from convc.ir.problem import ConvProblem
from convc.machine import run
from convc.verification.data import integer_data
from convc.verification.reference import conv_problem

PAGE = "add_a_step.md"
PROBLEM = ConvProblem(
    name="prelu",
    in_channels=24,
    out_channels=40,
    in_extent=(9, 8),
    kernel=(3, 3),
    pad_lo=(1, 1),
    pad_hi=(1, 1),
    operand="f16",
    out="f32",
    bias=True,
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The module of the page, its template among the others."""
    folder = tmp_path_factory.mktemp("page")
    module = module_of(PAGE, folder)
    (template,) = blocks(PAGE, "jinja")
    file = folder / f"{template_name(module.ApplyPrelu)}.ptx.j2"
    file.parent.mkdir()
    file.write_text(template, encoding="utf-8")
    jinja, shipped = environment(), environment().loader
    assert shipped is not None
    jinja.loader = jinja2.ChoiceLoader([jinja2.FileSystemLoader(folder), shipped])
    yield module
    jinja.loader = shipped


@pytest.fixture(scope="module")
def compiled():
    return compile_problem(PROBLEM, options=RELOAD_ONLY)


@pytest.fixture(scope="module")
def program(page, compiled):
    return page.with_prelu(compiled.program)


def edited(program, **changes):
    """The program with fields of the step changed."""

    def steps(body):
        deep = (replace(s, body=steps(s.body)) if isinstance(s, Loop) else s for s in body)
        return tuple(replace(s, **changes) if s.id == "epilogue.prelu" else s for s in deep)

    return replace(program, roles=tuple(replace(role, steps=steps(role.steps)) for role in program.roles))


def test_verify_sees_what_the_step_uses(page, program):
    (step,) = (s for role in program.roles for s in walk(role.steps) if isinstance(s, page.ApplyPrelu))
    assert reads(step) == (step.channel,)
    assert contradictions(program) == ()
    assert contradictions(edited(program, buffer="slopes")) == (
        "epilogue.prelu names the buffer slopes, which does not exist",
    )
    assert contradictions(edited(program, channel="kk")) == ("epilogue.prelu reads kk, which nothing sets before",)


def test_the_step_is_shown(program):
    assert re.search(r"epilogue\.prelu +times slope\[\w+\] where negative  -- one slope a channel", show(program))


def test_the_step_is_in_the_text_and_ptxas_takes_it(program, compiled, assembled):
    text = emit(program).ptx
    assert text.count("//@ step=epilogue.prelu role=epilogue one slope a channel\n") == 1
    assert "//@ step=epilogue.prelu" not in compiled.artifact.ptx
    assert assembled(text).spill_bytes == 0


def test_machine_interpreter_and_numpy_agree(program, compiled):
    x, w, b = integer_data(PROBLEM, seed=3)
    layout, artifact = compiled.layout, emit(program)
    slopes = np.random.default_rng(3).normal(size=PROBLEM.out_channels).astype(np.float32)
    slope_buffer = np.zeros(layout.bias.shape, np.float32)
    slope_buffer.reshape(-1)[: slopes.size] = slopes
    buffers = {
        "activation": repack.pack_activation(layout, x),
        "filter": repack.pack_filter(layout, w),
        "bias": repack.pack_bias(layout, b),
        "slope": slope_buffer,
    }
    ran = run(artifact.ptx, artifact.launch, buffers)
    assert ran.findings == ()
    machine = repack.unpack_output(layout, ran.buffers["output"])
    interpreted = repack.unpack_output(layout, interpret(program, buffers))
    sums = conv_problem(PROBLEM, x, w, b).astype(np.float32)
    expected = np.where(sums < 0, sums * slopes[:, None, None], sums)
    assert (sums < 0).any()
    np.testing.assert_array_equal(machine, interpreted)
    np.testing.assert_array_equal(machine, expected)
