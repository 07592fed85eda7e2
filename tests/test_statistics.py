"""Ratios, against published and independently computed values."""

import math

import numpy as np
import pytest
from scipy import stats

from loaderproof.suite.statistics import (
    Estimate,
    Ratio,
    geometric_mean,
    paired_ratio,
    shortfall,
    student_quantile,
)

# Student, The Probable Error of a Mean, Biometrika 6 (1908): hours of sleep gained by ten patients
# with one drug over another. R prints the interval for `t.test(..., paired = TRUE)` of its data
# set `sleep`: 0.7001142 to 2.4598858, mean 1.58.
SLEEP = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]


@pytest.mark.parametrize(("degrees", "published"), [(1, 12.706), (3, 3.182), (5, 2.571), (9, 2.262)])
def test_student_s_quantile(degrees, published):
    """The two-sided 95 % points are those of the printed tables."""
    assert published == round(student_quantile(degrees), 3)


def test_interval_of_a_published_example():
    """The mean and the interval of the logarithms are those that R prints for Student's own data."""
    ratio = paired_ratio(np.exp(SLEEP).tolist(), [1.0] * 10)

    logs = [math.log(part) for part in (ratio.value, ratio.low, ratio.high)]
    assert [1.58, 0.7001142, 2.4598858] == [round(log, 7) for log in logs]


def test_interval_computed_elsewhere():
    """For pairs of any size the interval is the one that SciPy's t test of the logarithms gives."""
    random = np.random.default_rng(1)
    for blocks in (2, 3, 6, 30):
        above, below = random.lognormal(0, 0.2, (2, blocks))

        ratio = paired_ratio(above.tolist(), below.tolist())

        interval = stats.ttest_1samp(np.log(above / below), 0).confidence_interval(0.95)
        assert (ratio.low, ratio.high) == pytest.approx(tuple(np.exp(interval)))
        assert ratio.value == pytest.approx(stats.gmean(above / below))


def test_mean_of_a_published_example():
    """The mean of times is the geometric one, with the interval that R prints for Student's own data."""
    mean = geometric_mean(np.exp(SLEEP).tolist())

    logs = [math.log(part) for part in (mean.value, mean.low, mean.high)]
    assert [1.58, 0.7001142, 2.4598858] == [round(log, 7) for log in logs]


def test_means_agree():
    """The mean of speeds is one over the mean of times, and its interval the same turned round."""
    seconds = [1.0, 1.3, 0.7, 2.0]

    slow, fast = geometric_mean(seconds), geometric_mean([1 / one for one in seconds])

    assert (slow.value, slow.low, slow.high) == pytest.approx((1 / fast.value, 1 / fast.high, 1 / fast.low))


def test_mean_of_nothing():
    """Waits too short for the clock have a mean of a nanosecond; one block tells nothing of the spread."""
    assert (1e-9, 0.0, math.inf) == pytest.approx(tuple(vars(geometric_mean([0.0])).values()))
    with pytest.raises(ValueError, match="no measurement"):
        geometric_mean([])


def test_shortfall_turns_the_interval_round():
    """What is missing from a ratio to one is small where the ratio is large, and below 0 beyond it."""
    assert (0.25, -0.25, 0.5) == tuple(vars(shortfall(Ratio(0.75, 0.5, 1.25))).values())
    assert Estimate(0.5, -math.inf, 1.0) == shortfall(Ratio(0.5, 0.0, math.inf))


def test_drift_cancels():
    """What slows both measurements of a block down leaves the ratio and its interval as they were."""
    above, below, drift = [2.0, 2.2, 2.1], [1.0, 1.0, 1.1], [1.0, 5.0, 30.0]

    steady = paired_ratio(above, below)
    drifting = paired_ratio(
        [time * slow for time, slow in zip(above, drift, strict=True)],
        [time * slow for time, slow in zip(below, drift, strict=True)],
    )

    assert (steady.value, steady.low, steady.high) == pytest.approx(
        (drifting.value, drifting.low, drifting.high)
    )


def test_interval_covers_the_truth():
    """Of 2,000 intervals of six noisy blocks, 95 % hold the true ratio, within four standard errors."""
    random = np.random.default_rng(2)
    times = random.lognormal(0, 0.1, (2_000, 2, 6))

    ratios = [paired_ratio(1.5 * above, below) for above, below in times]

    share = np.mean([ratio.low <= 1.5 <= ratio.high for ratio in ratios])
    assert share == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 2_000))


def test_one_block_tells_nothing_of_the_spread():
    """A single pair has a ratio, and an interval that excludes nothing."""
    assert Ratio(2.0, 0.0, math.inf) == paired_ratio([4.0], [2.0])
    assert not paired_ratio([4.0], [2.0]).differs(Ratio(9.0, 8.0, 10.0))


@pytest.mark.parametrize(("above", "below"), [([], []), ([1.0], [1.0, 2.0]), ([1.0, 2.0], [1.0])])
def test_what_makes_no_pairs_is_refused(above, below):
    """Without as many measurements on either side there is no ratio."""
    with pytest.raises(ValueError, match=f"{len(above)} and {len(below)} measurements"):
        paired_ratio(above, below)


def test_division_adds_errors_up():
    """The interval of a quotient of independent ratios has the root of the summed squares of both spreads."""
    half = Ratio(0.5, 0.5 / math.exp(0.3), 0.5 * math.exp(0.3))
    quarter = Ratio(0.25, 0.25 / math.exp(0.4), 0.25 * math.exp(0.4))

    quotient = half / quarter

    assert (2.0, 2 * math.exp(-0.5), 2 * math.exp(0.5)) == pytest.approx(
        (quotient.value, quotient.low, quotient.high)
    )


def test_division_by_a_single_block():
    """A quotient with a ratio of one block is as uncertain as that is."""
    assert Ratio(2.0, 0.0, math.inf) == Ratio(1.0, 0.9, 1.1) / Ratio(0.5, 0.0, math.inf)


@pytest.mark.parametrize(
    ("other", "apart"),
    [(Ratio(1.3, 1.2, 1.4), True), (Ratio(1.2, 1.1, 1.3), False), (Ratio(1, 0.9, 1.1), False)],
)
def test_ratios_differ_where_intervals_lie_apart(other, apart):
    """Two ratios differ if their intervals have nothing in common, whichever is asked."""
    one = Ratio(1.05, 1.0, 1.1)

    assert (apart, apart) == (one.differs(other), other.differs(one))
