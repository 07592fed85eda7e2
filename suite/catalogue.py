"""The samples of a source, to be found again in what a loader delivers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from loaderproof.loaders.contract import Source
from loaderproof.suite.fingerprint import Coverage, Fingerprint, channels_first, mixed, quantised

UNKNOWN = -1
# Root mean square difference, in units of the range, up to which two images count as the same
# sample: far above any rounding or lossy decoding, far below the distance of two samples.
SAME = 0.04
# The same for sorted values, whose places are ignored: two images of a probe come as close as 0.004.
SAME_VALUES = 0.001


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


class Catalogue:
    """All samples of one source.

    Attributes:
        labels: int64, N.
        hashes: uint64, N; the identities of the samples.
    """

    def __init__(self, source: Source) -> None:
        images, self.labels = source.arrays()
        self.pixels = channels_first(images)
        self.fingerprint = Fingerprint(self.pixels[0].size)
        self.hashes = self.fingerprint(self.pixels, self.labels)
        by_pixels = self.fingerprint.of_pixels(self.pixels)
        self._order = np.argsort(by_pixels, kind="stable")
        self._sorted = by_pixels[self._order]

    @property
    def coverage(self) -> Coverage:
        """The coverage of a complete epoch."""
        return Coverage.of(self.hashes)

    def find(self, images: np.ndarray) -> Found:
        """Find each image of a batch: by its exact pixels, else by likeness.

        Likeness ignores the scale of the values, and then also their places, so that a wrong
        scale or layout is not mistaken for a missing sample.

        Args:
            images: float or uint8, (N, ...), of as many values as an image of the source; values
                in [0, 1] (uint8: 0 to 255) if the loader is right.
        """
        count = len(images)
        found = Found(np.full(count, UNKNOWN), np.full(count, np.inf), np.zeros(count, bool))
        if count == 0 or images[0].size != self.pixels[0].size:
            return found
        flat = images.reshape(count, -1)
        self._find_exact(flat, found)
        for row in np.flatnonzero(found.index == UNKNOWN):
            self._find_alike(flat[row], int(row), found)
        self._measure(flat, found)
        return found

    def named(self, images: np.ndarray, ids: np.ndarray) -> Found:
        """Take each image of a batch for the sample whose place in the source it carries.

        Args:
            images: as for `find`.
            ids: int64, N; one that is no place in the source leaves its image unknown.
        """
        places = np.where((ids >= 0) & (ids < len(self.labels)), ids, UNKNOWN).astype(np.int64)
        found = Found(places, np.full(len(ids), np.inf), places != UNKNOWN)
        if len(images) == len(ids) and images[:1].size == self.pixels[0].size:
            self._measure(images.reshape(len(images), -1), found)
        return found

    def _find_exact(self, flat: np.ndarray, found: Found) -> None:
        hashes = self.fingerprint.of_pixels(quantised(flat))
        place = np.minimum(np.searchsorted(self._sorted, hashes), len(self._sorted) - 1)
        index = self._order[place]
        # A value outside the range can wrap around to the right byte; only true values are exact.
        near = np.abs(_as_unit(flat) - self._flat[index]).max(axis=1) <= 1 / 255
        known = (self._sorted[place] == hashes) & near
        found.index[known] = index[known]
        found.placed[known] = True

    def _find_alike(self, image: np.ndarray, row: int, found: Found) -> None:
        finite = np.isfinite(image)
        if not finite.any():
            return
        scaled = _rescaled(image.astype(np.float64))
        every = slice(None) if finite.all() else finite
        for samples, candidate, near, placed in (
            (self._rescaled[:, every], scaled[every], SAME, True),
            (self._ordered, np.sort(scaled), SAME_VALUES, False),
        ):
            distance = np.sqrt(((samples - candidate) ** 2).mean(axis=1))
            nearest = int(distance.argmin())
            if distance[nearest] <= near:
                found.index[row], found.placed[row] = nearest, placed
                return

    def _measure(self, flat: np.ndarray, found: Found) -> None:
        known = found.index != UNKNOWN
        seen, true = _as_unit(flat[known]), self._flat[found.index[known]]
        moved = ~found.placed[known]
        seen[moved], true[moved] = np.sort(seen[moved]), np.sort(true[moved])
        found.error[known] = np.abs(seen - true).max(axis=1) if known.any() else 0.0

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

    @cached_property
    def _flat(self) -> np.ndarray:
        return self.pixels.reshape(len(self.pixels), -1) / 255

    @cached_property
    def _rescaled(self) -> np.ndarray:
        return np.stack([_rescaled(image) for image in self._flat])

    @cached_property
    def _ordered(self) -> np.ndarray:
        return np.sort(self._rescaled, axis=1)


def _times(values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return how often each value is among others."""
    ordered = np.sort(among)
    times: np.ndarray = np.searchsorted(ordered, values, "right") - np.searchsorted(ordered, values, "left")
    return times


def _named(places: list[int], limit: int = 5) -> str:
    return ", ".join(f"#{place}" for place in places[:limit]) + (", ..." if len(places) > limit else "")


def _as_unit(images: np.ndarray) -> np.ndarray:
    return images / 255 if images.dtype == np.uint8 else images.astype(np.float64)


def _rescaled(image: np.ndarray) -> np.ndarray:
    """Return values stretched to [0, 1], whatever their scale; 0 for those that are not finite."""
    finite = np.isfinite(image)
    low, high = image[finite].min(), image[finite].max()
    return np.where(finite, image - low, 0) / (high - low) if high > low else np.zeros_like(image)
