"""How often is the verdict right? Loaders with planted bottlenecks, each judged again and again.

    python tests/benchmarks/confusion.py [--times 20] [--only NAME ...]

Each time in a new process. Prints how often each cause was named for each planted bottleneck, and
exits with 1 if fewer than 95 % of all verdicts are right.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from loaderproof.loaders.contract import Request
from loaderproof.suite.diagnosis.differential import compare
from loaderproof.suite.diagnosis.verdict import Cause, Verdict, judge
from loaderproof.suite.observation import Scenario
from loaderproof.suite.subject import Subject

FILE = Path(__file__).parents[1] / "planted" / "bottlenecks.py"
SAMPLES, TIMEOUT_S, RIGHT = 6_400, 300, 0.95
QUICK, SLOW = "emulated:2ms", "emulated:20ms"

# Planted bottleneck: its loader, number of workers, device, and the cause that it is.
PLANTED: dict[str, tuple[str, int, str, Cause]] = {
    "slow storage": ("storage", 2, QUICK, Cause.FETCH),
    "slow decode": ("decode", 2, QUICK, Cause.PREPARATION),
    "slow augmentation holding the GIL": ("lock", 0, QUICK, Cause.GIL),
    "slow collate": ("collate", 2, QUICK, Cause.PREPARATION),
    "oversized batches through queues": ("queue", 2, QUICK, Cause.HAND_OVER),
    "slow transfer": ("transfer", 0, QUICK, Cause.TRANSFER),
    "worker restart at each epoch": ("restart", 2, QUICK, Cause.START_UP),
    "one slow worker in k": ("straggler", 2, QUICK, Cause.STRAGGLERS),
    "one slow batch in eight": ("every_eighth", 2, QUICK, Cause.STRAGGLERS),
    "too many threads": ("threads", 0, QUICK, Cause.OVER_SUBSCRIPTION),
    "slow accelerator": ("memory", 0, SLOW, Cause.COMPUTE),
    "none": ("nothing", 0, "emulated:6ms", Cause.NONE),
}


def main() -> None:
    """Judge and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=PLANTED, default=list(PLANTED), metavar="NAME")
    asked = parser.parse_args()
    named: dict[str, Counter[Cause]] = {name: Counter() for name in asked.only}
    for turn in range(1, asked.times + 1):
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


def verdict_on(name: str, seed: int) -> Verdict:
    """Judge one loader once, in a process of its own."""
    loader, workers, device, _ = PLANTED[name]
    request = Request(num_workers=workers, shuffle=True, seed=seed)
    subject = Subject(f"{FILE}:{loader}", TIMEOUT_S)
    try:
        found = compare(subject.run, Scenario("glyphs", request, 1, SAMPLES), device, f"{name} {seed}")
    finally:
        subject.close()
    return judge(found)


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
