"""Each loader alone: how fast it delivers when nothing else is done."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from loaderproof.suite import stopwatch
from loaderproof.suite.judged import Judged

BLOCKS = 3


@pytest.mark.benchmark(group="loading")
def test_loading(subject: Judged, benchmark: BenchmarkFixture) -> None:
    """One epoch without training, batches of 64, shuffled; time to the first batch and setup apart."""
    stopwatch.measure(subject, benchmark, subject.timed_scenario(), "rounds:load", BLOCKS)
