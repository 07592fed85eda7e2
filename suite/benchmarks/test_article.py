"""The article's experiment: does a mixture of PyTorch and tf.data train faster than plain PyTorch?"""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from loaderproof.suite import article_rows
from loaderproof.suite.judged import Judged


@pytest.mark.article
@pytest.mark.benchmark(group="article")
def test_article(subject: Judged, benchmark: BenchmarkFixture) -> None:
    """Ten epochs of training in batches of 64, each with a test pass in batches of 1,000; fewer in a short run."""
    article_rows.measure(subject, benchmark)
