"""Whole kernels as text: every step is in it once, ptxas takes all of them, and size does not follow the problem."""

from __future__ import annotations

import re

import pytest
from support.records import replace
from support.schedules import RELOAD_ONLY

from convc.compiler.compile import compile_problem
from convc.compiler.emit.kernel import emit, numbers_of
from convc.compiler.options import ScheduleOptions
from convc.compiler.tile.program import walk
from convc.ir.launch import ScalarParam
from convc.ir.problem import ConvProblem
from convc.support.resources import template_folder

BASE = ConvProblem(
    name="base",
    batch=2,
    in_channels=70,
    out_channels=100,
    in_extent=(9, 11),
    kernel=(3, 3),
    pad_lo=(1, 1),
    pad_hi=(1, 1),
    bias=True,
)


def changed(**changes) -> ConvProblem:
    return replace(BASE, **changes)


@pytest.mark.parametrize(
    ("problem", "choice"),
    [
        (changed(operand="f16", out="f16"), {"block_n": 128, "stages": 1}),
        (changed(operand="f16", out="bf16"), {"block_n": 256, "stages": 4}),
        (changed(operand="bf16", out="f32"), {"block_n": 48, "stages": 2}),
        (changed(operand="tf32", out="f16"), {"block_n": 16, "stages": 8}),
        (changed(in_channels=1, out_channels=1, out="f32"), {}),
        (changed(in_channels=9, out_channels=129), {}),
        (changed(in_extent=(1, 1), kernel=(1, 1), pad_lo=(0, 0), pad_hi=(0, 0)), {}),
    ],
)
def test_ptxas_accepts(problem, choice, assembled):
    result = assembled(compile_problem(problem, options=RELOAD_ONLY, **choice).artifact.ptx)
    assert result.spill_bytes == 0
    assert result.registers <= 96


def test_every_step_is_marked_once():
    compiled = compile_problem(BASE, options=RELOAD_ONLY)
    marks = re.findall(r"^ *//@ step=(\S+) role=(\S+) \S", compiled.artifact.ptx, re.MULTILINE)
    steps = [(step.id, role.name) for role in compiled.program.all_roles for step in walk(role.steps)]
    assert marks == steps


def test_no_template_hides_a_number_of_its_role():
    """A register declared inside a template must not have the name of a number that the template reads."""
    text = "\n".join(path.read_text() for path in (template_folder() / "steps").glob("*.j2"))
    declared = {name for line in re.findall(r"\.reg \.\w+ ([^;{]*);", text) for name in re.findall(r"%(\w+)", line)}
    assert {"bar", "acc", "to", "wrap"} <= declared
    program = compile_problem(BASE, options=RELOAD_ONLY).program
    for role in program.all_roles:
        numbers = set(numbers_of(program, role)) | set(program.params) | {"stage", "phase", "smem", "tmem"}
        assert not numbers & declared
        assert not [name for name in numbers if re.fullmatch(r"[twpvhbo]\d+", name)]


def test_labels_are_unique():
    labels = re.findall(r"^ *(\w+):$", compile_problem(BASE, options=RELOAD_ONLY).artifact.ptx, re.MULTILINE)
    assert len(labels) == len(set(labels))


def test_the_text_is_the_same_every_time():
    first, second = (compile_problem(BASE, options=RELOAD_ONLY).artifact for _ in range(2))
    assert first == second


def test_the_length_does_not_follow_the_problem():
    small = compile_problem(changed(in_channels=64), options=RELOAD_ONLY, block_n=64, stages=2).artifact.ptx
    large = compile_problem(
        changed(in_channels=4096, out_channels=1000), options=RELOAD_ONLY, block_n=64, stages=2
    ).artifact.ptx
    assert small.count("\n") == large.count("\n") < 520


def test_guards_appear_only_where_an_edge_is():
    def stores(problem: ConvProblem, block_n: int) -> set[str]:
        text = compile_problem(problem, options=RELOAD_ONLY, block_n=block_n).artifact.ptx
        return set(re.findall(r"^ *(@%\w+ )?st\.global", text, re.MULTILINE))

    even = {"kernel": (1, 1), "pad_lo": (0, 0), "pad_hi": (0, 0), "in_extent": (8, 8)}
    assert stores(changed(**even, out_channels=64), 64) == {""}
    assert stores(changed(**even, out_channels=40), 64) == {"@%in "}
    assert stores(changed(out_channels=64), 64) == {"@%row_in "}
    assert stores(changed(out_channels=40), 64) == {"@%in "}


def test_the_epilogue_writes_whole_pitches():
    """K = 100 is stored in rows of 104: the padding is written, and nothing behind it."""
    compiled = compile_problem(BASE, options=RELOAD_ONLY, block_n=128)
    assert compiled.layout.k_pitch == 104
    assert "setp.lt.and.s32 %in, %k, 104, %row_in;" in compiled.artifact.ptx


def test_a_scalar_parameter_is_refused():
    program = compile_problem(BASE, options=RELOAD_ONLY).program
    params = (*program.launch.params[:3], ScalarParam(dtype="f32", value=1.0))
    launch = replace(program.launch, params=params)
    with pytest.raises(ValueError, match="parameter out: a kernel takes tensor maps and pointers"):
        emit(replace(program, launch=launch))


@pytest.mark.parametrize("schedule", [{"schedule": "slide", "border": "mask", "rows": "merged"}, {"schedule": "shift"}])
def test_all_stages_of_an_accumulator_are_cleared_before_the_first_tile(schedule):
    problem = ConvProblem(
        batch=4, in_channels=64, out_channels=64, in_extent=(28, 28), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    options = ScheduleOptions(persistent="on", ctas=2, cta_group="1", **schedule)
    compiled = compile_problem(problem, options=options)
    (step,) = re.findall(r"(?s)//@ step=epilogue.zero_first.*?(?=//@ step=)", compiled.artifact.ptx)
    acc = compiled.plan.storage.tmem_tile("acc")
    stores = [(int(at), int(count)) for count, at in re.findall(r"\.x(\d+)\.b32 \[%to\+(\d+)\]", step)]
    cleared = [column for at, count in stores for column in range(at, at + count)]
    assert (acc.stages, cleared) == (2, list(range(2 * acc.columns)))
