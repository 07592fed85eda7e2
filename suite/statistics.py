"""Ratios of times that were measured side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

LEVEL = 0.95


@dataclass(frozen=True)
class Ratio:
    """A ratio with its interval.

    Attributes:
        value: geometric mean over the blocks.
        low, high: 95 % interval; as wide as can be where one block was measured.
    """

    value: float
    low: float
    high: float

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
    logs = np.log(np.asarray(above, float)) - np.log(np.asarray(below, float))
    mean = float(logs.mean())
    if logs.size == 1:
        return Ratio(math.exp(mean), 0.0, math.inf)
    half = student_quantile(logs.size - 1) * float(logs.std(ddof=1)) / math.sqrt(logs.size)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


@cache
def student_quantile(degrees: int) -> float:
    """Return the two-sided 95 % point of Student's t distribution."""
    from scipy.stats import t  # noqa: PLC0415 - half a second that only a run with benchmarks pays

    return float(t.ppf(0.5 + LEVEL / 2, degrees))


def _spread(ratio: Ratio) -> float:
    return math.log(ratio.high / ratio.value) if math.isfinite(ratio.high) else math.inf
