"""The examples in the docstrings of the public verbs, run as they stand there."""

from __future__ import annotations

import doctest
import shutil
from pathlib import Path

import numpy as np
import pytest

import convc
from convc.support.resources import model_folder

FOREIGN = Path(__file__).resolve().parents[2] / "foreign"
VERBS = [name for name in convc.__all__ if name.islower()]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """A folder with the models and the kernel that the examples name."""
    for model in model_folder().glob("*.onnx"):
        shutil.copy(model, tmp_path)
    shutil.copytree(FOREIGN / "saxpy", tmp_path / "saxpy")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("verb", VERBS)
def test_the_example_of_a_verb(verb):
    function = getattr(convc, verb)
    (found,) = doctest.DocTestFinder(recurse=False).find(function, verb, globs={"convc": convc, "np": np})
    assert found.examples, f"{verb} has no example"
    runner = doctest.DocTestRunner()
    said: list[str] = []
    runner.run(found, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("verb", VERBS)
def test_the_docstring_of_a_verb_is_complete(verb):
    text = getattr(convc, verb).__doc__
    others = [name for name in VERBS if f"`{name}`" in text.splitlines()[0]]
    for section in ("Args:", "Returns:", "Raises:"):
        assert section in text or others, f"{verb}: {section}"
