"""Loaders that go on from their state in the process where it was taken, and in another or not."""

from __future__ import annotations

import os

import numpy as np
from honest import fails
from resumable import RESUMING, Resumable

OF_THIS_PROCESS = int.from_bytes(os.urandom(4))


@fails("test_resumes_in_a_fresh_process", rows=["I1"], promises=RESUMING)
class ShufflesByTheProcess(Resumable):
    """Shuffles with a number that each process draws once, as `hash()` of a text does."""

    def permutation(self) -> list[int]:
        rng = np.random.default_rng((OF_THIS_PROCESS, self.request.seed, self.epoch))
        return rng.permutation(len(self.source)).tolist()


@fails(promises=RESUMING)
class ShufflesByTheSeed(Resumable):
    """Shuffles with the seed and the epoch, whatever the process."""
