"""Break kernels with every option at random, and say how many of the changes were noticed.

    python -m tests.sabotage --each 7 --seed 4711

Each change that was not noticed is printed with its kernel and the reason why that is right, but those that make
another text of the same kernel. A reason counts where the auditor finds nothing either, and more orders of
asynchronous work leave every byte; where it does not, or where there is none, a checker or an excuse is missing.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from sabotage_draw import KINDS, drawn, noticed_of, outcome
from sabotage_excuses import excuse
from sabotage_kernels import CHOSEN, subject


def main() -> None:
    """Draw, try, and print the counts."""
    parser = argparse.ArgumentParser(description="changes of kernels, drawn at random")
    parser.add_argument("--each", type=int, default=7, help="changes of a kernel (default 7)")
    parser.add_argument("--seed", type=int, default=0, help="others for each (default 0)")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for name in CHOSEN:
        for change in drawn(name, options.each, options.seed):
            kind = outcome(name, change)
            counts[kind] += 1
            if kind in ("idle", "unseen", "unexplained"):
                reason = excuse(change.what, subject(name).text)
                why = f"; {reason.reason}" if reason else ""
                print(f"{kind}: {name}: {change.category}: {change.what}{why}", flush=True)
    for kind, meaning in KINDS.items():
        print(f"{counts[kind]:6} {kind}: {meaning}")
    print(f"{len(CHOSEN)} kernels, {counts.total()} changes, seed {options.seed}: {noticed_of(counts):.1%} noticed")


if __name__ == "__main__":
    main()
