"""How the ranks of a loader shared an epoch out among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loaderproof.loaders.contract import Uneven
from loaderproof.suite.observation import Epoch, Observation


@dataclass
class Deal:
    """One epoch of all ranks.

    Attributes:
        seen: what each rank showed.
        number: of the epoch among those that were watched.
    """

    seen: list[Observation]
    number: int

    @property
    def world(self) -> int:
        """Number of ranks."""
        return len(self.seen)

    @property
    def epochs(self) -> list[Epoch]:
        """The epoch of each rank."""
        return [one.epochs[self.number] for one in self.seen]

    @property
    def ended(self) -> bool:
        """Whether it ended by itself on each rank."""
        return all(epoch.ended for epoch in self.epochs)

    @property
    def orders(self) -> list[np.ndarray]:
        """Places in the source of the samples of each rank, in their order."""
        return [epoch.index[epoch.index >= 0] for epoch in self.epochs]

    @property
    def sets(self) -> list[frozenset[int]]:
        """The samples of each rank."""
        return [frozenset(order.tolist()) for order in self.orders]

    @property
    def shares(self) -> list[int]:
        """Number of samples of each rank."""
        return [len(epoch.index) for epoch in self.epochs]

    @property
    def batches(self) -> list[int]:
        """Number of batches of each rank."""
        return [len(epoch.batches) for epoch in self.epochs]

    @property
    def times(self) -> np.ndarray:
        """How often each sample of the source came (int64, N)."""
        return np.bincount(np.concatenate(self.orders), minlength=self.seen[0].count)

    @property
    def owed(self) -> np.ndarray:
        """How often each sample is owed (int64, N): once, if the source does not hold it twice."""
        return self.seen[0].owed

    @property
    def missing(self) -> np.ndarray:
        """Places of the samples that came on no rank, or not as often as the source holds them."""
        return np.flatnonzero(self.times < self.owed)

    @property
    def repeated(self) -> np.ndarray:
        """Places of the samples that came more often than they are owed."""
        return np.flatnonzero(self.times > self.owed)

    @property
    def extra(self) -> int:
        """How many samples came over and above what is owed."""
        return int(np.maximum(self.times - self.owed, 0).sum())

    def too_many(self, uneven: Uneven) -> bool:
        """Tell whether more samples came again than the declared end allows."""
        return self.extra > (self.world - 1 if uneven is Uneven.PADDED else 0)

    def too_few(self, uneven: Uneven) -> bool:
        """Tell whether more samples were left out than the declared end allows."""
        short = int(np.maximum(self.owed - self.times, 0).sum())
        return short > (self.world - 1 if uneven is Uneven.DROPPED else 0)

    def right(self, uneven: Uneven) -> bool:
        """Tell whether all that is owed came, and nothing more."""
        return self.ended and not self.too_many(uneven) and not self.too_few(uneven)

    def even(self, uneven: Uneven) -> bool:
        """Tell whether all ranks have equally much, but for the declared end."""
        apart = max(self.shares) - min(self.shares)
        allowed = 1 if uneven is Uneven.EXACT else 0
        return apart <= allowed and max(self.batches) - min(self.batches) <= apart

    def in_order(self, rank: int) -> bool:
        """Tell whether the samples of a rank come in the order of the source, but for padding at its end."""
        order = self.orders[rank]
        padding = np.isin(order, self.repeated)
        own = len(order) - int(np.argmin(padding[::-1])) if not padding.all() else 0
        # Where one of equal samples lies in the source cannot be told.
        single = order[:own][self.owed[order[:own]] == 1]
        return bool(np.all(np.diff(single) > 0))

    def where(self, sample: int) -> str:
        """Say on which ranks a sample came."""
        ranks = [rank for rank, order in enumerate(self.orders) for _ in range(int((order == sample).sum()))]
        return f"#{sample} on ranks {', '.join(map(str, ranks))}"


def deals(seen: list[Observation]) -> list[Deal]:
    """Return every epoch that all ranks have."""
    return [Deal(seen, number) for number in range(min((len(one.epochs) for one in seen), default=0))]
