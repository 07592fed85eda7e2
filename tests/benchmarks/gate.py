"""How often is the gate wrong, what does it see, and what do other gates say of the same runs?

    python tests/benchmarks/gate.py BLOCKS.jsonl [--groups 11] [--seed 1]
    python tests/benchmarks/gate.py BLOCKS.jsonl --groups 0

Measures groups of blocks as the gate does, but with more arms in each block: the same loader eight
times, and one each that is slower by 3, 5, 10 and 20 %. Every block is a line of the file, to which
a second call adds; with no groups the file is read alone. A decision takes of each block another pair
of processes, so all pairs of eight give 28 decisions a group of base against base.

Beside it, of the same processes: pytest-benchmark's `--benchmark-compare-fail=median:5%` between one
process and another of the next block, and benchmatrix (if it is installed), of as many processes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from pytest_benchmark.utils import PercentageRegressionCheck

from loaderproof.loaders import Request
from loaderproof.suite.gate.bases import Side
from loaderproof.suite.gate.measures import AGAIN, BASE, CANDIDATE, Block, Seen
from loaderproof.suite.gate.running import Contest, Run
from loaderproof.suite.gate.verdicts import Measured, judge
from loaderproof.suite.home import Home
from loaderproof.suite.observation import Scenario

PLANTED = Path(__file__).parents[1] / "planted" / "slowed.py"
SAME = [f"base {number}" for number in range(8)]
SLOWER = {"3 %": "by_3", "5 %": "by_5", "10 %": "by_10", "20 %": "by_20"}
BLOCKS, MARGIN, TIMEOUT_S = 12, 0.05, 120
SCENARIO = Scenario("glyphs", Request(shuffle=True, seed=1), 1, 6_400)
# A short step: what is planted shows in the loader alone, whatever the device takes.
DEVICE = "emulated:0.3ms"


def main() -> None:
    """Measure what was asked for, then say what all of it gives."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--groups", type=int, default=11)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for group in range(asked.groups):
        measure(asked.file, 1_000 * asked.seed + group)
    print(figures(read(asked.file), asked.seed))


def measure(file: Path, seed: int) -> None:
    """Measure one group of blocks, and add each to the file when it is complete."""
    loaders = dict.fromkeys(SAME, "base") | SLOWER
    arms = {name: (Side(f"{PLANTED}:{made}", Home(), name), SCENARIO) for name, made in loaders.items()}
    run = Run(Contest(arms, DEVICE, TIMEOUT_S, seed, lambda _: None), BLOCKS)
    for _ in range(BLOCKS):
        run.before_round()
        run.round()
        run.finish()
        with file.open("a") as lines:
            lines.write(json.dumps({"group": seed, **asdict(run.blocks[-1])}) + "\n")
        print(f"{seed}: {len(run.blocks)} of {BLOCKS}, {run.blocks[-1].seconds:.0f} s", flush=True)


def read(file: Path) -> list[list[Block]]:
    """Return all groups that are complete."""
    groups: dict[int, list[Block]] = {}
    for line in file.read_text().splitlines():
        data: dict[str, Any] = json.loads(line)
        seen = {name: Seen(**one) for name, one in data["seen"].items()}
        groups.setdefault(data["group"], []).append(Block(seen, data["ceiling_s"], data["seconds"]))
    return [blocks for blocks in groups.values() if len(blocks) == BLOCKS]


def figures(groups: Sequence[Sequence[Block]], seed: int) -> str:
    """Return what all gates say of all groups."""
    draw = random.Random(seed)  # noqa: S311 - nobody has to be kept from guessing it
    rows = [f"{'':<22} {'decisions':>9} {'fail':>7} {'inconclusive':>13} {'pass':>7}"]
    for truth in ("0 %", *SLOWER):
        pairs = [one for group in groups for one in pairings(group, truth, draw)]
        rows.append(f"slower by {truth}")
        rows.append(_row("the gate", Counter(gate(one) for one in pairs)))
        rows.append(_row("  loading alone", Counter(gate(one, only="loading") for one in pairs)))
        rows.append(_row("pytest-benchmark", Counter(by_pytest_benchmark(groups, truth))))
        rows.append(_row("benchmatrix, paired", Counter(by_benchmatrix(one) for one in pairs)))
    return "\n".join([f"{len(groups)} groups of {BLOCKS} blocks, margin {MARGIN:.0%}", *rows])


def _row(name: str, counts: Counter[str]) -> str:
    total = counts.total()
    if not total:
        return f"  {name:<20} {'-':>9}"
    fail, unsure, good = (counts[answer] / total for answer in ("fail", "inconclusive", "pass"))
    return f"  {name:<20} {total:>9} {fail:>7.1%} {unsure:>13.1%} {good:>7.1%}"


def pairings(group: Sequence[Block], truth: str, draw: random.Random) -> Iterator[list[Block]]:
    """Yield the blocks of each decision that a group gives, with its arms named as the gate names them."""
    places = [draw.sample(SAME, len(SAME)) for _ in group]
    if truth in SLOWER:
        chosen = [(truth, number, (number + 1) % len(SAME)) for number in range(len(SAME))]
    else:
        pairs = itertools.combinations(range(len(SAME)), 2)
        chosen = [(one, two, next(iter(set(range(len(SAME))) - {one, two}))) for one, two in pairs]
    for candidate, base, again in chosen:
        yield [
            Block(
                {
                    CANDIDATE: block.seen[candidate if isinstance(candidate, str) else place[candidate]],
                    BASE: block.seen[place[base]],
                    AGAIN: block.seen[place[again]],
                },
                block.ceiling_s,
                block.seconds,
            )
            for block, place in zip(group, places, strict=True)
        ]


def gate(blocks: Sequence[Block], only: str = "") -> str:
    """Return the gate's answer, or that for one measure, as it gives it among all."""
    judgement = judge([Measured("loader", "base", blocks)], MARGIN)[0]
    if only:
        return str(next(answer for measure, answer in judgement.answers.items() if measure == only))
    return str(judgement.answer)


def by_pytest_benchmark(groups: Sequence[Sequence[Block]], truth: str) -> Iterator[str]:
    """Yield what comparing a run with the stored figures of an earlier one says."""
    check = PercentageRegressionCheck("median", 5)
    for group in groups:
        for before, after in itertools.pairwise(group):
            for number, name in enumerate(SAME):
                now = after.seen[truth if truth in SLOWER else SAME[number - 1]]
                medians = ({"median": median(one.loading_s)} for one in (now, before.seen[name]))
                yield "fail" if check.fails(*medians) else "pass"


def by_benchmatrix(blocks: Sequence[Block]) -> str:
    """Return what benchmatrix says of the same processes; its default, 50,000 resamples, takes too long here."""
    try:
        from benchmatrix.bench_statistics import (  # noqa: PLC0415 - not needed for anything else
            bootstrap_paired_median_ratio_interval,
        )
    except ImportError:
        return "not installed"
    base, candidate = ([median(block.seen[arm].loading_s) for block in blocks] for arm in (BASE, CANDIDATE))
    found = bootstrap_paired_median_ratio_interval(
        base, candidate, lower_is_better=True, confidence_level=0.95, resamples=2_000, random_seed=0
    )
    # In percent, below 0 where the candidate is slower.
    if found.high < -100 * MARGIN:
        return "fail"
    return "pass" if found.low >= -100 * MARGIN else "inconclusive"


if __name__ == "__main__":
    main()
