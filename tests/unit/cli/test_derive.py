"""``convc derive``: the chain of algorithms for all sizes, with theorems and proofs; as LaTeX; what is refused."""

from __future__ import annotations

import re

import pytest

from convc.api.deriving import SCHEDULES, derive_schedules, derive_theorem
from convc.derive.changes import changes
from convc.derive.known import theorems, uses
from convc.errors import InputError


def titles(lines):
    return [line.strip("- ") for line in lines if line.startswith("-- ")]


def test_all_schedules_in_the_order_of_the_note():
    found = derive_schedules()
    assert titles(found.lines) == [
        "Algorithm 1: the definition",
        "Algorithm 2: reload",
        "Algorithm 2: reload",
        "Algorithm 3: slide",
        "Algorithm 3: stationary",
        "Algorithm 3.b: shift",
        *(f"{each.title}: in place of the loops over {', '.join(map(str, each.old))}" for each in changes()),
    ]
    text = "\n".join(found.lines)
    assert "d*g*(s + u) + g*q*u - pad_w = d*g*s + g*u*(d + q) - pad_w" in text
    assert "needs Q <= T  (period T >= Q)" in text
    assert "A[lane, e] = A[lane + d, e]" in text
    assert "disable-output-lane" in text
    assert "zero-column mask" in text
    assert "T is the smallest that is legal:\n   needs Q <= T\n   needs HALO + Q <= T + lead or " in text
    assert "   theorem: S <= TAPS*u is TAPS >= -((-S) // u)" in text


@pytest.mark.one_of(4)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("rows", "border"), [("outer", "zero"), ("merged", "mask")])
def test_every_theorem_has_a_proof(schedule, rows, border):
    lines = derive_schedules(schedule, rows=rows, border=border, windows=True).lines
    theorems = [number for number, line in enumerate(lines) if line.startswith("   theorem: ")]
    assert len(theorems) > 8
    for number in theorems:
        after = lines[number + 1 : number + 4]
        assert any(line.startswith("     | ") for line in after), lines[number]


def test_a_quotient_inside_of_a_product_has_brackets():
    text = "\n".join(derive_schedules("slide").lines)
    assert re.search(r"\w\*\w+ // ", text) is None


def test_the_theorems_as_latex(convc, tmp_path):
    file = tmp_path / "slide.tex"
    assert "wrote" in convc.good("derive", "slide", "--latex", file)
    text = file.read_text()
    assert text.count(r"\begin{fact}") == text.count(r"\end{fact}") > 15
    assert r"\left\lfloor \frac{" in text
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


def test_an_unknown_schedule_is_refused_with_a_guess():
    with pytest.raises(InputError, match="no schedule 'slyde': reload, slide, stationary, shift; did you mean"):
        derive_schedules("slyde")
    with pytest.raises(InputError, match="there is no rows 'inner'"):
        derive_schedules(rows="inner")


def test_a_theorem_has_its_conditions_its_proof_and_what_uses_it():
    said = derive_theorem("m = BM*tile_m + lane is one (tile_m, lane)").lines
    assert said == (
        "theorem: m = BM*tile_m + lane is one (tile_m, lane)",
        "  (BM*tile_m + lane) // BM = tile_m; (BM*tile_m + lane) % BM = lane; BM*(m // BM) + m % BM = m",
        "  given lane < BM",
        "  | put BM = i0 + lane + 1",
        "  | (BM*tile_m + lane) // BM and tile_m are both tile_m",
        "  | (BM*tile_m + lane) % BM and lane are both lane",
        "  | BM*(m // BM) + m % BM and m are both m",
        "used by:",
        "  the rewrite tile m into tile_m, lane by BM",
        "    needs N*P*Q <= BM*TILES_M  (TILES_M tiles of BM reach the last m)",
    )


def test_a_theorem_as_latex(convc):
    said = convc.good("derive", "a column is one of one chunk", "--latex", "-")
    assert r"\begin{fact}[a column is one of one chunk]" in said


def test_a_name_that_there_is_not_is_refused_with_near_ones(convc):
    said = convc.refused("derive", "m = BM*tile_m + lane is one")
    assert "there is no schedule, gradient or theorem 'm = BM*tile_m + lane is one'" in said
    assert "did you mean 'm = BM*tile_m + lane is one (tile_m, lane)'?" in said
    assert "did you mean 'tap numbers the weights w" in convc.refused("derive", "tap numbers weights of a filter once")
    assert "did you mean 'slide'?" in convc.refused("derive", "slyde")
    assert "'tap numbers the weights w[k, r, s, ...] of a filter once'" in convc.refused("derive", "a filter once")


def test_every_theorem_has_a_name_of_its_own_a_proof_and_a_use():
    for name in theorems(uses()):
        lines = derive_theorem(name).lines
        assert lines[0] == f"theorem: {name}"
        assert any(line.startswith("  | ") for line in lines)
        assert "used by:" in lines[:-1]


def test_a_layer_with_its_numbers(convc):
    said = convc.good("inspect", "models/tiny_conv.onnx", "--layer", "conv", "--schedule", "slide", "--derivation")
    assert "-- Algorithm 3: slide --" in said
    assert "theorem: output q needs for column s + u what output q + d needs for column s" in said
