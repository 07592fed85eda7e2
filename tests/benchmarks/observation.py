"""What it costs to watch a loader: a pass under observation against a bare one, and observation alone.

    python tests/benchmarks/observation.py [--loader tfds_numpy] [--data glyphs] [--pairs 15]

Passes come in pairs, one bare and one observed, in random balanced order; the ratio is taken pair
by pair. Observation alone is timed on batches that lie in memory, on one core.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import torch

from loaderproof.loaders import Request
from loaderproof.model.accelerator import accelerator
from loaderproof.suite.blocks import ceiling_first
from loaderproof.suite.experiments import recorder
from loaderproof.suite.experiments.rounds import ceiling
from loaderproof.suite.experiments.workbench import Workbench
from loaderproof.suite.observation import Scenario
from loaderproof.suite.statistics import paired_ratio


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--loader", default="tfds_numpy")
    parser.add_argument("--data", default="glyphs")
    parser.add_argument("--pairs", type=int, default=15)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    bench = Workbench(asked.loader)
    scenario = Scenario(asked.data, Request(shuffle=True, seed=1))
    catalogue = bench.catalogue(scenario)
    with bench.opened(scenario) as loader:
        bare, observed = pairs(loader, catalogue.fingerprint, asked.pairs)
    ratio = paired_ratio(observed, bare)
    count = len(catalogue.labels)
    print(f"{asked.loader} on {asked.data}, {count} samples, batches of 64, {asked.pairs} pairs of passes")
    print(f"bare pass      {median(bare):.3f} s (median)")
    print(f"observed pass  {median(observed):.3f} s (median)")
    print(
        f"ratio          {median(o / b for o, b in zip(observed, bare, strict=True)):.3f} (median of pairs);"
    )
    print(f"               {ratio.value:.3f}, 95 % interval {ratio.low:.3f} to {ratio.high:.3f}")
    speeds = alone(bench, scenario, asked.pairs)
    print(f"observation alone, one core: {median(speeds):,.0f} samples/s (median of {len(speeds)};")
    print(f"               {min(speeds):,.0f} to {max(speeds):,.0f})")


def pairs(loader, fingerprint, number: int) -> tuple[list[float], list[float]]:
    """Return the seconds of bare and of observed passes, pair by pair."""
    bare, observed = [], []
    for _ in loader:
        pass
    for bare_first in ceiling_first(number, seed=1):
        for is_bare in (bare_first, not bare_first):
            began = time.perf_counter()
            if is_bare:
                for _ in loader:
                    pass
            else:
                recorder.covered(loader, fingerprint)
            (bare if is_bare else observed).append(time.perf_counter() - began)
    return bare, observed


def alone(bench: Workbench, scenario: Scenario, times: int) -> list[float]:
    """Return how many samples a second are observed when they lie in memory."""
    batches = ceiling(bench, scenario, accelerator("cpu"))
    fingerprint = bench.catalogue(scenario).fingerprint
    speeds = []
    for _ in range(times):
        began = time.perf_counter()
        came = recorder.covered(batches, fingerprint)
        speeds.append(came.count / (time.perf_counter() - began))
    return speeds


if __name__ == "__main__":
    main()
