"""Which spellings are instructions: a table of accepted ones and of their rejected neighbours, judged by ptxas too."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.ptxas import around, judge

from convc.errors import PtxSyntaxError
from convc.ptx import parse

CASES = Path(__file__).parents[2] / "ptx_cases" / "syntax"


def statements(name: str) -> list[str]:
    """The statements of one file: a line each, ``#`` begins a comment."""
    lines = (line.partition("#")[0].strip() for line in (CASES / name).read_text(encoding="ascii").splitlines())
    return [line for line in lines if line]


ACCEPTED, REJECTED, STRICTER = map(statements, ("accepted.txt", "rejected.txt", "stricter.txt"))


def refusal(statement: str) -> str | None:
    try:
        parse(around(statement))
    except PtxSyntaxError as error:
        return error.message
    return None


@pytest.mark.one_of(2)
@pytest.mark.parametrize("statement", ACCEPTED)
def test_accepted(statement):
    assert refusal(statement) is None


@pytest.mark.one_of(2)
@pytest.mark.parametrize("statement", REJECTED + STRICTER)
def test_rejected(statement):
    assert refusal(statement)


def test_ptxas_agrees(tmp_path):
    everything = [*ACCEPTED, *REJECTED, *STRICTER]
    wanted = [True] * len(ACCEPTED) + [False] * len(REJECTED) + [True] * len(STRICTER)
    verdicts = zip(everything, wanted, judge(everything, tmp_path), strict=True)
    different = [(text, said) for text, want, said in verdicts if (said is None) != want]
    assert not different
    assert len(ACCEPTED) > 150
    assert len(REJECTED) > 130


@pytest.mark.parametrize(
    ("version", "target", "statement", "message"),
    [
        ("8.5", "sm_90a", "tcgen05.wait::ld.sync.aligned;", "needs .version 8.6, this text says 8.5"),
        ("9.0", "sm_100", "tcgen05.wait::ld.sync.aligned;", "needs .target sm_100a, this text says sm_100"),
        ("9.0", "sm_80", "griddepcontrol.wait;", "needs .target sm_90, this text says sm_80"),
        ("7.8", "sm_90", "griddepcontrol.wait;", None),
        ("9.0", "sm_103f", "tcgen05.wait::ld.sync.aligned;", None),
        ("8.0", "sm_90a", "wgmma.wait_group.sync.aligned 1;", None),
    ],
)
def test_version_and_target(version, target, statement, message):
    text = f".version {version}\n.target {target}\n.entry k() {{ {statement} }}"
    if message is None:
        assert len(parse(text).kernels[0].body) == 1
    else:
        with pytest.raises(PtxSyntaxError) as caught:
            parse(text)
        assert caught.value.message == f"{statement[:-1]!r} {message}"
