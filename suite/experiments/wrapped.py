"""A source around another one, to be changed in one respect."""

from __future__ import annotations

import numpy as np

from loaderproof.loaders.contract import Source


class Wrapped(Source):
    """The samples of another source, under its name.

    Args:
        source: the samples.
    """

    def __init__(self, source: Source) -> None:
        self.name, self.image_shape, self.num_classes = source.name, source.image_shape, source.num_classes
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self._source[index]

    def key(self, index: int) -> str:
        return self._source.key(index)

    @property
    def fingerprint(self) -> str:
        return self._source.fingerprint
