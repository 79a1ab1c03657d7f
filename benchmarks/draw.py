"""What `convc draw` takes besides importing its libraries: processor seconds, each picture a process of its own.

The seconds are those of a computer that imports sympy in `USUAL`: they are scaled by what the import takes here.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.timing import best, children_time, yardstick
from convc.support.resources import model_folder

MODEL = str(model_folder() / "tiny_conv.onnx")
USUAL = 0.5
"""Seconds of processor time that a common computer takes to import sympy."""

PICTURES = {
    "lanes": ("lanes", MODEL),
    "tile": ("tile", MODEL),
    "memory": ("memory", MODEL),
    "swizzle": ("swizzle", "128B"),
    "mma-layout": ("mma-layout", "--kind", "f16", "--m", "128", "--n", "64"),
    "descriptor": ("descriptor", "0x8100010", "--kind", "f16"),
    "rasterization-order": ("rasterization-order", MODEL),
    "passes": ("passes", MODEL),
    "timeline": ("timeline", MODEL),
    "roofline": ("roofline", MODEL),
    "schedules": ("schedules", MODEL),
}
"""Every picture, by the arguments of its command."""

DRAW = """
import sys
from convc.cli.main import main
try:
    main(["draw", *sys.argv[1:], "-o", "-"])
finally:
    names = [name for name, module in sys.modules.items() if getattr(module, "__file__", None)]
    print(*names, file=sys.stderr)
"""
"""Draws, and names all modules that are there at the end."""

IMPORT = """
import sys
from importlib import import_module
for name in sys.argv[1].split():
    try:
        import_module(name)
    except ImportError:
        pass
"""
"""Imports modules; those that only exist inside another one are no libraries."""


def measure(selection: str) -> dict[str, float]:
    """Seconds of each picture without its imports; ``selection`` changes nothing: the layer is a small one."""
    return {name: _beyond_imports(arguments) for name, arguments in PICTURES.items()}


def _beyond_imports(arguments: tuple[str, ...]) -> float:
    """Processor seconds of a command less those of its imports, on the usual computer."""
    call = [sys.executable, "-c", DRAW, *arguments]
    modules = subprocess.run(call, check=True, capture_output=True, text=True).stderr.splitlines()[-1]
    drawn = best(lambda: subprocess.run(call, check=True, capture_output=True), children_time, repeats=1)
    loading = [sys.executable, "-c", IMPORT, modules]
    imported = best(lambda: subprocess.run(loading, check=True), children_time, repeats=1)
    return max(0.0, drawn - imported) * USUAL / yardstick()
