"""Loaders whose samples come in a wrong order."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Iterator

import numpy as np
from honest import WITH_WORKERS, Honest, fails, through_buffer
from torch import Tensor

from loaderproof.loaders import Request, Source

UNSHUFFLED = "test_unshuffled_order_is_source_order"
SHUFFLED = "test_shuffled_order_differs_from_source_order"
EACH_EPOCH = "test_every_epoch_has_its_own_order"
SAME_SEED = "test_same_seed_gives_the_same_orders"
ANOTHER_SEED = "test_another_seed_gives_another_order"
WIDE = "test_shuffle_is_as_wide_as_promised"
PATTERN = "test_epochs_share_no_pattern"


def drawn(places: list[int], *seed: int) -> list[int]:
    """Return places in the order that some numbers decide."""
    return np.random.default_rng(seed).permutation(places).tolist()


@fails(UNSHUFFLED)
class AlwaysShuffled(Honest):
    """Shuffles, whether it is asked to or not."""

    def order(self) -> list[int]:
        return self.permutation()


@fails(UNSHUFFLED)
class NamesSortedAsText(Honest):
    """Sample 10 comes before sample 2."""

    def order(self) -> list[int]:
        return super().order() if self.request.shuffle else sorted(range(len(self.source)), key=str)


@fails(UNSHUFFLED, rows=["B11"], promises=WITH_WORKERS)
class WorkersDrainedInTurn(Honest):
    """Every worker has each second sample, and what the first has comes first."""

    def order(self) -> list[int]:
        order, workers = super().order(), max(1, self.request.num_workers)
        return [place for worker in range(workers) for place in order[worker::workers]]


@fails(UNSHUFFLED, rows=["B10"])
class EpochSampledAnew(Honest):
    """Each epoch after the first is drawn anew, though it was not to be shuffled."""

    def order(self) -> list[int]:
        order = super().order()
        return order if self.request.shuffle or self.epoch == 0 else drawn(order, self.epoch)


@fails(SHUFFLED)
class NeverShuffled(Honest):
    """Takes no notice of shuffle."""

    def order(self) -> list[int]:
        return list(range(len(self.source)))


@fails(SHUFFLED)
class FirstEpochNotShuffled(Honest):
    """Shuffles at the end of an epoch, for the next."""

    def permutation(self) -> list[int]:
        return super().permutation() if self.epoch else list(range(len(self.source)))


@fails(EACH_EPOCH, rows=["B1"])
class SameOrderEachEpoch(Honest):
    """Makes its generator anew for each epoch."""

    def permutation(self) -> list[int]:
        self.generator.manual_seed(self.request.seed)
        return super().permutation()


@fails(EACH_EPOCH, rows=["B2"])
class BatchesFrozen(Honest):
    """Keeps the batches of the first epoch, and shuffles those that are full."""

    frozen: list[list[int]] | None = None

    def batches(self, places: list[int]) -> list[list[int]]:
        batches = super().batches(places)
        if not self.request.shuffle or self.epoch < 0:
            return batches
        self.frozen = self.frozen or batches
        *full, last = self.frozen
        return [*(full[place] for place in drawn(range(len(full)), self.epoch)), last]


@fails(EACH_EPOCH)
class TwoOrdersInTurn(Honest):
    """The third epoch comes in the order of the first."""

    def permutation(self) -> list[int]:
        self.generator.manual_seed(1_000 * self.request.seed + self.epoch % 2)
        return super().permutation()


@fails(EACH_EPOCH, rows=["B6", "B9"])
class EpochCountedInACopy(Honest):
    """The copy that a worker got counts the epochs, and so does each new copy."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        worker = copy.copy(self)
        worker.generator = self.generator.clone_state()
        return Honest.__iter__(worker)


@fails(SAME_SEED, rows=["J4"], promises=WITH_WORKERS)
class SeedForWorkersOnly(Honest):
    """The seed arrives in workers, and without them nowhere."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        if request.num_workers == 0:
            self.generator.seed()


@fails(SAME_SEED)
class SeedForFirstEpochOnly(Honest):
    """The first epoch follows the seed, the others chance."""

    def permutation(self) -> list[int]:
        order = super().permutation()
        return order if self.epoch == 0 else drawn(order, int.from_bytes(os.urandom(8)))


@fails(SAME_SEED)
class TurnsRaced(Honest):
    """Samples that are loaded at the same time change places, as the threads come."""

    def permutation(self) -> list[int]:
        chance = random.SystemRandom()
        turns = sorted(range(len(self.source)), key=lambda turn: turn // 8 + chance.random())
        order = super().permutation()
        return [order[turn] for turn in turns]


@fails(ANOTHER_SEED)
class SeedConstant(Honest):
    """Shuffles as if the seed were 42."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.generator.manual_seed(42)


class Narrow(Honest):
    """Shuffles through a buffer."""

    size: int

    def permutation(self) -> list[int]:
        random = np.random.default_rng((self.request.seed, self.epoch))
        return through_buffer(range(len(self.source)), self.size, random)


@fails(WIDE, rows=["B4"])
class NarrowBuffer(Narrow):
    """Shuffles through a buffer of 32 samples."""

    size = 32


@fails(WIDE, rows=["B4"])
class HalfTheBuffer(Narrow):
    """Shuffles through a buffer of half the data."""

    size = 500


@fails(WIDE)
class FilesShuffled(Honest):
    """Shuffles files of 20 samples, and then samples through a narrow buffer."""

    def permutation(self) -> list[int]:
        random = np.random.default_rng((self.request.seed, self.epoch))
        files = random.permutation(-(-len(self.source) // 20))
        places = [place for file in files for place in range(20 * file, 20 * file + 20)]
        return through_buffer([place for place in places if place < len(self.source)], 32, random)


@fails(WIDE)
class RandomStart(Honest):
    """Starts anywhere, and goes round."""

    def permutation(self) -> list[int]:
        count = len(self.source)
        start = 1 + (7 * self.request.seed + 5 * self.epoch) % max(1, count - 1)
        return [(start + place) % count for place in range(count)]


@fails(EACH_EPOCH, WIDE, "test_drop_last")
class ShuffledInBatches(Honest):
    """Shuffles each batch in itself."""

    def permutation(self) -> list[int]:
        places, size = list(range(len(self.source))), self.request.batch_size
        chunks = (places[start : start + size] for start in range(0, len(places), size))
        return [place for chunk in chunks for place in drawn(chunk, self.request.seed, self.epoch, *chunk)]


@fails(EACH_EPOCH, ANOTHER_SEED, WIDE)
class Backwards(Honest):
    """Comes in the opposite order, which is no random one."""

    def permutation(self) -> list[int]:
        return list(reversed(range(len(self.source))))


@fails(ANOTHER_SEED)
class KeepsSixteenBitsOfTheSeed(Honest):
    """Draws from a part of the seed."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.generator.manual_seed(request.seed % 2**16)


@fails(PATTERN)
class Rolled(Honest):
    """Draws one order, and begins elsewhere in it in each epoch."""

    def permutation(self) -> list[int]:
        count = len(self.source)
        order = drawn(range(count), self.request.seed)
        start = 5 * self.epoch % max(1, count)
        return order[start:] + order[:start]


@fails(PATTERN)
class NeighboursStayTogether(Honest):
    """Draws pairs once, and shuffles the pairs in each epoch."""

    def permutation(self) -> list[int]:
        order = drawn(range(len(self.source)), self.request.seed)
        pairs = [order[start : start + 2] for start in range(0, len(order), 2)]
        turns = drawn(range(len(pairs)), self.request.seed, max(0, self.epoch))
        return [place for turn in turns for place in pairs[turn]]


@fails(PATTERN)
class FirstStaysFirst(Honest):
    """Shuffles all samples but the first."""

    def permutation(self) -> list[int]:
        return [0, *(place for place in super().permutation() if place != 0)]
