"""Settings of a loader, and what came of running some of them side by side. Nothing is measured here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from loaderproof.loaders.contract import Request
from loaderproof.suite.statistics import LEVEL, Ratio, paired_ratio, student_quantile


@dataclass(frozen=True)
class Setting:
    """What a sweep changes of a request.

    Attributes:
        workers: number of workers; None for a loader that takes none.
        options: of the adapter, as pairs in the order in which they were chosen.
    """

    workers: int | None = None
    options: tuple[tuple[str, object], ...] = ()

    def __hash__(self) -> int:
        """Take values that cannot be hashed, too."""
        return hash(repr(self))

    def __str__(self) -> str:
        """Name the setting as an author would write it."""
        workers = [] if self.workers is None else [("num_workers", self.workers)]
        return ", ".join(f"{name}={value!r}" for name, value in (*workers, *self.options)) or "as it is"

    def having(self, name: str, value: object) -> Setting:
        """Return this setting with one option changed."""
        return replace(self, options=tuple({**dict(self.options), name: value}.items()))

    def request(self, asked: Request) -> Request:
        """Return a request with this setting."""
        workers = asked.num_workers if self.workers is None else self.workers
        return replace(asked, num_workers=workers, options=dict(self.options))


@dataclass(frozen=True)
class Sweep:
    """What a sweep measured; requests are numbered, the first is what the others are compared with.

    Attributes:
        seconds: of one epoch of training in each block, by request; fewer where one was given up as
            far too slow, none where it failed.
        ceiling: of the same steps on batches that lie on the device, in each block.
        setup_s: opening the loader, and its very first batch, by request.
        failed: why a request was left out.
    """

    seconds: Mapping[int, Sequence[float]]
    ceiling: Sequence[float]
    setup_s: Mapping[int, float] = field(default_factory=dict)
    failed: Mapping[int, str] = field(default_factory=dict)

    def speed(self, number: int, to: int = 0, comparisons: int = 1) -> Ratio:
        """Return the speed of a request as a multiple of another's.

        Args:
            number: of the request.
            to: number of the other one.
            comparisons: how many intervals must hold together, with 95 % (Bonferroni).
        """
        return _ratio(self.seconds[to], self.seconds[number], comparisons)

    def of_ceiling(self, number: int, comparisons: int = 1) -> Ratio:
        """Return the speed of a request as a share of the ceiling's."""
        return _ratio(self.ceiling, self.seconds[number], comparisons)


def _ratio(above: Sequence[float], below: Sequence[float], comparisons: int) -> Ratio:
    blocks = min(len(above), len(below))
    plain = paired_ratio(above[:blocks], below[:blocks])
    if blocks < 2 or comparisons == 1:
        return plain
    spread = math.log(plain.high / plain.value) * _widening(comparisons, blocks - 1)
    return Ratio(plain.value, plain.value * math.exp(-spread), plain.value * math.exp(spread))


@cache
def _widening(comparisons: int, degrees: int) -> float:
    """Return how much wider a Student interval must be so that so many of them hold together (Bonferroni)."""
    from scipy.stats import t  # noqa: PLC0415 - half a second that only a sweep pays

    return float(t.ppf(1 - (1 - LEVEL) / 2 / comparisons, degrees)) / student_quantile(degrees)


def worker_counts(cores: float, more: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the numbers of workers worth trying: 0, 1, 2, 4 and so on, up to one for each core.

    Args:
        cores: that may be used.
        more: numbers that were asked for.
    """
    most = max(2, math.ceil(cores))
    powers = [2**power for power in range(most.bit_length()) if 2**power <= most]
    return tuple(sorted({0, *powers, most, *more}))
