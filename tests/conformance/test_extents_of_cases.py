"""Types, extents and values that are known before a run, against the results of ONNX's own tests of its operators."""

from __future__ import annotations

import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from onnx.backend.test.case import node as cases
from onnx.backend.test.case.test_case import TestCase
from support.examples import PARTS
from support.onnx_cases import node_cases

from convc.frontend.constants import Constants
from convc.frontend.model_file import opset_of
from convc.frontend.shapes import infer_facts
from convc.frontend.tensors import NUMPY_TYPES

READ = {dtype for dtype, _ in NUMPY_TYPES.values()}
FILES = sorted(path.stem for path in Path(cases.__file__).parent.glob("*.py") if path.stem != "__init__")


@lru_cache
def cases_of(part: int) -> list[TestCase]:
    """The cases of every ``part``-th operator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, in the making of the cases
        return list(node_cases(*FILES[::part]).values())


@pytest.mark.parametrize("bound", [False, True], ids=["inputs", "constants"])
@pytest.mark.parametrize("part", PARTS)
def test_what_is_known_is_right(part, bound):
    """With inputs that are only typed, and with inputs that are constants."""
    known = 0
    wrong: list[str] = []
    for case in cases_of(part):
        if case.model is None:
            continue
        inputs, outputs = case.data_sets[0]
        named = zip(case.model.graph.input, inputs, strict=False)
        given = {value.name: array for value, array in named if isinstance(array, np.ndarray) and array.dtype in READ}
        constants = Constants(case.model.graph, Path(), given if bound else {}, opset=opset_of(case.model))
        facts = infer_facts(case.model, constants, None)
        for value, right in zip(case.model.graph.output, outputs, strict=True):
            found = facts.types.get(value.name)
            if not isinstance(right, np.ndarray) or found is None or found.shape is None:
                continue
            known += None not in found.shape
            fits = len(found.shape) == right.ndim
            if not fits or any(own not in (None, extent) for own, extent in zip(found.shape, right.shape, strict=True)):
                wrong.append(f"{case.name}: {found.shape}, not {right.shape}")
            made = facts.extents.values.get(value.name)
            if made is not None and not _agree(made, right):
                wrong.append(f"{case.name}: {made}, not {right}")
    assert not wrong
    assert known > 1500 / part


def _agree(made: np.ndarray, right: np.ndarray) -> bool:
    same_type = (made.shape, made.dtype) == (right.shape, right.dtype)
    return same_type and np.allclose(made.astype(float), right.astype(float), rtol=1e-3, equal_nan=True)
