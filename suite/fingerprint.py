"""The identity of a sample: a 64-bit hash of its quantised pixels and its label.

With it no loader needs to carry ids, and coverage needs no memory: the hashes of an epoch are
summed and compared with the sum over the source, in any order and over any number of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_FOLD = np.uint64(32)
# 2^64 divided by the golden ratio: odd, and without a pattern that pixels could have.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


def mix(words: Words) -> Words:
    """Return uint64 words scrambled, one to one.

    The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
    generators", OOPSLA 2014).
    """
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def mixed(images: Words, labels: np.ndarray) -> Words:
    """Return the hash of each sample from those of its pixels (uint64) and its label (integer)."""
    return mix(images ^ mix(labels.astype(np.int64).view(np.uint64) + np.uint64(1)))


class Fingerprint:
    """Hashes batches of images of one size.

    Multiply-sum hashing with odd random keys (after Dietzfelbinger et al., "A reliable
    randomized algorithm for the closest-pair problem", J. Algorithms 1997), and mixed at the end.
    Each word is spread and folded first, so that its upper bytes reach the lower half: of a word
    that is only folded, an image with a pattern of four pixels leaves nothing there.

    Attributes:
        values: number of values in one image, in all channels.
    """

    def __init__(self, values: int) -> None:
        self.values = values
        self._words = -(-values // 8)
        generator = np.random.default_rng(20261130)
        self._keys = generator.integers(0, 2**64, self._words, np.uint64) | np.uint64(1)

    def __call__(self, pixels: np.ndarray, labels: np.ndarray) -> Words:
        """Return the uint64 hash of each sample.

        Args:
            pixels: uint8 of shape (N, ...), channels first.
            labels: integers of shape (N,).
        """
        return mixed(self.of_pixels(pixels), labels)

    def of_pixels(self, pixels: np.ndarray) -> Words:
        """Return the uint64 hash of each image alone."""
        return mix(self.sums(pixels))

    def read(self, images: np.ndarray) -> NDArray[np.uint8]:
        """Return the bytes of delivered images that are hashed: N x values."""
        return quantised(images).reshape(len(images), -1 if images.size else self.values)

    def sums(self, pixels: np.ndarray) -> Words:
        """Return the hashes before they are mixed, which is quicker done for many batches at once."""
        words = self._as_words(pixels.reshape(len(pixels), self.values))
        words = words * _SPREAD
        words ^= words >> _FOLD
        words *= self._keys
        summed: Words = words.sum(axis=1, dtype=np.uint64)
        return summed

    def _as_words(self, flat: np.ndarray) -> Words:
        if self.values % 8:
            flat = np.pad(flat, ((0, 0), (0, self._words * 8 - self.values)))
        return np.ascontiguousarray(flat).view(np.uint64)


def quantised(images: np.ndarray) -> NDArray[np.uint8]:
    """Return images with values in [0, 1] as uint8; uint8 images as they are."""
    if images.dtype == np.uint8:
        return images
    if images.dtype.kind != "f":
        images = images.astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = images * images.dtype.type(255)
        pixels: NDArray[np.uint8] = np.rint(scaled, out=scaled).astype(np.uint8)
    return pixels


def channels_first(pixels: np.ndarray) -> np.ndarray:
    """Return NHWC pixels as NCHW."""
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))


@dataclass(frozen=True)
class Coverage:
    """Which samples came, in constant memory: their number and the sum of their hashes.

    Coverages of several batches, epochs or ranks add up.
    """

    count: int = 0
    total: int = 0

    @classmethod
    def of(cls, hashes: np.ndarray) -> Coverage:
        """Return the coverage of samples with these hashes (uint64)."""
        return cls(len(hashes), int(hashes.sum(dtype=np.uint64)))

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(self.count + other.count, (self.total + other.total) % 2**64)
