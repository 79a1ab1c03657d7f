"""Whether two checkouts write the same kernels: a change of how they are derived must not change what they are.

    python -m tests.versions.kernels --drawn 1000 > after.txt         at the top of this checkout
    python -m tests.versions.kernels --drawn 1000 > before.txt        in the other checkout, with its own .venv
    diff before.txt after.txt

or, with the other checkout's folder, both at once:

    python -m tests.versions.kernels --drawn 1000 --against ../other

which runs the other with the Python of its own .venv, or with this one where it has none.

A line has the name of a problem and a digest of its text and launch, or the error that refuses it. The problems are
those of the golden kernels, the layers of ResNet-50 and as many drawn ones as are asked for, with drawn choices.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path.cwd() / "tests"))
sys.path.insert(0, str(Path.cwd()))

from fuzz.schedules import Schedules
from kernel.test_golden_kernels import CHOICES, PROBLEMS

from benchmarks.layers import resnet50
from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.errors import ConvcError
from convc.ir.launch import dump_launch
from convc.ir.problem import ConvProblem


def kernel_line(name: str, problem: ConvProblem, **choices: object) -> str:
    """The name and the digest of a kernel, or why there is none."""
    try:
        artifact = compile_problem(problem, **choices).artifact  # pyright: ignore[reportArgumentType]
    except ConvcError as error:
        return f"{name} {type(error).__name__}: {error.message}".replace("\n", " ")
    text = artifact.ptx.encode() + dump_launch(artifact.launch)
    return f"{name} {hashlib.sha256(text).hexdigest()[:16]}"


def drawn(count: int, seed: int) -> Iterator[tuple[str, ConvProblem, ScheduleOptions]]:
    """Problems with choices; where these cannot be had together, the last ones go, one by one."""
    subject = Schedules()
    for number in range(count):
        case = subject.case(random.Random(f"{seed}:{number}"))
        problem = subject.problem(case)
        chosen = dict(case["options"])
        while True:
            yield f"{seed}:{number} {chosen}", problem, ScheduleOptions(**chosen)
            if not chosen:
                break
            chosen.popitem()


def lines(count: int, seed: int) -> Iterator[str]:
    """A line for every kernel."""
    for name, problem in PROBLEMS.items():
        yield kernel_line(f"golden {name}", problem, **CHOICES[name])
    for problem in resnet50():
        yield kernel_line(f"resnet50 {problem.name}", problem)
    for name, problem, options in drawn(count, seed):
        yield kernel_line(f"drawn {name}", problem, options=options)


def lines_of(checkout: Path, count: int, seed: int) -> Iterator[str]:
    """The lines of another checkout, as it writes them."""
    if not (checkout / "convc").is_dir():
        raise SystemExit(f"{checkout} is no checkout of convc: it has no folder convc")
    own = checkout.resolve() / ".venv/bin/python"
    command = [str(own) if own.exists() else sys.executable, __file__, "--drawn", str(count), "--seed", str(seed)]
    with subprocess.Popen(command, cwd=checkout, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        for line in other.stdout:
            yield line.rstrip("\n")
    if other.returncode:
        raise SystemExit(f"{' '.join(command)} failed in {checkout}: exit {other.returncode}")


def main(arguments: list[str] | None = None) -> int:
    """Print a line for every kernel; or compare with another checkout, 1 where one differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.versions.kernels", description=__doc__.splitlines()[0])
    parser.add_argument("--drawn", type=int, default=100, metavar="N", help="drawn problems")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout")
    given = parser.parse_args(arguments)
    mine = lines(given.drawn, given.seed)
    if given.against is None:
        for line in mine:
            print(line, flush=True)
        return 0
    here = 0
    wrong = 0
    for one, two in zip(lines_of(given.against, given.drawn, given.seed), mine, strict=True):
        here += 1
        if one != two:
            wrong += 1
            print(f"there: {one}\nhere:  {two}", flush=True)
    print(f"{wrong} of {here} kernels differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
