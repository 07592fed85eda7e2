"""A source that is slow now and then, so that whoever reads several samples at once gets them in another order."""

from __future__ import annotations

import secrets
import time

import numpy as np

from loaderproof.loaders.contract import Source
from loaderproof.suite.experiments.wrapped import Wrapped

# Of few samples more are slow: of twelve, with one in two, all but the last ones are quick in one epoch
# of 315 (13 / 2**12), and only then nothing shows.
_ONE_IN, _ONE_IN_FEW, _FEW = 8, 2, 32
_PAUSE_S = 0.004


class Jittery(Wrapped):
    """The same samples; reading one takes a moment longer, by chance and whatever the seed.

    Args:
        source: the samples.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._one_in = _ONE_IN_FEW if len(source) <= _FEW else _ONE_IN

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        if secrets.randbelow(self._one_in) == 0:
            time.sleep(_PAUSE_S)
        return super().__getitem__(index)
