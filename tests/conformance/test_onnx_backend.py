"""The onnx package's own backend tests: node tests, models from PyTorch, simple models."""

from __future__ import annotations

import re

from conformance.suite import CONVOLUTION, collect, names_of, summary

CASES, LEFT_OUT = collect(__name__)
globals().update(CASES)
NAMES = names_of(CASES)


def matching(pattern: str) -> list[str]:
    return [name for name in NAMES if re.search(pattern, name)]


def test_all_convolutions_of_the_suite_are_run():
    node = matching(r"^test_(basic_conv|conv_with|convinteger|convtranspose|qlinearconv)")
    assert len(node) == 20, "Conv, ConvInteger, ConvTranspose and QLinearConv"
    assert len(matching(r"^test_Conv(Transpose)?\dd")) == 28, "converted from PyTorch"
    assert len(matching(r"^test_operator_conv")) == 2
    assert len(LEFT_OUT) > 20
    assert not [name for name in LEFT_OUT if re.search(CONVOLUTION, name)]


def test_the_summary_counts_what_is_run():
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in summary(CASES).splitlines()[2:]]
    assert sum(int(row[1]) for row in rows) == len(NAMES)
    assert {row[0]: int(row[2]) for row in rows} == {
        "Node": 20,
        "PyTorch Converted": 28,
        "PyTorch Operator": 2,
        "Simple": 0,
    }


def test_most_of_the_suite_is_run():
    assert len(NAMES) > 1900
