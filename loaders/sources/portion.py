"""A part of a source: its first samples, or those that are held out for the test split."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from loaderproof.loaders.contract import Source
from loaderproof.loaders.sources.arrays import ArraySource, digest
from loaderproof.loaders.sources.error import SourceError

HELD_OUT = 6  # one sample in so many


class Prefix(Source):
    """The first samples of a source, read from it when they are asked for."""

    def __init__(self, source: Source, count: int, name: str) -> None:
        self.source = source
        self.count = count
        self.name = name
        self.image_shape = source.image_shape
        self.num_classes = source.num_classes

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self.source[range(self.count)[index]]

    @cached_property
    def fingerprint(self) -> str:
        return digest(self, self)


def first(source: Source, count: int, name: str | None = None) -> Source:
    """Return a source of the first samples; those of an `ArraySource` share its arrays.

    Args:
        source: where they are taken from.
        count: how many, from 1 to all of them.
        name: of the new source; by default `name[:count]`.

    Raises:
        SourceError: there are not as many samples.
    """
    name = name or f"{source.name}[:{count}]"
    if not 1 <= count <= len(source):
        msg = f"{name}: {source.name} has {len(source)} samples; ask for 1 to {len(source)} of them"
        raise SourceError(msg)
    if isinstance(source, ArraySource):
        return ArraySource(name, source.images[:count], source.labels[:count], source.num_classes)
    return Prefix(source, count, name)


def hold_out(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Share samples that come without a test split out: every sixth is for the test split.

    If there are fewer than six, it is the last.

    Args:
        count: number of samples.

    Returns:
        The indices for `train` and those for `test`, ascending.

    Raises:
        SourceError: one sample cannot be both.
    """
    if count < 2:
        msg = "there is one sample only; it takes at least one to train on and another to test on"
        raise SourceError(msg)
    test = np.arange(HELD_OUT - 1, count, HELD_OUT) if count >= HELD_OUT else np.array([count - 1])
    return np.setdiff1d(np.arange(count), test), test
