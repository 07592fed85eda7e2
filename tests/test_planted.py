"""Planted bottlenecks are named; `benchmarks/confusion.py` says how often."""

import known_bottlenecks
import pytest


@pytest.mark.parametrize("name", known_bottlenecks.PLANTED)
def test_planted_bottleneck_is_named(name):
    """The verdict names what was planted: at once, or in two of three where another program disturbed it."""
    *_, expected = known_bottlenecks.PLANTED[name]

    named = [known_bottlenecks.verdict_on(name, 1).cause]
    if named != [expected]:
        named += [known_bottlenecks.verdict_on(name, seed).cause for seed in (2, 3)]

    assert named == [expected] or [expected, expected] == named[1:]
