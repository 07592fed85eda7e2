"""What the passes over one loader showed; plain data that the tests make assertions on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from loaderproof.loaders.contract import Request


@dataclass(frozen=True)
class Scenario:
    """What a loader is asked for, over which data.

    Attributes:
        data: a name that `loaders.sources.load` takes.
        request: as the loader gets it.
        epochs: passes over the one loader.
        first: only so many samples of the split, from its beginning; None for all.
    """

    data: str
    request: Request
    epochs: int = 2
    first: int | None = None

    def __str__(self) -> str:
        request = self.request
        limit = "" if self.first is None else f"[:{self.first}]"
        asked = (
            f"{self.data}{limit}, {request.split}, batch_size={request.batch_size}, shuffle={request.shuffle}"
        )
        asked += f", seed={request.seed}, drop_last={request.drop_last}, num_workers={request.num_workers}"
        asked += f", rank={request.rank} of {request.world_size}" if request.world_size > 1 else ""
        asked += ", augment=True" if request.augment else ""
        return asked + "".join(f", {name}={value!r}" for name, value in request.options.items())


@dataclass
class Batch:
    """What one batch looked like.

    Attributes:
        image_shape, label_shape: as delivered.
        image_dtype, label_dtype: names of torch dtypes.
        low, high: smallest and largest value of the images; NaN if any value is.
        changed: whether it differed, at the end of all passes, from what it was when it came.
    """

    image_shape: tuple[int, ...]
    label_shape: tuple[int, ...]
    image_dtype: str
    label_dtype: str
    low: float
    high: float
    changed: bool = False

    @property
    def size(self) -> int:
        """Number of samples; a batch of one may have lost its first dimension."""
        if len(self.image_shape) == 3 and math.prod(self.label_shape) == 1:
            return 1
        return self.image_shape[0] if self.image_shape else 0


@dataclass
class Epoch:
    """One pass over a loader.

    Attributes:
        number: counts from 0.
        batches: in the order they came.
        index: int64, samples; place in the source of each sample that came, -1 if it is not there.
        label: int64, samples; as delivered.
        error: float64, samples; largest difference of a value from the source.
        placed: bool, samples; whether each pixel lies where it lay in the source.
        ended: whether the loader stopped by itself.
        extras: what else the batches carried, by name, each of shape (samples,).
    """

    number: int
    batches: list[Batch]
    index: np.ndarray
    label: np.ndarray
    error: np.ndarray
    placed: np.ndarray
    ended: bool
    extras: dict[str, np.ndarray] = field(default_factory=dict)

    def batch_of(self, sample: int) -> int:
        """Return which batch held the sample with this place in the epoch."""
        return int(np.searchsorted(np.cumsum([batch.size for batch in self.batches]), sample, side="right"))


@dataclass
class Observation:
    """What one loader showed in one scenario.

    Attributes:
        scenario: what it was asked.
        labels: int64, N; the labels of the source.
        image_shape: height, width, channels of the source.
        length: what `len()` said before the first pass; None if the loader has no length.
        epochs: the passes.
        owed: int64, N; how often each sample is owed in an epoch: once, but where the source holds it more
            often, of which the first stands for all.
    """

    scenario: Scenario
    labels: np.ndarray
    image_shape: tuple[int, int, int]
    length: int | None
    epochs: list[Epoch] = field(default_factory=list)
    owed: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        """Owe each sample once, if nothing else is said."""
        if len(self.owed) != len(self.labels):
            self.owed = np.ones(len(self.labels), np.int64)

    @property
    def count(self) -> int:
        """Number of samples in the source."""
        return len(self.labels)
