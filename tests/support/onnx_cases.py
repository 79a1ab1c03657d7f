"""Node test cases of the onnx package, without touching the list that the package keeps of them.

`onnx.backend.test.case.node.collect_testcases` registers every case once per process, for one operator or for all; who
asks second gets what is left. Here the module of an operator is run privately, into a list of its own.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from onnx.backend.test.case import node as cases
from onnx.backend.test.case.test_case import TestCase


def node_cases(*names: str) -> dict[str, TestCase]:
    """The cases that the package's files of these names (such as ``convinteger``) define, by their names."""
    kept = cases._NodeTestCases, cases._existing_names, cases._TargetOpType
    cases._NodeTestCases, cases._existing_names, cases._TargetOpType = [], {}, None
    try:
        for name in names:
            _run(name)
        return {case.name: case for case in cases._NodeTestCases}
    finally:
        cases._NodeTestCases, cases._existing_names, cases._TargetOpType = kept


def _run(name: str) -> ModuleType:
    file = Path(cases.__file__).parent / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"private_{name}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
