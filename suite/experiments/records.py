"""The samples of data that may be large, to be found again by hashes: no pixel is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from loaderproof.loaders.contract import Source
from loaderproof.suite.experiments.catalogue import SAME, as_unit, rescaled
from loaderproof.suite.experiments.sketch import SKETCHED, Sketch, nearest
from loaderproof.suite.fingerprint import Fingerprint, channels_first, quantised
from loaderproof.suite.identities import UNKNOWN, Found, Identities

# Two passes over the same sample may differ in the last bits, where sums depend on the number of
# threads: in units of the range of all values.
_ROUNDED = 1e-4
_READ_AT_ONCE = 64  # samples


@dataclass
class _Chunks:
    """What is kept of the samples while they are read."""

    images: list[np.ndarray] = field(default_factory=lambda: [np.empty(0, np.uint64)])
    labels: list[np.ndarray] = field(default_factory=lambda: [np.empty(0, np.int64)])
    sketches: list[np.ndarray] = field(default_factory=lambda: [np.empty((0, SKETCHED))])
    ids: list[np.ndarray] = field(default_factory=lambda: [np.empty(0, np.int64)])


class Truth(Identities):
    """All samples of a source, read once; single ones are read again where values have to be compared.

    Args:
        source: the truth.
    """

    def __init__(self, source: Source) -> None:
        height, width, channels = source.image_shape
        self._source = source
        self._rounding = float(getattr(source, "rounding", 0.0))
        self._values = height * width * channels
        self.fingerprint = Fingerprint(self._values)
        self._sketch = Sketch(self._values)
        kept = _Chunks()
        for images, labels in _blocks(source):
            flat = channels_first(images).reshape(len(images), -1)
            kept.images.append(self.fingerprint.of_pixels(flat))
            kept.labels.append(labels)
            kept.sketches.append(self._sketches(flat / 255))
        self._sketched = np.concatenate(kept.sketches)
        super().__init__(np.concatenate(kept.images), np.concatenate(kept.labels))

    def find(self, images: np.ndarray) -> Found:
        """Find each image of a batch: by its exact pixels, else by likeness, whatever its scale."""
        found = Found.nothing(len(images))
        if len(images) and images[0].size == self._values:
            flat = images.reshape(len(images), -1)
            exact = self._measure_exact(flat, found, self._at(self._hash(flat)))
            for row in np.flatnonzero(~exact & np.isfinite(flat).any(axis=1)):
                self._find_alike(flat[row], int(row), found)
        return found

    def named(self, images: np.ndarray, ids: np.ndarray) -> Found:
        """Take each image for the sample whose place it carries; values are compared if the sizes are equal."""
        places = np.where((ids >= 0) & (ids < len(self.labels)), ids, UNKNOWN).astype(np.int64)
        found = Found(places, np.where(places == UNKNOWN, np.inf, 0.0), places != UNKNOWN)
        if len(images) == len(ids) and images[:1].size == self._values:
            flat = images.reshape(len(images), -1)
            same = np.where(self._hash(flat) == self._images[places], places, UNKNOWN)
            exact = self._measure_exact(flat, found, same)
            for row in np.flatnonzero(~exact & (places != UNKNOWN)):
                found.error[row] = np.abs(as_unit(flat[row]) - self._pixels(int(places[row]))).max()
        return found

    def _hash(self, flat: np.ndarray) -> np.ndarray:
        return self.fingerprint.of_pixels(quantised(flat))

    def _measure_exact(self, flat: np.ndarray, found: Found, places: np.ndarray) -> np.ndarray:
        """Note the samples whose pixels are those of the source, and return which they are (bool, N)."""
        # An equal hash says that the rounded values are the true ones.
        error = np.abs(as_unit(flat) - quantised(flat) / 255).max(axis=1)
        exact: np.ndarray = (places != UNKNOWN) & (error <= 1 / 255)
        found.index[exact], found.placed[exact] = places[exact], True
        found.error[exact] = np.maximum(error[exact] - self._rounding, 0)
        return exact

    def _find_alike(self, image: np.ndarray, row: int, found: Found) -> None:
        sketch = self._sketches(image[None].astype(np.float64))
        place = int(nearest(self._sketched, sketch)[0][0])
        true = self._pixels(place)
        if np.sqrt(((rescaled(image.astype(np.float64)) - rescaled(true)) ** 2).mean()) <= SAME:
            found.index[row], found.placed[row] = place, True
            found.error[row] = max(float(np.abs(as_unit(image) - true).max()) - self._rounding, 0.0)

    def _pixels(self, place: int) -> np.ndarray:
        flat: np.ndarray = channels_first(self._source[place][0][None]).reshape(-1) / 255
        return flat

    def _sketches(self, flat: np.ndarray) -> np.ndarray:
        return self._sketch(np.stack([rescaled(image) for image in flat]))


class RawFingerprint(Fingerprint):
    """Hashes images of any values by their very bytes.

    Args:
        values: bytes of one image.
    """

    def read(self, images: np.ndarray) -> np.ndarray:
        flat = np.ascontiguousarray(images).reshape(len(images), -1)
        return flat.view(np.uint8)


Seen = tuple[np.ndarray, np.ndarray, np.ndarray | None]


class FirstPass(Identities):
    """All samples that one pass over a loader delivered, which all other passes are compared with.

    Args:
        batches: images (any dtype), labels (int64, N) and ids (int64, N) of each, or None.

    Attributes:
        image_shape: height, width, channels; of the first batch.
        has_ids: whether every batch carried ids, by which samples are found then.
        fresh, again: samples of a second look, and how many of them the first pass had.
    """

    fingerprint: Fingerprint
    fresh = again = 0

    def __init__(self, batches: Iterable[Seen]) -> None:
        kept = _Chunks()
        self._form: tuple[tuple[int, ...], np.dtype[np.generic]] | None = None
        low, high = np.inf, -np.inf
        for images, labels, ids in batches:
            self._begin(images)
            fitting = len(labels) == len(images) and self._fits(images)
            if not fitting:
                continue  # the tests of shapes and dtypes report it
            hashes, sketches = self._hash(images), self._sketch(images.reshape(len(images), -1))
            kept.images.append(hashes)
            kept.labels.append(labels)
            kept.sketches.append(sketches)
            kept.ids += [] if ids is None else [ids]
            low, high = min(low, float(images.min())), max(high, float(images.max()))
        self._sketched, ids = np.concatenate(kept.sketches), np.concatenate(kept.ids)
        self._allowed = _ROUNDED * max(high - low, 0.0)
        super().__init__(np.concatenate(kept.images), np.concatenate(kept.labels))
        self.has_ids = len(ids) == len(self.labels) > 0
        if self.has_ids:
            self._order_of_ids = np.argsort(ids, kind="stable")
            self._ids = ids[self._order_of_ids]

    @cached_property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels; zeros if nothing came that looks like images."""
        shape = self._form[0] if self._form else ()
        return (shape[1], shape[2], shape[0]) if len(shape) == 3 else (0, 0, 0)

    def find(self, images: np.ndarray) -> Found:
        """Find each image of a batch: by its bytes, else by values that differ in the last bits only."""
        found = Found.nothing(len(images))
        if not self._fits(images) or not len(self.labels):
            return found
        places = self._at(self._hash(images))
        other = np.flatnonzero(places == UNKNOWN)
        if other.size:
            alike, distance = nearest(self._sketched, self._sketch(images[other].reshape(len(other), -1)))
            places[other] = np.where(distance <= self._allowed, alike, UNKNOWN)
        return _as_found(places)

    def named(self, images: np.ndarray, ids: np.ndarray) -> Found:
        """Take each image for the sample that came with its id, if the first pass had ids."""
        if not self.has_ids:
            return self.find(images)
        place = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return _as_found(np.where(self._ids[place] == ids, self._order_of_ids[place], UNKNOWN))

    def look_again(self, batches: Iterable[Seen]) -> None:
        """Count how many samples of a second pass can be found in the first."""
        for images, _, ids in batches:
            found = self.find(images) if ids is None else self.named(images, ids)
            self.fresh += len(found.index)
            self.again += int((found.index != UNKNOWN).sum())

    def _begin(self, images: np.ndarray) -> None:
        if self._form is None and len(images):
            self._form = (images.shape[1:], images.dtype)
            self.fingerprint = RawFingerprint(images[0].nbytes)
            self._sketch = Sketch(images[0].size)

    def _fits(self, images: np.ndarray) -> bool:
        return len(images) > 0 and (images.shape[1:], images.dtype) == self._form

    def _hash(self, images: np.ndarray) -> np.ndarray:
        return self.fingerprint.of_pixels(self.fingerprint.read(images))


def _as_found(places: np.ndarray) -> Found:
    known = places != UNKNOWN
    return Found(places.astype(np.int64), np.where(known, 0.0, np.inf), known)


def _blocks(source: Source) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield images (uint8, NHWC) and labels (int64, N) of a few samples at a time."""
    count = len(source)
    for start in range(0, count, _READ_AT_ONCE):
        pairs = [source[index] for index in range(start, min(start + _READ_AT_ONCE, count))]
        yield np.stack([image for image, _ in pairs]), np.array([label for _, label in pairs], np.int64)


class Unread(Source):
    """What is known of data that only the loader itself can read: how much there is, of which shape."""

    def __init__(self, seen: FirstPass) -> None:
        self.name = "own"
        self.image_shape = seen.image_shape
        self.num_classes = int(seen.labels.max(initial=0)) + 1
        self._count = len(seen.labels)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        msg = "the loader's own data cannot be read without it; name the truth with --loader-data object:FILE.py:NAME"
        raise TypeError(msg)

    @property
    def fingerprint(self) -> str:
        return "own"
