"""``python -m tests.docs.network_profile --write``: the profile of ResNet-50 in ``convc/docs/timing_measurements.md``.

The model is ``light_resnet50.onnx`` of the onnx package, its batch changed, its convolutions in float16. Every number
is an estimate of `convc.time` for a B200 with its own parameters.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import onnx

import convc
from convc import ReadOptions, TimeReport

PAGE = Path(__file__).resolve().parents[2] / "convc" / "docs" / "timing_measurements.md"
MARKED = re.compile(r"(<!-- begin profile -->\n).*?(<!-- end profile -->)", re.DOTALL)
BATCHES = (1, 32, 256)


def resnet50(batch: int) -> onnx.ModelProto:
    """ResNet-50 with this batch; shapes inside that the file states for a batch of 1 are taken out."""
    model = onnx.load(Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = batch
    del model.graph.value_info[:]
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


def profile(reports: list[TimeReport]) -> str:
    """The table of all layers, and what each batch waits for."""
    lines = [
        f"| layer | {' | '.join(f'batch {batch}, us | share | so far' for batch in BATCHES)} |",
        f"| --- |{' ---: | ---: | ---: |' * len(BATCHES)}",
    ]
    so_far = [0.0 for _ in reports]
    for number, layer in enumerate(reports[0].layers):
        cells = [layer.name]
        for at, report in enumerate(reports):
            time = report.layers[number].kernel.microseconds
            so_far[at] += time
            total = report.microseconds
            cells += [f"{time:.2f}", f"{100 * time / total:.1f} %", f"{100 * so_far[at] / total:.1f} %"]
        lines.append(f"| {' | '.join(cells)} |")
    totals = [f"**{report.microseconds:.1f}** | 100 % | " for report in reports]
    lines += [f"| **all** | {' | '.join(totals)} |", ""]
    for batch, report in zip(BATCHES, reports, strict=True):
        waits = ", ".join(f"{cause} {100 * share:.0f} %" for cause, share in list(report.waits.items())[:3])
        lines.append(f"- Batch {batch}: {rate(report):.0f} TFLOP/s; the three largest waits are {waits}.")
    return "\n".join(lines) + "\n"


def rate(report: TimeReport) -> float:
    """Floating-point operations of all layers, in 10^12 a second."""
    return 2e-6 * sum(layer.macs or 0 for layer in report.layers) / report.microseconds


def page() -> str:
    """The page with its profile made anew."""
    reports = [convc.time(resnet50(batch), read=ReadOptions(dtype="f16")) for batch in BATCHES]
    return MARKED.sub(lambda match: f"{match[1]}{profile(reports)}{match[2]}", PAGE.read_text("utf-8"))


if __name__ == "__main__":
    made = page()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(made, "utf-8")
    else:
        print(made)
