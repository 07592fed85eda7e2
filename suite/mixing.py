"""How well an epoch mixes sorted data, and how well it must.

Two statistics, since each is blind where the other sees: the correlation of a sample's place in
the epoch with its place in the source catches narrow buffers; the number of classes in a batch
catches whole files that are shuffled as blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

_SIMULATIONS = 400
# A normal variable lies further out than this, to one side, with probability 2.9e-7. The
# statistics are sums over many samples, close to normal, but the classes lean to the lower side:
# of 2,000,000 right shuffles 28 were refused, all for them. tests/test_mixing.py holds the rate of
# both together below 1e-4.
_SIGMAS = 5.0


@dataclass(frozen=True)
class Mixing:
    """How well one epoch is mixed.

    Attributes:
        correlation: of place in the epoch with place in the source; 0 is best, 1 is sorted.
        classes: mean number of different labels in a full batch.
    """

    correlation: float
    classes: float

    def __str__(self) -> str:
        return f"correlation with the source's order {self.correlation:.3f}, {self.classes:.2f} classes in a batch"


@dataclass(frozen=True)
class Owed:
    """The worst mixing that a shuffle of some width shows."""

    buffer: int
    correlation: float
    classes: float

    def allows(self, found: Mixing) -> bool:
        """Tell whether an epoch is mixed well enough."""
        return abs(found.correlation) <= self.correlation and found.classes >= self.classes

    def __str__(self) -> str:
        return (
            f"correlation with the source's order at most {self.correlation:.3f}, at least {self.classes:.2f}"
            f" classes in a batch, as with a shuffle buffer of {self.buffer} samples"
        )


def measure(order: np.ndarray, labels: np.ndarray, batch_size: int) -> Mixing:
    """Measure the mixing of one epoch.

    Args:
        order: int64, N; place in the source of each sample, as they came.
        labels: int64, N; label of each sample, as they came.
        batch_size: samples in a batch.
    """
    full = len(labels) // batch_size
    batches = np.sort(labels[: full * batch_size].reshape(full, batch_size), axis=1)
    classes = 1 + (np.diff(batches, axis=1) != 0).sum(axis=1)
    return Mixing(float(np.corrcoef(np.arange(len(order)), order)[0, 1]), float(classes.mean()))


def owed(labels: np.ndarray, batch_size: int, buffer: int) -> Owed:
    """Return what a shuffle buffer of some size owes on a source with these labels."""
    return _owed(tuple(labels.tolist()), batch_size, min(buffer, len(labels)))


@cache
def _owed(labels: tuple[int, ...], batch_size: int, buffer: int) -> Owed:
    truth = np.asarray(labels)
    generator = np.random.default_rng(20261130)
    seen = [
        measure(order, truth[order], batch_size)
        for order in shuffles(len(labels), buffer, _SIMULATIONS, generator)
    ]
    correlation = np.array([one.correlation for one in seen])
    classes = np.array([one.classes for one in seen])
    return Owed(
        buffer,
        float(abs(correlation.mean()) + _SIGMAS * correlation.std(ddof=1)),
        float(classes.mean() - _SIGMAS * classes.std(ddof=1)),
    )


def shuffles(count: int, buffer: int, times: int, generator: np.random.Generator) -> np.ndarray:
    """Return orders made by a shuffle buffer (int64, times x count).

    Each step gives out one random sample of the buffer and puts the next of the source in its
    place, as tf.data documents it; a buffer of `count` gives a uniform permutation.
    """
    rows = np.arange(times)
    held = np.tile(np.arange(buffer), (times, 1))
    out = np.empty((times, count), np.int64)
    for step in range(count):
        alive = min(buffer, count - step)
        chosen = generator.integers(0, alive, times)
        out[:, step] = held[rows, chosen]
        coming = step + buffer
        held[rows, chosen] = coming if coming < count else held[:, alive - 1]
    return out
