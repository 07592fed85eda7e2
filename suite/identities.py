"""Which samples a source holds, told by hashes alone: how often each is owed, and what is missing."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from loaderproof.suite.fingerprint import Coverage, mixed

UNKNOWN = -1


@dataclass
class Found:
    """Which samples a batch holds.

    Attributes:
        index: int64, N; place of each sample in the source, or UNKNOWN.
        error: float64, N; largest difference of a value from the source, wherever it lies.
        placed: bool, N; whether each pixel lies where it lay in the source.
    """

    index: np.ndarray
    error: np.ndarray
    placed: np.ndarray

    @classmethod
    def nothing(cls, count: int) -> Found:
        """Return what a batch of so many unknown samples holds."""
        return cls(np.full(count, UNKNOWN), np.full(count, np.inf), np.zeros(count, bool))


@dataclass
class Difference:
    """How an epoch differs from its source.

    Attributes:
        missing, repeated: places in the source, each named once.
        mislabelled: places in the source of images that came with another label.
        foreign: how many samples came that are not in the source.
    """

    missing: list[int]
    repeated: list[int]
    mislabelled: list[int]
    foreign: int

    def __str__(self) -> str:
        kinds = {"missing": self.missing, "repeated": self.repeated, "mislabelled": self.mislabelled}
        parts = [f"{len(places)} {kind}: {_named(places)}" for kind, places in kinds.items() if places]
        parts += [f"{self.foreign} that are not in the source"] if self.foreign else []
        return "; ".join(parts) or "a second pass was complete"


class Identities:
    """The samples of one source by their hashes.

    Real data hold some samples more than once. Those cannot be told apart, so the first of equal
    ones stands for all, and is owed as often as they are there.

    Args:
        images: uint64, N; hash of each image.
        labels: int64, N.

    Attributes:
        labels: int64, N.
        hashes: uint64, N; the identities of the samples.
        owed: int64, N; how often the sample at each place is owed: 0 where another stands for it.
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.labels = labels
        self.hashes = mixed(images, labels)
        self._images = images
        self._order = np.argsort(images, kind="stable")
        self._sorted = images[self._order]
        self._pairs, first, which = np.unique(self.hashes, return_index=True, return_inverse=True)
        self._first = first
        self._canonical = first[which.reshape(-1)]
        self.owed = np.bincount(self._canonical, minlength=len(labels))

    @property
    def coverage(self) -> Coverage:
        """The coverage of a complete epoch."""
        return Coverage.of(self.hashes)

    def settled(self, index: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the places that stand for the samples of a batch.

        Args:
            index: int64, N; places of their images, or UNKNOWN.
            labels: int64, N; as they came: of equal images with different labels they tell which is meant.
        """
        places = index.copy()
        known = np.flatnonzero(index != UNKNOWN)
        places[known] = self._canonical[index[known]]
        if len(labels) == len(index) and known.size:
            pairs = mixed(self._images[index[known]], labels[known])
            where = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
            there = self._pairs[where] == pairs
            places[known[there]] = self._first[where[there]]
        return places

    def has(self, images: np.ndarray) -> np.ndarray:
        """Tell which of some hashes of images (uint64, N) are in the source (bool, N)."""
        there: np.ndarray = self._at(images) != UNKNOWN
        return there

    def balanced(self, index: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the places of a whole epoch's samples, with each wrong label at a sample that is still owed.

        Of equal images that differ in their labels alone, nothing else tells which of them got a wrong one.

        Args:
            index: int64, N; as `settled` returned them.
            labels: int64, N; as they came.
        """
        if len(index) != len(labels):
            return index
        places, known = index.copy(), index != UNKNOWN
        right = known & (labels == self.labels[index]) if len(self.labels) else known
        short = self.owed - np.bincount(index[right], minlength=len(self.owed))
        for row in np.flatnonzero(known & ~right):
            alike = self._alike(index[row])
            still = alike[short[alike] > 0]
            places[row] = still[0] if still.size else index[row]
            short[places[row]] -= 1
        return places

    def _alike(self, place: int) -> np.ndarray:
        """Return the places of all images that are equal to one."""
        image = self._images[place]
        low, high = (int(np.searchsorted(self._sorted, image, side)) for side in ("left", "right"))
        return self._order[low:high]

    def images_at(self, index: np.ndarray) -> np.ndarray:
        """Return the hashes of the images at some places (uint64, N); of what is UNKNOWN one that nothing has."""
        if not len(self._images):
            return np.zeros(len(index), np.uint64)
        return np.where(index == UNKNOWN, self._nobody, self._images[index])

    @cached_property
    def _nobody(self) -> np.uint64:
        there = set(self._images.tolist())
        return np.uint64(next(value for value in itertools.count(1) if value not in there))

    def _at(self, hashes: np.ndarray) -> np.ndarray:
        """Return the first place of each image with such a hash (uint64, N), or UNKNOWN."""
        if not len(self._sorted):
            return np.full(len(hashes), UNKNOWN)
        place = np.minimum(np.searchsorted(self._sorted, hashes), len(self._sorted) - 1)
        return np.where(self._sorted[place] == hashes, self._order[place], UNKNOWN)

    def compare(self, images: np.ndarray, labels: np.ndarray) -> Difference:
        """Name the differences between the source and what came in one epoch.

        Args:
            images: uint64 hashes of the pixels of each sample that came.
            labels: int64, their labels.
        """
        true = np.unique(self._sorted)
        first = self._order[np.searchsorted(self._sorted, true)]
        more = _times(true, images) - _times(true, self._sorted)
        pairs, where = np.unique(mixed(images, labels), return_index=True)
        owed, pictures = _times(pairs, self.hashes), images[where]
        in_excess = (_times(pairs, mixed(images, labels)) > owed) & np.isin(pictures, true)
        # The right label in excess is a repetition, unless the image came no more often than owed.
        wrong = in_excess & ((owed == 0) | np.isin(pictures, true[more <= 0]))
        return Difference(
            np.sort(first[more < 0]).tolist(),
            np.sort(first[more > 0]).tolist(),
            np.sort(first[np.isin(true, pictures[wrong])]).tolist(),
            int((~np.isin(images, true)).sum()),
        )


def _times(values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return how often each value is among others."""
    ordered = np.sort(among)
    times: np.ndarray = np.searchsorted(ordered, values, "right") - np.searchsorted(ordered, values, "left")
    return times


def _named(places: list[int], limit: int = 5) -> str:
    return ", ".join(f"#{place}" for place in places[:limit]) + (", ..." if len(places) > limit else "")
