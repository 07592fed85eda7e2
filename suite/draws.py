"""What was drawn at random for the samples of some epochs; plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from loaderproof.suite.observation import Scenario

# The family of draws that every loader shows: what became of the pixels.
PIXELS = "pixels"
# Thinning draws that need none costs a little power, no verdict.
_BOUND = 1e-3


@dataclass(frozen=True)
class Stream:
    """The draws of one family, in the order in which they came.

    Attributes:
        values: N; equal draws have equal values.
        ids: int64, N; places of the samples in the source.
        batch: int64, N; number of the batch that held the sample.
    """

    values: np.ndarray
    ids: np.ndarray
    batch: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    def part(self, chosen: np.ndarray) -> Stream:
        """Return the draws at some places of the stream."""
        return Stream(self.values[chosen], self.ids[chosen], self.batch[chosen])

    @cached_property
    def by_batch(self) -> bool:
        """Whether all samples of a batch share one draw."""
        inside = np.diff(self.batch) == 0
        return bool(inside.any()) and bool(np.all(self._repeats[inside]))

    @cached_property
    def thinned(self) -> Stream:
        """The draws that know nothing of each other: the first of each batch, where batches bind their draws.

        They do where neighbours in a batch are equal more often or less often than other neighbours.
        """
        inside = np.diff(self.batch) == 0
        counts = [(int(self._repeats[here].sum()), int(here.sum())) for here in (inside, ~inside)]
        (equal, of), (others, of_others) = counts
        total = of + of_others
        more, less = (
            hypergeometric(count, equal + others, pairs, total)
            for count, pairs in ((equal, of), (others, of_others))
        )
        return self.part(np.diff(self.batch, prepend=-1) != 0) if min(more, less) < _BOUND else self

    @property
    def _repeats(self) -> np.ndarray:
        again: np.ndarray = self.values[1:] == self.values[:-1]
        return again


def hypergeometric(both: int, first: int, second: int, of: int) -> float:
    """Return the chance that two sets, drawn at random from `of` things, share so many or more."""
    ways = term = math.comb(first, both) * math.comb(of - first, second - both)
    for k in range(both, min(first, second)):
        # From one term to the next; the division leaves no rest.
        term = term * (first - k) * (second - k) // ((k + 1) * (of - first - second + k + 1))
        ways += term
    return ways / math.comb(of, second)


@dataclass
class Pass:
    """One epoch.

    Attributes:
        number: counts from 0.
        ids: int64, N; places of the samples in the source, or None if the batches carry none.
        labels: int64, N; as delivered.
        batch: int64, N; number of the batch that held the sample.
        drawn: by name of the family, each N; under `PIXELS` a hash of the pixels.
        away: float64, N x 4; how the values differ from the source's: mean, mean size, and two
            means with weights, in units of the range.
    """

    number: int
    ids: np.ndarray | None
    labels: np.ndarray
    batch: np.ndarray
    drawn: dict[str, np.ndarray]
    away: np.ndarray

    @property
    def places(self) -> np.ndarray:
        """The ids, or -1 for every sample if the batches carry none."""
        return np.full(len(self.labels), -1) if self.ids is None else self.ids

    def stream(self, family: str) -> Stream:
        """Return the draws of one family."""
        return Stream(self.drawn[family], self.places, self.batch)


@dataclass
class Drawn:
    """The epochs of one loader that augments.

    Attributes:
        scenario: what it was asked.
        labels: int64, N; the labels of the source.
        passes: the epochs.
        told: whether the loader takes the number of the epoch.
    """

    scenario: Scenario
    labels: np.ndarray
    passes: list[Pass]
    told: bool

    @property
    def carries_ids(self) -> bool:
        """Whether every sample can be told by an id that is a place in the source."""
        return all(
            one.ids is not None and bool(np.all((one.ids >= 0) & (one.ids < len(self.labels))))
            for one in self.passes
        )

    @property
    def families(self) -> list[str]:
        """The families that all epochs carry, and the pixels if they differ or nothing else is carried.

        The samples of the source are all alike, so pixels that differ do so by chance.
        """
        carried = set.intersection(*(set(one.drawn) for one in self.passes)) - {PIXELS}
        differ = len(np.unique(np.concatenate([one.drawn[PIXELS] for one in self.passes]))) > 1
        return sorted(carried) + [PIXELS] * (differ or not carried)


@dataclass
class Untouched:
    """What augmentation left behind.

    Attributes:
        changed: places of the samples of the source that another value was written to.
        carried: names of draws in the batches of a loader that was not to draw.
        before, after: float64, N; largest difference from the source of each sample of an epoch
            without augmentation, before and after those with it.
    """

    changed: list[int]
    carried: list[str]
    before: np.ndarray
    after: np.ndarray
