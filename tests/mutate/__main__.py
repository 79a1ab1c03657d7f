"""Draw mutants of convc, run the tests that reach them, and list those that survive.

    python -m tests.mutate --count 100 --seed 1

A seed puts all mutants into an order, of which the first are run. Which tests reach which line is found once, by traced
runs of the test files, and kept; so is what came of each mutant: a run that is stopped goes on where it was, and one
that is started again tries the survivors anew.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutate.campaign import Campaign
from mutate.copies import ROOT, prepare


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign; 1 where a mutant survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--count", type=int, default=50, metavar="N", help="mutants in all, those of earlier runs included"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the order in which mutants are drawn")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="processes at a time")
    parser.add_argument("--source", default="convc", metavar="PATH", help="the folder or file to draw from")
    parser.add_argument(
        "--tests", default=["tests"], nargs="+", metavar="PATH", help="the folders or files of tests that are run"
    )
    parser.add_argument(
        "--seconds", type=float, default=60, metavar="S", help="most that the tests of a mutant took when traced"
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "mutate", help="where map and journals are kept"
    )
    given = parser.parse_args(arguments)
    if not given.source.startswith("convc"):
        parser.error(f"mutants are drawn from convc and what is in it, not from {given.source}")
    for path in (given.source, *given.tests):
        if not (ROOT / path).exists():
            parser.error(f"there is no {path} in {ROOT}")
    prepare()
    campaign = Campaign(
        root=ROOT,
        folder=given.folder,
        source=given.source,
        tests=tuple(given.tests),
        jobs=given.jobs,
        most_s=given.seconds,
    )
    campaign.trace()
    verdicts = campaign.judge(campaign.drawn(given.seed, given.count), given.folder / f"seed-{given.seed}.jsonl")
    print(campaign.summary(verdicts))
    return 1 if any(verdict.said == "survived" for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
