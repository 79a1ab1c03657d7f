"""Look for what goes wrong, by random operators and schedules, by damaged kernels and models, by rewrites out of order.

    python -m tests.fuzz convolutions --count 1000 --jobs 2 --seed 1

Cases are numbered, and a number and a seed say all of a case. A campaign that is stopped goes on where it was when it
is started again; what it finds is made smaller, and written with its message to build/fuzz/SUBJECT-SEED/case-NUMBER.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.campaign import campaign, serve
from fuzz.convolutions import Convolutions, Gradients
from fuzz.derivation import Rewrites
from fuzz.launches import LaunchedGradients, LaunchedOperators, Launches
from fuzz.limits import limit_memory
from fuzz.models import Models
from fuzz.ptx import Texts
from fuzz.schedules import Schedules

from convc.errors import GpuError

SUBJECTS = {
    "convolutions": Convolutions,
    "ptx": Texts,
    "models": Models,
    "schedules": Schedules,
    "derivation": Rewrites,
    "launches": Launches,
    "operators": LaunchedOperators,
    "gradients": Gradients,
    "launched-gradients": LaunchedGradients,
}
ON_GPU = ("launches", "operators", "launched-gradients")
"""Subjects whose processes have no limit of address space: the driver takes more than any that is worth having."""

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign, or one of its workers; 1 where something was found, 2 where there is no GPU to launch on."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument(
        "--count", type=int, default=100, metavar="N", help="cases in all, those of earlier runs included"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="processes at a time")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument(
        "--folder", type=Path, help="where journal and reproductions are; default build/fuzz/SUBJECT-SEED"
    )
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    folder = given.folder or ROOT / "build" / "fuzz" / f"{given.subject}-{given.seed}"
    try:
        subject = SUBJECTS[given.subject]()
    except GpuError as refused:
        print(refused, file=sys.stderr)
        return 2
    if given.work is not None:
        if given.subject not in ON_GPU:
            limit_memory()
        serve(subject, given.seed, range(*given.work), folder)
        return 0
    journal = campaign(given.subject, given.seed, given.count, given.jobs, folder)
    print(f"{given.count} cases of {given.subject}, seed {given.seed}: {len(journal.found)} went wrong")
    return 1 if journal.found else 0


if __name__ == "__main__":
    sys.exit(main())
