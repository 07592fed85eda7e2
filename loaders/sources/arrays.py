"""A source whose samples lie in memory."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import xxhash

from loaderproof.loaders.contract import Source


class ArraySource(Source):
    """Samples held as two arrays.

    Args:
        name: what was asked for and which split.
        images: uint8, NHWC.
        labels: any integers, N; kept as int64.
        num_classes: labels must lie in `range(num_classes)`.

    Raises:
        ValueError: the arrays are of other types or shapes, or a label is out of range.
    """

    def __init__(self, name: str, images: np.ndarray, labels: np.ndarray, num_classes: int) -> None:
        if images.dtype != np.uint8 or images.ndim != 4:
            msg = f"{name}: images must be uint8 NHWC, not {images.dtype} with shape {images.shape}"
            raise ValueError(msg)
        if labels.shape != images.shape[:1]:
            msg = f"{name}: {len(images)} images, but labels of shape {labels.shape}; one label for each image"
            raise ValueError(msg)
        outside = np.flatnonzero((labels < 0) | (labels >= num_classes))
        if outside.size:
            msg = (
                f"{name}: label {labels[outside[0]]} of sample {outside[0]} is out of range;"
                f" with {num_classes} classes labels lie in 0..{num_classes - 1}"
            )
            raise ValueError(msg)
        self.name = name
        self.images = images
        self.labels = labels.astype(np.int64)
        self.image_shape = images.shape[1:]
        self.num_classes = num_classes

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self.images[index], int(self.labels[index])

    @cached_property
    def fingerprint(self) -> str:
        digest = xxhash.xxh3_128(repr((self.images.shape, self.num_classes)).encode())
        digest.update(np.ascontiguousarray(self.images))
        digest.update(np.ascontiguousarray(self.labels))
        return digest.hexdigest()

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        return self.images.copy(), self.labels.copy()

    def first(self, count: int) -> ArraySource:
        """Return a source of the first samples."""
        return ArraySource(f"{self.name}[:{count}]", self.images[:count], self.labels[:count], self.num_classes)
