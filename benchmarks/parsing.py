"""What reading PTX takes: the texts of the distinct kernels of ResNet-50, parsed, and made ready to run (decoded)."""

from __future__ import annotations

from benchmarks.layers import resnet50
from benchmarks.timing import best, yardstick
from convc import ptx
from convc.compiler.kernels import Kernels
from convc.machine.execute.decode import decode


def measure(selection: str) -> dict[str, float]:
    """Processor time of both steps over all texts, in milliseconds, and their ratios to an import of sympy."""
    kernels = Kernels()
    texts = sorted({kernels.compiled(problem).artifact.ptx for problem in resnet50(selection)})
    parsed = [ptx.parse(text, "kernel.ptx") for text in texts]
    parse_seconds = best(lambda: [ptx.parse(text, "kernel.ptx") for text in texts])
    decode_seconds = best(lambda: [decode(module, module.kernels[0]) for module in parsed])
    return {
        "texts": len(texts),
        "lines": sum(text.count("\n") for text in texts),
        "parse_ms": 1000 * parse_seconds,
        "decode_ms": 1000 * decode_seconds,
        "parse_times_sympy": parse_seconds / yardstick(),
        "times_sympy": (parse_seconds + decode_seconds) / yardstick(),
    }
