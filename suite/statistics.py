"""Figures that were measured block by block, and ratios of times that were measured side by side.

There is one rule for all of them. Times, and what is made of them by division, are never negative,
and what disturbs them multiplies: a mean is the geometric one, and an interval is Student's t of the
logarithms, taken back (Bland and Altman, Transformations, means, and confidence intervals,
BMJ 312:1079, 1996). So the interval of a share is that of a ratio, and the figures agree with each
other: the mean of n / seconds is n / the mean of the seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
# What a clock of nanoseconds calls nothing is shorter than this; a logarithm needs more than nothing.
_SHORTEST_S = 1e-9


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval.

    Attributes:
        value: geometric mean over the blocks.
        low, high: 95 % interval; as wide as can be where one block was measured.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Ratio(Estimate):
    """A ratio of two times with its interval."""

    def __truediv__(self, other: Ratio) -> Ratio:
        """Divide two ratios that were measured apart; the interval is widened as errors add up."""
        value = self.value / other.value
        spread = math.hypot(_spread(self), _spread(other))
        return Ratio(value, value * math.exp(-spread), value * math.exp(spread))

    def differs(self, other: Ratio) -> bool:
        """Tell whether the intervals lie apart."""
        return self.low > other.high or self.high < other.low


def paired_ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """Return above / below, block by block.

    The mean and Student's t interval of the logarithms; what a block's two measurements share,
    such as a slow phase of the machine, cancels out.

    Args:
        above: positive, in order of the blocks.
        below: the same, as many.

    Raises:
        ValueError: there is nothing to compare, or the numbers differ.
    """
    if len(above) != len(below) or len(above) == 0:
        msg = f"{len(above)} and {len(below)} measurements do not make pairs to take a ratio of"
        raise ValueError(msg)
    return Ratio(*_back(np.log(np.asarray(above, float)) - np.log(np.asarray(below, float))))


def geometric_mean(values: Sequence[float]) -> Estimate:
    """Return the mean of times or of speeds over the blocks.

    Args:
        values: in seconds or for each second; what is below a nanosecond counts as one.

    Raises:
        ValueError: there are none.
    """
    if len(values) == 0:
        msg = "no measurement to take a mean of"
        raise ValueError(msg)
    return Estimate(*_back(np.log(np.maximum(np.asarray(values, float), _SHORTEST_S))))


def shortfall(ratio: Estimate) -> Estimate:
    """Return what is missing from a ratio to one: 1 - ratio, below 0 where the ratio is above 1."""
    return Estimate(1 - ratio.value, 1 - ratio.high, 1 - ratio.low)


def _back(logs: NDArray[np.float64]) -> tuple[float, float, float]:
    mean = float(logs.mean())
    if logs.size == 1:
        return math.exp(mean), 0.0, math.inf
    half = student_quantile(logs.size - 1) * float(logs.std(ddof=1)) / math.sqrt(logs.size)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


@cache
def student_quantile(degrees: int) -> float:
    """Return the two-sided 95 % point of Student's t distribution."""
    from scipy.stats import t  # noqa: PLC0415 - half a second that only a run with benchmarks pays

    return float(t.ppf(0.5 + LEVEL / 2, degrees))


def _spread(ratio: Ratio) -> float:
    return math.log(ratio.high / ratio.value) if math.isfinite(ratio.high) else math.inf
