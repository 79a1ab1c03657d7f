"""What `convc report` costs: the page of the light ResNet-50 as a ratio of processor time to verifying its layers."""

from __future__ import annotations

from pathlib import Path

import onnx

import convc
from benchmarks.timing import best
from convc.api.paging import page_report
from convc.page.render import page_html


def measure(selection: str) -> dict[str, float]:
    """The ratio, and the size of the page in megabytes; ``selection`` changes nothing, since a page is of a model.

    A run of each before fills the compile cache, where there is one.
    """
    model = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"
    size = len(page_html(page_report(model)))
    convc.verify(model)
    report = best(lambda: page_html(page_report(model)), repeats=1)
    verified = best(lambda: convc.verify(model), repeats=1)
    return {"report_times_verify": report / verified, "megabytes": size / 1e6}
