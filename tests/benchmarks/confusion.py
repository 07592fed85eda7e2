"""How often is the verdict right? Loaders with planted bottlenecks, each judged again and again.

    python tests/benchmarks/confusion.py [--times 20] [--first 1] [--only NAME ...]

Each time in a new process. Prints how often each cause was named for each planted bottleneck, and
exits with 1 if fewer than 95 % of all verdicts are right.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from loaderproof.suite.diagnosis.causes import Cause

sys.path.insert(0, str(Path(__file__).parents[1]))

from known_bottlenecks import PLANTED, verdict_on  # beside the tests, which share it

RIGHT = 0.95


def main() -> None:
    """Judge and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--first", type=int, default=1, help="seed of the first time")
    parser.add_argument("--only", nargs="+", choices=PLANTED, default=list(PLANTED), metavar="NAME")
    asked = parser.parse_args()
    named: dict[str, Counter[Cause]] = {name: Counter() for name in asked.only}
    for turn in range(asked.first, asked.first + asked.times):
        for name in asked.only:
            began = time.monotonic()
            verdict = verdict_on(name, turn)
            named[name][verdict.cause] += 1
            print(
                f"{turn:>3} {name:<36} {verdict.cause}, {verdict.cost} ({time.monotonic() - began:.0f} s)",
                flush=True,
            )
    print(table(named))
    right = sum(named[name][PLANTED[name][3]] for name in named)
    total = asked.times * len(named)
    print(f"{right} of {total} right ({right / total:.1%})")
    sys.exit(right < RIGHT * total)


def table(named: dict[str, Counter[Cause]]) -> str:
    """Return the confusion matrix: a row for each planted bottleneck, a column for each cause."""
    causes = [cause for cause in Cause if any(counts[cause] for counts in named.values())]
    rows = [["planted", *causes]]
    rows += [[name, *(str(counts[cause] or "-") for cause in causes)] for name, counts in named.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            f"{cell:{'>' if place else '<'}{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


if __name__ == "__main__":
    main()
