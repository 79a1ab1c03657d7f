"""What the host does to a problem is held against the definition: a number that is wrong is D100, and no kernel."""

from __future__ import annotations

import functools
import random

import pytest
from support.mutants import changed_code, derived_by, put_record

from convc.compiler.compile import compile_problem
from convc.compiler.plan.hosted import host_claims
from convc.derive.known import theorems, uses
from convc.errors import ConvcError, DerivationError
from convc.host_layout.device_layout import device_layout
from convc.ir.problem import ConvProblem

WRONG = "a number of the kernel is not what it means (theorem "

HOSTED = "convc.derived.hosted"
TRANSPOSED = "convc.host_layout.transposed"
FOLD = "convc.host_layout.fold"

PROBLEMS = {
    "phases": ConvProblem(
        transposed=True, in_channels=4, out_channels=6, groups=2, in_extent=(5, 7), kernel=(4, 3), stride=(2, 3),
        dilation=(1, 2), pad_lo=(1, 2), pad_hi=(0, 1), output_padding=(1, 0),
    ),
    "phases without a tap": ConvProblem(
        transposed=True, in_channels=4, out_channels=6, in_extent=(5, 7), kernel=(2, 1), stride=(5, 3), dilation=(2, 1),
        pad_lo=(4, 1),
    ),
    "phases of a bias": ConvProblem(
        transposed=True, in_channels=4, out_channels=6, in_extent=(5, 7), kernel=(1, 1), stride=(2, 2), bias=True,
        output_padding=(1, 1),
    ),
    "spread out": ConvProblem(
        transposed=True, in_channels=4, out_channels=6, in_extent=(5, 7), kernel=(2, 3), stride=(1, 2),
        dilation=(3, 2), pad_lo=(0, 1), pad_hi=(2, 0),
    ),
    "cropped": ConvProblem(
        transposed=True, in_channels=4, out_channels=6, in_extent=(9, 7), kernel=(1, 2), stride=(1, 1),
        pad_lo=(2, 3), pad_hi=(1, 0),
    ),
    "a row of blocks": ConvProblem(
        in_channels=4, out_channels=6, in_extent=(90,), kernel=(25,), stride=(11,), dilation=(2,), pad_lo=(3,)
    ),
    "far taps": ConvProblem(
        in_channels=4, out_channels=6, in_extent=(600, 9), kernel=(3, 3), stride=(2, 1), dilation=(190, 1),
        pad_lo=(5, 1),
    ),
    "a volume": ConvProblem(
        batch=2, in_channels=4, out_channels=6, in_extent=(7, 9, 8), kernel=(3, 3, 2), stride=(2, 1, 1),
        dilation=(2, 1, 1), pad_lo=(1, 1, 0), pad_hi=(2, 1, 1),
    ),
    "a transposed row": ConvProblem(
        transposed=True, in_channels=4, out_channels=6, in_extent=(9,), kernel=(5,), stride=(3,), pad_lo=(1,),
        pad_hi=(1,),
    ),
}  # fmt: skip

NUMBERS = (
    # which number stands for which size
    (HOSTED, '"U": problem.stride[axis]', '"U": problem.dilation[axis]'),
    (HOSTED, '"D": problem.dilation[axis]', '"D": problem.stride[axis]'),
    (HOSTED, '"PAD": problem.pad_lo[axis]', '"PAD": problem.pad_hi[axis]'),
    (HOSTED, '"S": problem.kernel[axis]', '"S": problem.kernel[0]'),
    (HOSTED, '"outer": outer, "inner": inner', '"outer": inner, "inner": outer'),
    (HOSTED, 'return found["outer"], found["inner"]', 'return found["inner"], found["outer"]'),
    # phases
    (TRANSPOSED, "np.argwhere(rest == 0)", "np.argwhere(rest == 0)[::-1]"),
    (TRANSPOSED, "offset - first)", "offset - first + 1)"),
    (TRANSPOSED, "last - first + 1", "last - first + 2"),
    (TRANSPOSED, "before=-first", "before=1 - first"),
    (TRANSPOSED, "pixels = [pixel + 1 for", "pixels = [pixel for"),
    (TRANSPOSED, "pad_lo=tuple(axis.before for axis in axes)", "pad_lo=tuple(0 for axis in axes)"),
    (TRANSPOSED, "for phase, cut in zip(phases, equivalent", "for phase, cut in zip(reversed(phases), equivalent"),
    (TRANSPOSED, "for cut in reversed(equivalent.axes)", "for cut in equivalent.axes"),
    (TRANSPOSED, "return read[0], step", "return 0, step"),
    (TRANSPOSED, "return read[0], step, (read[-1] - read[0]) // step + 1", "return read[0], step, len(read) - 1"),
    (TRANSPOSED, "math.gcd(*(phase - read[0] for phase in read)) or 1", "len(read)"),
    (TRANSPOSED, "if problem.bias or not keeps_zero", "if not keeps_zero"),
    (TRANSPOSED, '"STEP": cut.step, "phase": phase', '"STEP": 1, "phase": phase'),
    (TRANSPOSED, 'return found["q"], found["phase"]', 'return found["phase"], found["q"]'),
    # spread out
    (TRANSPOSED, "max(0, -_zeros_before(model, axis))", "max(0, _zeros_before(model, axis))"),
    (TRANSPOSED, "pad_lo = [_zeros_before(problem, axis)", "pad_lo = [1 + _zeros_before(problem, axis)"),
    (TRANSPOSED, "pad_hi = [span - 1 - hi + more", "pad_hi = [span - hi + more"),
    # folds, rows and planes
    (FOLD, "AxisFold(step=problem.stride[axis]", "AxisFold(step=problem.dilation[axis]"),
    (FOLD, 'places.index(one["place"])', 'len(places) - 1 - places.index(one["place"])'),
    (FOLD, '(one["block"], places', '(0 * one["block"], places'),
    (FOLD, '"PAD": pad_lo, "block": block', '"PAD": 0, "block": block'),
    (FOLD, '"P": depth, "n": n, "y": plane', '"P": depth, "n": plane, "y": n'),
    (FOLD, "image_of(depth, problem.batch - 1, depth - 1) + 1", "image_of(depth, problem.batch - 1, depth - 1)"),
    (FOLD, "(line[name], *getattr(problem, name))", "(line[name] + 1, *getattr(problem, name))"),
)
"""Changes of the code that puts numbers in: module, what stands there, what is put in its place."""

DERIVATION = (
    ("hosted.py", "ahead = PHASE + PAD - TAP * D", "ahead = PHASE + PAD + TAP * D"),
    ("hosted.py", '"offset": FloorDiv(ahead, U)', '"offset": FloorDiv(ahead, U) + 1'),
    ("hosted.py", '"rest": Mod(ahead, U)', '"rest": Mod(ahead + 1, U)'),
    ("hosted.py", "made = LOWEST + INDEX * STEP", "made = LOWEST + INDEX"),
    ("hosted.py", "FloorDiv(PHASE - LOWEST, STEP)", "FloorDiv(PHASE, STEP)"),
    ("hosted.py", "output = z.q * U + PHASE", "output = z.q + PHASE * U"),
    ("hosted.py", 'results={"q": FloorDiv(OUT, U)', 'results={"q": FloorDiv(OUT + 1, U)'),
    ("hosted.py", "number = OUTER * COUNT + INNER", "number = INNER * COUNT + OUTER"),
    ("hosted.py", "[below(INNER, COUNT)]", "[]"),
    ("hosted.py", "turned = z.S - 1 - TAP", "turned = z.S - TAP"),
    ("hosted.py", '"before": span - PAD', '"before": span'),
    ("hosted.py", '"place": AT * U', '"place": AT'),
    ("hosted.py", '"block": FloorDiv(reach, U), "place"', '"block": FloorDiv(TAP, U), "place"'),
    ("hosted.py", '"block": CONSTANT.Zero, "place": reach', '"block": CONSTANT.Zero, "place": TAP'),
    ("hosted.py", '"pixel": z.block * U + PLACE - PAD', '"pixel": z.block * U + PLACE + PAD'),
    ("hosted.py", "equal(OFFSET * U + TAP * D, PHASE + PAD, ", "equal(OFFSET * U + TAP * D, PHASE, "),
    ("hosted.py", "equal(FIRST + span, LEFT + PAD, ", "equal(FIRST + span, LEFT, "),
    ("hosted.py", "equal(AHEAD * U + PLACED, reach, ", "equal(AHEAD + PLACED, reach, "),
    ("hosted.py", "plane = z.n * z.P + PLANE", "plane = z.n + z.P * PLANE"),
    ("hosted.py", '"in_extent": 1', '"in_extent": 2'),
)
"""Changes of formulas and conditions of ``convc/derive/hosted.py``."""


def refusals():
    """What is said of each problem whose layout is refused."""
    said = []
    for problem in PROBLEMS.values():
        try:
            host_claims(device_layout(problem))
        except DerivationError as error:
            said.append(error.message)
        except (LookupError, ValueError, ConvcError) as error:  # such a layout there cannot be
            said.append(repr(error))
    return said


@functools.cache
def known():
    return set(theorems(uses()))


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_the_host_does_rests_on_theorems(name):
    claims = host_claims(device_layout(PROBLEMS[name]))
    assert len(claims) >= 3
    assert {claim.theorem for claim in claims} <= known()


def test_the_claims_stand_before_those_of_the_kernel():
    plan = compile_problem(PROBLEMS["phases"]).plan
    told = tuple(map(str, host_claims(plan.layout)))
    assert plan.indexing.derivation[: len(told)] == told


@pytest.mark.parametrize("mutant", NUMBERS, ids=str)
def test_a_wrong_number_of_the_host_is_refused(mutant):
    assert refusals() == []
    with changed_code(*mutant):
        said = refusals()
    assert any(WRONG in each for each in said), said


def check_derivation(mutant, monkeypatch):
    changed = derived_by(*mutant)
    if changed is None:
        return  # a theorem refuses it
    put_record(monkeypatch, changed)
    said = refusals()
    assert any(WRONG in each for each in said), said


@pytest.mark.parametrize("mutant", random.Random(3).sample(DERIVATION, 2), ids=str)
def test_a_wrong_formula_of_the_host_is_refused(mutant, monkeypatch):
    check_derivation(mutant, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", DERIVATION, ids=str)
def test_every_wrong_formula_of_the_host_is_refused(mutant, monkeypatch):
    check_derivation(mutant, monkeypatch)
