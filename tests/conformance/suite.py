"""ONNX's own backend tests against `convc.backend`: which of them are run, and which are not, and why.

No convolution is run on the host: the backend raises for one that it cannot compile.
"""

from __future__ import annotations

import functools
import itertools
import re
import unittest
import warnings
import zlib
from collections.abc import Sequence
from unittest import mock

import numpy as np
import pytest
from onnx.backend.test import BackendTest

from convc.backend import ConvcBackend

CONVOLUTION = r"^test_((basic_conv|conv_with|conv(integer|transpose)|qlinearconv)|Conv(Transpose)?\dd|operator_conv)"
"""Tests of `Conv`, `ConvInteger`, `ConvTranspose` and `QLinearConv`."""

NOT_RUN = {
    r"^test_bernoulli_": "compares random numbers of two generators",
    r"^test_image_decoder_": "onnx.reference needs Pillow for it",
    r"^test_scatter_with(out)?_axis_": "onnx.reference has no Scatter; ScatterElements replaced it in operator set 11",
    r"^test_gradient_of_": "onnx.reference has no Gradient",
    r"^test_scan_sum_": "onnx.reference has no Scan of operator set 8",
    r"^test_if_opt_": "onnx.reference gives the sequence in one more list than the test expects",
    r"^test_loop16_seq_none_": "the comparison in the onnx package fails on arrays without extents",
    r"^test_range_.*_delta_expanded_": "onnx.reference gives the expanded Range one extent too many",
    r"^test_.*_fp16_expanded": "onnxruntime rounds half precision after other steps, by more than the tests allow",
    r"^test_resize_downsample_scales_(cubic|linear)_align_corners":
        "expects places that are mapped by extents which are not rounded; onnxruntime and PyTorch round them first",
    r"^test_(bvlc_alexnet|densenet121|inception_v1|inception_v2|resnet50|shufflenet|squeezenet|vgg19|zfnet512)_cpu$":
        "whole networks: run with weights that mean something in test_light_networks.py (`make slow`)",
}  # fmt: skip
"""Test pattern -> why it says nothing of convc. None is a test of a convolution."""

SLOW = r"^test_((average|lp|max)pool_3d_default|MaxPool[12]d_stride_padding_dilation)_cpu$"
"""Large pools, which `onnx.reference` takes seconds for; smaller ones are run by default."""

EVERY = 4
"""Of the tests of operators that the host computes, so many go by for one that is run by default."""


def reason(table: dict[str, str], name: str) -> str | None:
    """The reason of the first pattern that fits the name of a test."""
    return next((words for pattern, words in table.items() if re.search(pattern, name)), None)


def by_default(name: str) -> bool:
    """Whether ``make test`` runs a test of another operator: one of `EVERY`, always the same."""
    return re.search(CONVOLUTION, name) is not None or zlib.crc32(name.encode()) % EVERY == 0


def collect(module: str) -> tuple[dict[str, type[unittest.TestCase]], list[str]]:
    """ONNX's test cases by name, for the globals of a module, without those of other devices and of `NOT_RUN`; and the
    names of the latter."""
    left_out = []
    pools = mock.patch("onnx.reference.ops.op_pool_common.pool", pool)
    snippets = mock.patch("onnx.backend.test.case.base.process_snippet", lambda op, name, export: (name, ""))
    with warnings.catch_warnings(), pools, snippets:  # the snippets are for its pages: it reads its own sources
        warnings.simplefilter("ignore")  # the package computes the cases of every operator, infinities included
        cases = BackendTest(ConvcBackend, module).test_cases
    for case in cases.values():
        for name in [name for name in vars(case) if name.startswith("test_")]:
            unfit = name.endswith("_cpu") and reason(NOT_RUN, name) is not None
            left_out += [name] if unfit else []
            if unfit or not name.endswith("_cpu"):
                delattr(case, name)
            elif re.search(SLOW, name) or not by_default(name):
                setattr(case, name, pytest.mark.slow(getattr(case, name)))
    return cases, left_out


def pool(
    padded: np.ndarray,
    x_shape: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    out_shape: Sequence[int],
    pooling_type: str,
    pads_required: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    count_include_pad: int = 0,
    p: int = 1,
) -> np.ndarray:
    """What `onnx.reference.ops.op_pool_common.pool` gives, of all windows at once.

    The package computes what its pools must give window by window, which takes eight seconds of every process that
    collects the tests; when the tests are run, its own function is compared with this one.
    """
    rank = len(kernel)
    steps = strides or [1] * rank
    gaps = [1] * rank if dilations is None else dilations
    ends = [size + (0 if pads is None else pads[i] + pads[rank + i]) for i, size in enumerate(x_shape[2:])]
    taps = []
    for tap in itertools.product(*map(range, kernel)):
        places = np.ix_(*(np.arange(out_shape[i]) * steps[i] + tap[i] * gaps[i] for i in range(rank)))
        beyond = (place >= end for place, end in zip(places, ends, strict=True))
        rows = (np.minimum(place, size - 1) for place, size in zip(places, padded.shape[2:], strict=True))
        taken = padded[(..., *rows)].astype(np.float64)
        taps.append(np.where(functools.reduce(np.logical_or, beyond), np.nan, taken))
    if pooling_type == "LPPOOL":
        pooled = np.nansum(np.abs(taps) ** p, axis=0) ** (1.0 / p)
    else:
        pooled = {"AVG": np.nanmean, "MAX": np.nanmax}[pooling_type](taps, axis=0)
    return pooled.astype(padded.dtype)


def summary(cases: dict[str, type[unittest.TestCase]]) -> str:
    """A Markdown table of what is run; every test in it passes, or `make test` or `make slow` fails."""
    rows = ["| tests of the onnx package | run | of convolutions |", "| --- | ---: | ---: |"]
    for title, case in sorted(cases.items()):
        names = names_of({title: case})
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", title.removeprefix("OnnxBackend").removesuffix("ModelTest")).replace(
            "Py T", "PyT"
        )
        if names:
            convolutions = sum(bool(re.search(CONVOLUTION, name)) for name in names)
            rows.append(f"| {kind} | {len(names)} | {convolutions} |")
    return "\n".join(rows) + "\n"


def names_of(cases: dict[str, type[unittest.TestCase]]) -> list[str]:
    """All tests that are run."""
    return [name for case in cases.values() for name in vars(case) if name.startswith("test_")]


if __name__ == "__main__":
    print(summary(collect(__name__)[0]), end="")
