"""What the gate has done to a loader beside the rounds of the benchmarks, in its own process."""

from __future__ import annotations

import sys
import time

from loaderproof.suite import home
from loaderproof.suite.experiments import rounds
from loaderproof.suite.experiments.tuning_rounds import looking
from loaderproof.suite.experiments.workbench import Workbench, close, start_epoch
from loaderproof.suite.observation import Scenario

# Names of the modules that the source brought.
_of_data: set[str] = set()


def first_batch(bench: Workbench, scenario: Scenario) -> float:
    """Open the loader, take one batch, and close it again.

    The first call in a process also does what a process does once: importing libraries, writing the
    on-disk format, tracing functions.

    Returns:
        Seconds from opening to the first batch.
    """
    before = set(sys.modules)
    source = bench.fresh_source(scenario)
    _of_data.update(sys.modules.keys() - before)
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
    """Train on one more epoch of the open loader, untimed, and make sure of what was measured.

    Returns:
        The largest proportional set size of all its processes together, in bytes; None where the
        kernel does not tell.

    Raises:
        StrayError: the loader was not the code of its side.
    """
    with looking() as most:
        rounds.train(bench)
    home.check_at_the_end(bench.spec, _of_data)
    return most[0] or None
