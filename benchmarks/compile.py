"""Time to compile the distinct kernels of ResNet-50, in a fresh process: interpreter and imports are included."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import msgspec

from benchmarks.timing import REPEATS


def measure(selection: str) -> dict[str, float]:
    """Seconds of a fresh process that is told the problems and compiles them, and how many kernels those are."""
    from benchmarks.layers import resnet50

    problems = msgspec.json.encode(resnet50(selection))
    return min((_fresh_process(problems) for _ in range(REPEATS)), key=lambda numbers: numbers["seconds"])


def _fresh_process(problems: bytes) -> dict[str, float]:
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.compile"], input=problems, stdout=subprocess.PIPE, check=True
    )
    return {"seconds": time.perf_counter() - started, **json.loads(done.stdout)}


def main() -> None:
    """Compile the problems that stdin lists, and print how many kernels they took."""
    import convc.emit.kernel
    import convc.plan.planner  # noqa: F401 - both are loaded when the first kernel is compiled
    from convc.kernels import Kernels
    from convc.problem import ConvProblem

    started = time.perf_counter()
    kernels = Kernels()
    for problem in msgspec.json.decode(sys.stdin.buffer.read(), type=tuple[ConvProblem, ...]):
        kernels.compiled(problem)
    print(json.dumps({"kernels": len(kernels), "without_imports": time.perf_counter() - started}))


if __name__ == "__main__":
    main()
