"""``python -m convc.cli.demo``: six layers of ResNet-50, from an ONNX file to verified PTX.

The layers are the four distinct 3x3 stages, a 1x1 and the strided 7x7 stem, at batch 1 with random float16
weights. Each is compiled, its text is run on the simulator and compared with a float64 reference. The model and its
build stay in ``build/demo``, to read and to try the commands on that are printed at the end.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from convc import api
from convc.api.networks import host_title
from convc.api.options import WorkOptions
from convc.errors import ConvcError, InputError
from convc.report.console import console, progress_bar
from convc.report.verify import print_report
from convc.support.resources import make_models

SHOWN = "layer2.1.conv2"
FOLDER = Path("build/demo")
MODEL = FOLDER / "resnet50_layers.onnx"
BUILD = FOLDER / "resnet50_layers"

LEGEND = """\
convolution  images x channels x height x width * filters x taps -> height x width of the result
schedule     how activations reach the tensor core: loaded anew for every tap (reload), or shared by the taps of a row
exact        on small integers the kernel's result is numpy's, bit for bit
in bound     on random float16 data no element is further from the float64 reference than a bound derived for it"""

NEXT = (
    ("see how a layer becomes a kernel", f"inspect {MODEL} --layer {SHOWN} --full"),
    ("check its kernel for races and hangs", f"check {BUILD} --layer {SHOWN}"),
    (
        "compile it with another schedule, and count its loads",
        f"verify {MODEL} --layer {SHOWN} --schedule reload --counts",
    ),
)
"""What to try next, and the arguments of ``convc`` for it."""


def main() -> int:
    """Run the demo; 0 where every layer is right."""
    out = console()
    try:
        _make_folder()
        models = make_models()
        models.build_resnet50_layers(MODEL, models.read_layers("demo"))
        with progress_bar() as progress:
            report = api.verify(MODEL, work=WorkOptions(progress=progress))
        print_report(out, report)
        build = api.compile(MODEL, BUILD)
    except ConvcError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    out.print(f"\n{LEGEND}", soft_wrap=True)
    out.print(f"host         nodes of a network that are no convolutions run by {host_title()}", soft_wrap=True)
    out.print(f"\nThe model is {MODEL}, its build {BUILD}. The text of {SHOWN} is", soft_wrap=True)
    out.print(f"  {build.path}/kernels/{build.record(SHOWN).kernel}/kernel.ptx", soft_wrap=True)
    out.print("\nNext:")
    for words, arguments in NEXT:
        out.print(f"  {program()} {arguments}\n      {words}", soft_wrap=True)
    return 0 if report.ok else 1


def _make_folder() -> None:
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(f"cannot make the folder: {problem.strerror}", where=str(FOLDER)) from None


def program() -> str:
    """The command ``convc`` of this interpreter, as a shell finds it from here."""
    script = Path(sys.executable).parent / "convc"
    if shutil.which("convc") == str(script):
        return "convc"
    if not script.is_file():
        return f"{shlex.quote(sys.executable)} -m convc"
    here = Path.cwd()
    return shlex.quote(str(script.relative_to(here) if script.is_relative_to(here) else script))


if __name__ == "__main__":
    sys.exit(main())
