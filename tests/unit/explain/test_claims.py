"""Every claim and every number of a kernel that ``convc inspect`` prints names a theorem that ``convc derive`` has."""

from __future__ import annotations

import functools
import io
import re
from types import SimpleNamespace

import pytest
from support.option_sets import OPTION_SETS

from convc.compiler.compile import compile_problem
from convc.derive.known import theorems, uses
from convc.explain.inspect import InspectedLayer, print_inspection
from convc.explain.lane_tables import print_claims
from convc.explain.tiles import plan_tiles, print_derivation
from convc.report.console import console

CLAIM = re.compile(r"\s*(proved|REFUTED|met|BROKEN): |.*: no test of |.*it needs ")
FOR_ALL = re.compile(r"\s*(?:proved|theorem): (.*?)(?: \[a theorem, for all sizes\])?")
NAMED = re.compile(r'theorem "(.*?)"[\])]')
NUMBER = re.compile(r"(\w+) = .*\)")


@functools.cache
def known() -> set[str]:
    return set(theorems(uses()))


def printed(monkeypatch, name: str) -> list[str]:
    """What inspect says of the kernel of an option set: plan, maps, derivation and claims."""
    chosen = OPTION_SETS[name]
    compiled = compile_problem(chosen.problem, options=chosen.options, block_n=chosen.block_n, stages=chosen.stages)
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    to = console()
    monkeypatch.setattr("convc.report.console.PROSE", 1 << 20)
    layer = InspectedLayer(node=SimpleNamespace(name=name, fused=()), compiled=compiled)
    print_inspection(to, layer, only=("plan", "maps"))
    tiles = plan_tiles(compiled.plan)
    print_derivation(to, tiles)
    print_claims(to, tiles.claims, tiles.cases)
    monkeypatch.undo()
    return out.getvalue().splitlines()


def numbers(lines: list[str]) -> list[str]:
    """The lines with a number that the kernel computes."""
    first = lines.index("coordinates that the kernel computes:") + 1
    return lines[first : lines.index("", first)]


def named(line: str) -> str:
    """The theorem that a claim or a number names; "" where it names none."""
    found = NAMED.search(line)
    if found is not None:
        return found[1]
    alone = FOR_ALL.fullmatch(line)
    return "" if alone is None else alone[1]


@pytest.mark.one_of(4)
@pytest.mark.parametrize("name", OPTION_SETS)
def test_every_claim_names_a_theorem_that_derive_knows(name, monkeypatch):
    lines = printed(monkeypatch, name)
    claims = [line for line in lines if CLAIM.match(line) or line.startswith("   theorem: ")]
    assert len(claims) > 50
    assert [line for line in claims if named(line) not in known()] == []
    computed = numbers(lines)
    assert len(computed) > 8
    assert [line for line in computed if not NUMBER.match(line.strip()) or named(line) not in known()] == []
