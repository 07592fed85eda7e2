"""Loaders that do as they should in one process, and in another or not."""

from __future__ import annotations

import os

import numpy as np
from honest import Honest, fails
from resumable import RESUMING, Resumable

ANOTHER_PROCESS = "test_same_seed_gives_the_same_orders_in_another_process"
OF_THIS_PROCESS = int.from_bytes(os.urandom(4))


@fails("test_resumes_in_a_fresh_process", ANOTHER_PROCESS, rows=["I1"], promises=RESUMING)
class ShufflesByTheProcess(Resumable):
    """Shuffles with a number that each process draws once, as `hash()` of a text does."""

    def permutation(self) -> list[int]:
        rng = np.random.default_rng((OF_THIS_PROCESS, self.request.seed, self.epoch))
        return rng.permutation(len(self.source)).tolist()


@fails(promises=RESUMING)
class ShufflesByTheSeed(Resumable):
    """Shuffles with the seed and the epoch, whatever the process."""


@fails(ANOTHER_PROCESS)
class ShufflesByHash(Honest):
    """Makes a seed with `hash()` of a text, which is another in each process."""

    def permutation(self) -> list[int]:
        seed = hash(("train", self.request.seed, self.epoch)) % 2**32
        return np.random.default_rng(seed).permutation(len(self.source)).tolist()
