"""What checking costs: the race check of ResNet-50's 3x3 layers, and reading PTX text.

``check_seconds`` is the slowest layer under ``check_kernel`` (all checkers on one run, then the late and the seeded
run), ``times_plain`` how much longer that layer takes than without a check. ``parse_seconds`` is the time to parse
2,000 lines: that of one kernel of convc, scaled by its line count.
"""

from __future__ import annotations

from benchmarks.layers import EACH, launch_of, resnet50
from benchmarks.timing import best, in_turns, yardstick
from convc import machine
from convc.compiler.kernels import Kernels
from convc.ptx.parser import parse
from convc.sanitizer.run import check_kernel


def measure(selection: str) -> dict[str, float]:
    """Seconds to check the slowest 3x3 layer, its ratio to a plain run, and seconds to parse 2,000 lines."""
    kernels = Kernels()
    checks: list[tuple[float, float, float]] = []
    for problem in (p for p in resnet50(selection) if p.kernel == (3, 3)):
        launch = launch_of(kernels, problem)
        text = launch[0]
        works = {
            "check": lambda launch=launch: check_kernel(*launch),
            "plain": lambda launch=launch: machine.run(*launch, options=EACH),
        }
        times = in_turns(works)
        parsed = best(lambda text=text: parse(text)) * 2000 / len(text.splitlines())
        checks.append((times["check"], times["check"] / times["plain"], parsed))
    seconds, ratio, _ = max(checks)
    parse_seconds = max(parsed for *_, parsed in checks)
    return {
        "layers": len(checks),
        "check_seconds": seconds,
        "times_plain": ratio,
        "parse_seconds": parse_seconds,
        "parse_times_sympy": parse_seconds / yardstick(),
    }
