"""Time to compile the distinct kernels of ResNet-50, in a fresh process: interpreter and imports are included.

The processor time without them (``without_imports``) is what planning, proving and emitting take. The calls of a kernel
(``calls``, of functions) say as much where other work on the computer makes times vary. And the time to find the
kernels in the compile cache instead (``cached_seconds``), in another fresh process.
"""

from __future__ import annotations

import cProfile
import json
import os
import subprocess
import sys
import tempfile
import time

import msgspec

from benchmarks.timing import REPEATS, children_time, yardstick


def measure(selection: str) -> dict[str, float]:
    """Seconds of a fresh process that is told the problems and compiles them, and how many kernels those are."""
    from benchmarks.layers import resnet50  # not of the fresh process

    problems = msgspec.json.encode(resnet50(selection))
    measured = min((_fresh_process(problems, "off") for _ in range(REPEATS)), key=lambda numbers: numbers["seconds"])
    with tempfile.TemporaryDirectory() as folder:
        _fresh_process(problems, folder)
        cached = min((_fresh_process(problems, folder) for _ in range(REPEATS)), key=lambda numbers: numbers["seconds"])
    counted = _fresh_process(problems, "off", "calls")
    return measured | {
        "calls": counted["calls"] / counted["kernels"],
        "cached_seconds": cached["seconds"],
        "times_sympy": measured["cpu_seconds"] / yardstick(),
        "without_imports_times_sympy": measured["without_imports"] / yardstick(),
        "cached_times_sympy": cached["cpu_seconds"] / yardstick(),
    }


def _fresh_process(problems: bytes, cache: str, *told: str) -> dict[str, float]:
    started = time.perf_counter()
    worked = children_time()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.compile", *told],
        input=problems,
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "CONVC_CACHE": cache, "PYTHONDONTWRITEBYTECODE": ""},  # the code of templates is kept
    )
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": children_time() - worked,
        **json.loads(done.stdout),
    }


def main() -> None:
    """Compile the problems that stdin lists, and print what that took; ``calls``: how many calls of functions too."""
    from convc.compiler.kernels import Kernels
    from convc.ir.problem import ConvProblem
    from convc.support.cache import kept_kernels

    with kept_kernels() as cache:
        if cache is None:
            import convc.compiler.emit.kernel
            import convc.compiler.planner.search
            import convc.compiler.schedules.program
            import convc.compiler.tile.verify  # noqa: F401 - all are loaded when the first kernel is compiled
        problems = msgspec.json.decode(sys.stdin.buffer.read(), type=tuple[ConvProblem, ...])
        kernels = Kernels(cache=cache)
        profile = cProfile.Profile()
        if "calls" in sys.argv:
            profile.enable()
        started = time.process_time()
        for problem in problems:
            kernels.compiled(problem)
        worked = time.process_time() - started
        profile.disable()
        calls = sum(entry.callcount for entry in profile.getstats())
        print(json.dumps({"kernels": len(kernels), "without_imports": worked, "calls": calls}))


if __name__ == "__main__":
    main()
