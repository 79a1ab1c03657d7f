"""``python -m convc.cli.demo``: six layers of ResNet-50, from an ONNX file to verified PTX.

The layers are the four distinct 3x3 stages, a 1x1 and the strided 7x7 stem, at batch 1 with random float16
weights. Each is compiled, its text is run on the machine and compared with a float64 reference. The kernel
of one layer is left in ``build/demo`` to read.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from convc import api
from convc.api.options import WorkOptions
from convc.errors import ConvcError
from convc.report.console import console, progress_bar
from convc.report.verify import print_report
from convc.support.resources import make_models

KEPT = "layer2.1.conv2"
FOLDER = Path("build/demo")


def main() -> int:
    """Run the demo; 0 where every layer is right."""
    out = console()
    try:
        with tempfile.TemporaryDirectory(prefix="convc-demo-") as folder:
            model = Path(folder) / "resnet50_layers.onnx"
            models = make_models()
            models.build_resnet50_layers(model, models.read_layers("demo"))
            with progress_bar() as progress:
                report = api.verify(model, work=WorkOptions(progress=progress))
            print_report(out, report)
            target = FOLDER / KEPT
            target.parent.mkdir(parents=True, exist_ok=True)
            build = api.compile(model, target, layer=KEPT)
    except ConvcError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    out.print(f"\nThe kernel of {KEPT} is in {build.path}/kernels/{build.record().kernel}:")
    out.print("  kernel.ptx (the text that ran), launch.json, debug_info.json, plan.json, tile.json")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
