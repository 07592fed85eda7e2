"""End-to-end training with each loader, beside the ceiling that none can pass."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from loaderproof.suite import stopwatch
from loaderproof.suite.judged import Judged

BLOCKS = 5


@pytest.mark.benchmark(group="training")
def test_training(subject: Judged, benchmark: BenchmarkFixture) -> None:
    """One epoch of training, batches of 64, shuffled."""
    stopwatch.measure(subject, benchmark, subject.timed_scenario(), "rounds:train", BLOCKS)
