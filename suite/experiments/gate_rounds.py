"""What the gate has done to a loader beside the rounds of the benchmarks, in its own process."""

from __future__ import annotations

import time

from loaderproof.suite.experiments import rounds
from loaderproof.suite.experiments.tuning_rounds import looking
from loaderproof.suite.experiments.workbench import Workbench, close, start_epoch
from loaderproof.suite.observation import Scenario


def first_batch(bench: Workbench, scenario: Scenario) -> float:
    """Open the loader, take one batch, and close it again.

    The first call in a process also does what a process does once: importing libraries, writing the
    on-disk format, tracing functions.

    Returns:
        Seconds from opening to the first batch.
    """
    source = bench.fresh_source(scenario)
    bench.prepare(source)
    began = time.perf_counter()
    loader = bench.open(source, scenario.request)
    try:
        start_epoch(loader, 0)
        next(iter(loader), None)
        return time.perf_counter() - began
    finally:
        close(loader)


def peak(bench: Workbench) -> int | None:
    """Train on one more epoch of the open loader, untimed.

    Returns:
        The largest proportional set size of all its processes together, in bytes; None where the
        kernel does not tell.
    """
    with looking() as most:
        rounds.train(bench)
    return most[0] or None
