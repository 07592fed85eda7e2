"""The samples of a source that lies in memory, to be found again in what a loader delivers."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from loaderproof.loaders.contract import Source
from loaderproof.suite.fingerprint import Fingerprint, channels_first, quantised
from loaderproof.suite.identities import UNKNOWN, Found, Identities

# Root mean square difference, in units of the range, up to which two images count as the same
# sample: far above any rounding or lossy decoding, far below the distance of two samples.
SAME = 0.04
# The same for sorted values, whose places are ignored: two images of a probe come as close as 0.004.
SAME_VALUES = 0.001


class Catalogue(Identities):
    """All samples of one source, with their pixels."""

    def __init__(self, source: Source) -> None:
        images, labels = source.arrays()
        self.pixels = channels_first(images)
        self.fingerprint = Fingerprint(self.pixels[0].size)
        super().__init__(self.fingerprint.of_pixels(self.pixels), labels)

    def find(self, images: np.ndarray) -> Found:
        """Find each image of a batch: by its exact pixels, else by likeness.

        Likeness ignores the scale of the values, and then also their places, so that a wrong
        scale or layout is not mistaken for a missing sample.

        Args:
            images: float or uint8, (N, ...), of as many values as an image of the source; values
                in [0, 1] (uint8: 0 to 255) if the loader is right.
        """
        count = len(images)
        found = Found.nothing(count)
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
        index = self._at(self.fingerprint.of_pixels(quantised(flat)))
        # A value outside the range can wrap around to the right byte; only true values are exact.
        near = np.abs(as_unit(flat) - self._flat[index]).max(axis=1) <= 1 / 255
        known = (index != UNKNOWN) & near
        found.index[known] = index[known]
        found.placed[known] = True

    def _find_alike(self, image: np.ndarray, row: int, found: Found) -> None:
        finite = np.isfinite(image)
        if not finite.any():
            return
        scaled = rescaled(image.astype(np.float64))
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
        seen, true = as_unit(flat[known]), self._flat[found.index[known]]
        moved = ~found.placed[known]
        seen[moved], true[moved] = np.sort(seen[moved]), np.sort(true[moved])
        found.error[known] = np.abs(seen - true).max(axis=1) if known.any() else 0.0

    @cached_property
    def _flat(self) -> np.ndarray:
        return self.pixels.reshape(len(self.pixels), -1) / 255

    @cached_property
    def _rescaled(self) -> np.ndarray:
        return np.stack([rescaled(image) for image in self._flat])

    @cached_property
    def _ordered(self) -> np.ndarray:
        return np.sort(self._rescaled, axis=1)


def as_unit(images: np.ndarray) -> np.ndarray:
    """Return values in units of the range, as float64 (uint8: by 255)."""
    return images / 255 if images.dtype == np.uint8 else images.astype(np.float64)


def rescaled(image: np.ndarray) -> np.ndarray:
    """Return values stretched to [0, 1], whatever their scale; 0 for those that are not finite."""
    finite = np.isfinite(image)
    low, high = image[finite].min(), image[finite].max()
    return np.where(finite, image - low, 0) / (high - low) if high > low else np.zeros_like(image)
