"""A source whose samples lie in memory, and such sources on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from loaderproof.loaders.contract import Source
from loaderproof.loaders.sources.error import SourceError
from loaderproof.loaders.store import DamageError

INDEX = "index.json"


class ArraySource(Source):
    """Samples held as two arrays.

    Args:
        name: what was asked for and which split.
        images: uint8, NHWC.
        labels: any integers, N; kept as int64.
        num_classes: labels must lie in `range(num_classes)`.

    Raises:
        SourceError: the arrays are of other types or shapes, or a label is out of range.
    """

    def __init__(self, name: str, images: np.ndarray, labels: np.ndarray, num_classes: int) -> None:
        if images.dtype != np.uint8 or images.ndim != 4:
            msg = f"{name}: images must be uint8 NHWC, not {images.dtype} with shape {images.shape}"
            raise SourceError(msg)
        if labels.shape != images.shape[:1]:
            msg = f"{name}: {len(images)} images, but labels of shape {labels.shape}; give one to each"
            raise SourceError(msg)
        outside = np.flatnonzero((labels < 0) | (labels >= num_classes))
        if outside.size:
            msg = (
                f"{name}: label {labels[outside[0]]} of sample {outside[0]} is out of range;"
                f" with {num_classes} classes labels lie in 0..{num_classes - 1}"
            )
            raise SourceError(msg)
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
        return digest(self, [(self.images, self.labels)])

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        return self.images.copy(), self.labels.copy()


def digest(source: Source, samples: Iterable[tuple[np.ndarray, np.ndarray | int]]) -> str:
    """Return the fingerprint of a source, whatever way its samples are held.

    Args:
        source: for its length, image shape and number of classes.
        samples: images (uint8, HWC) with their labels, or blocks of both, in order.
    """
    shape = (len(source), *source.image_shape)
    state = xxhash.xxh3_128(repr((shape, source.num_classes)).encode())
    labels = []
    for images, some in samples:
        state.update(np.ascontiguousarray(images).data)
        labels.append(some)
    state.update(np.hstack(labels).astype("<i8").data)
    return state.hexdigest()


def write_arrays(directory: Path, sources: Mapping[str, ArraySource]) -> None:
    """Write each split's arrays, and what is needed to tell later whether they are whole."""
    index = {}
    for split, source in sources.items():
        np.save(directory / f"{split}-images.npy", source.images)
        np.save(directory / f"{split}-labels.npy", source.labels)
        index[split] = {"num_classes": source.num_classes, "fingerprint": source.fingerprint}
    (directory / INDEX).write_text(json.dumps(index))


def read_arrays(directory: Path, name: str) -> dict[str, Source]:
    """Read what `write_arrays` wrote.

    Args:
        directory: where it was written.
        name: what was asked for.

    Raises:
        DamageError: a file is missing or has other content than was written.
    """
    try:
        index = json.loads((directory / INDEX).read_text())
        return {split: _read_split(directory, split, name, facts) for split, facts in index.items()}
    except (OSError, ValueError, EOFError, LookupError, TypeError, AttributeError) as error:
        msg = f"{directory}: {error}"
        raise DamageError(msg) from error


def _read_split(directory: Path, split: str, name: str, facts: Mapping[str, Any]) -> ArraySource:
    images, labels = (np.load(directory / f"{split}-{part}.npy") for part in ("images", "labels"))
    source = ArraySource(f"{name}/{split}", images, labels, facts["num_classes"])
    if source.fingerprint != facts["fingerprint"]:
        msg = f"the samples of {source.name} have another fingerprint than was written"
        raise DamageError(msg)
    return source
