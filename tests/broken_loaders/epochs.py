"""Loaders that deliver too little, too much, or the wrong number of batches."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import torch
from honest import DATA, NO_WORKERS, WITH_WORKERS, Honest, fails
from torch import Tensor

from loaderproof.loaders import Promise, Request, Source

Batch = tuple[Tensor, Tensor]

# A fault that chance makes different each time shows in the second epoch anew.
EVERY_EPOCH = (
    "test_every_sample_once",
    "test_second_epoch_is_complete",
    "test_new_pass_after_a_break_is_complete",
)


@fails("test_every_pass_ends", DATA, rows=["C9"], promises=NO_WORKERS - {Promise.DROP_LAST})
class Endless(Honest):
    """Begins again where the epoch should end."""

    def __iter__(self) -> Iterator[Batch]:
        while True:
            yield from super().__iter__()


@fails("test_every_pass_ends", promises=NO_WORKERS - {Promise.DROP_LAST})
class EndlessSecondEpoch(Honest):
    """Does not stop the second time, since it counts all batches ever."""

    def __iter__(self) -> Iterator[Batch]:
        yield from super().__iter__()
        while self.epoch > 0:
            yield from super().__iter__()


@fails("test_every_sample_once", DATA)
class RestDropped(Honest):
    """The samples that do not fill a batch are left out, though nobody asked for it."""

    def batches(self, places: list[int]) -> list[list[int]]:
        return [batch for batch in super().batches(places) if len(batch) == self.request.batch_size]


@fails("test_every_sample_once", DATA, rows=["C24"])
class RestFilledUp(Honest):
    """The last batch is filled up with the first samples."""

    def order(self) -> list[int]:
        order = super().order()
        full = [] if self.request.drop_last else itertools.cycle(order)
        return order + list(itertools.islice(full, -len(order) % self.request.batch_size))


@fails("test_every_sample_once", DATA)
class RestPadded(Honest):
    """The last batch is filled up with zeros."""

    def batch(self, places: list[int]) -> Batch:
        images, labels = super().batch(places)
        padded = images.new_zeros(self.request.batch_size, *images.shape[1:])
        padded[: len(images)] = images
        return padded, torch.nn.functional.pad(labels, (0, len(padded) - len(labels)))


@fails(*EVERY_EPOCH, DATA, rows=["C8"])
class DrawnWithReplacement(Honest):
    """A shuffled epoch is as long as the data, but some samples come twice and some never."""

    def permutation(self) -> list[int]:
        return torch.randint(len(self.source), (len(self.source),), generator=self.generator).tolist()


@fails(*EVERY_EPOCH, DATA, rows=["C10"])
class EpochsMixed(Honest):
    """The shuffle buffer reads on into the next epoch, and epochs are cut out of what it gives."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.coming = itertools.cycle(range(len(source)))
        self.held = list(itertools.islice(self.coming, len(source)))

    def permutation(self) -> list[int]:
        return [self.next() for _ in self.held]

    def next(self) -> int:
        """Return a place out of the buffer, and fill it up."""
        chosen = int(torch.randint(len(self.held), (), generator=self.generator))
        place, self.held[chosen] = self.held[chosen], next(self.coming)
        return place


@fails("test_every_sample_once", "test_drop_last", DATA, rows=["C6"], promises=NO_WORKERS - {Promise.LENGTH})
class QueueNotDrained(Honest):
    """What is still in the queue when the source ends is lost."""

    def __iter__(self) -> Iterator[Batch]:
        batches = super().__iter__()
        ahead = list(itertools.islice(batches, 2))
        for batch in batches:
            yield ahead.pop(0)
            ahead.append(batch)


@fails("test_every_sample_once", "test_drop_last", DATA, promises=NO_WORKERS - {Promise.LENGTH})
class LastLeftOut(Honest):
    """The range ends one too early."""

    def order(self) -> list[int]:
        return [place for place in super().order() if place + 1 < len(self.source)]


@fails("test_every_sample_once", DATA, rows=["C20"])
class NeighbourTwice(Honest):
    """A sample is thought unreadable, and its neighbour comes in its place."""

    def sample(self, place: int) -> tuple[Tensor, int]:
        return super().sample(1 if place == 0 and len(self.source) > 1 else place)


@fails("test_every_sample_once", DATA)
class PlacesInAByte(Honest):
    """Places are kept in 8 bits, which is enough for the smallest probes."""

    def sample(self, place: int) -> tuple[Tensor, int]:
        return super().sample(place % 256)


@fails("test_second_epoch_is_complete", "test_new_pass_after_a_break_is_complete", rows=["C28"])
class OneEpochForAll(Honest):
    """Keeps one generator, which is empty the second time."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.only = super().__iter__()

    def __iter__(self) -> Iterator[Batch]:
        return self.only


@fails("test_second_epoch_is_complete")
class FirstBatchTaken(Honest):
    """A look ahead at the end of an epoch takes the first batch of the next."""

    def batches(self, places: list[int]) -> list[list[int]]:
        return super().batches(places)[self.epoch > 0 :]


@fails("test_new_pass_after_a_break_is_complete", rows=["C29"])
class SharedCursor(Honest):
    """A new pass goes on where the last one was left."""

    going: Iterator[Batch] | None = None

    def __iter__(self) -> Iterator[Batch]:
        self.going = self.going or super().__iter__()
        for batch in self.going:  # noqa: UP028  # yield from would close it with this pass
            yield batch
        self.going = None


@fails("test_new_pass_after_a_break_is_complete", rows=["C30"])
class DeadAfterBreak(Honest):
    """Leaving an epoch early shuts the loader down."""

    down = False

    def __iter__(self) -> Iterator[Batch]:
        if self.down:
            raise RuntimeError("the loader is shut down")
        try:
            yield from super().__iter__()
        except BaseException:
            self.down = True
            raise


@fails("test_new_pass_after_a_break_is_complete", "test_drop_last", rows=["C32"])
class HalfACache(Honest):
    """Takes what the first pass read for everything that there is, even if that pass was left early."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.cached: set[int] = set()
        self.closed = False

    def __iter__(self) -> Iterator[Batch]:
        try:
            yield from super().__iter__()
        finally:
            self.closed = True

    def order(self) -> list[int]:
        return [place for place in super().order() if not self.closed or place in self.cached]

    def sample(self, place: int) -> tuple[Tensor, int]:
        self.cached.add(place)
        return super().sample(place)


@fails("test_batch_sizes")
class HalfBatches(Honest):
    """Batches are half as large as asked for."""

    def batches(self, places: list[int]) -> list[list[int]]:
        whole, half = super().batches(places), max(1, self.request.batch_size // 2)
        if self.request.drop_last:
            return whole
        return [part for batch in whole for part in (batch[:half], batch[half:]) if part]


@fails("test_batch_sizes")
class RestFirst(Honest):
    """The batch that is not full comes first."""

    def batches(self, places: list[int]) -> list[list[int]]:
        rest = 0 if self.request.drop_last else len(places) % self.request.batch_size
        return ([places[:rest]] if rest else []) + super().batches(places[rest:])


@fails("test_batch_sizes", rows=["D4"], promises=WITH_WORKERS)
class RestInEachWorker(Honest):
    """Each worker batches its own share, and comes to a rest of its own."""

    def batches(self, places: list[int]) -> list[list[int]]:
        if self.request.drop_last:
            return super().batches(places)
        share = -(-len(places) // max(1, self.request.num_workers))
        shares = (places[start : start + share] for start in range(0, len(places), share))
        return [batch for places in shares for batch in Honest.batches(self, places)]


@fails("test_drop_last")
class RestKept(Honest):
    """The rest comes, though it was to be dropped."""

    def batches(self, places: list[int]) -> list[list[int]]:
        size = self.request.batch_size
        return [places[start : start + size] for start in range(0, len(places), size)]


@fails("test_drop_last", rows=["C3", "D2"], promises=WITH_WORKERS)
class RestDroppedInEachWorker(Honest):
    """Each worker drops the rest of its own share."""

    def batches(self, places: list[int]) -> list[list[int]]:
        if not self.request.drop_last:
            return super().batches(places)
        share = -(-len(places) // max(1, self.request.num_workers))
        shares = (places[start : start + share] for start in range(0, len(places), share))
        return [batch for places in shares for batch in Honest.batches(self, places)]


@fails("test_len_counts_batches", rows=["D1"])
class LengthInSamples(Honest):
    """len() counts samples."""

    def __len__(self) -> int:
        return len(self.source)


@fails("test_len_counts_batches", rows=["D2"])
class LengthRoundedDown(Honest):
    """len() leaves the rest out."""

    def __len__(self) -> int:
        return len(self.source) // self.request.batch_size


@fails("test_len_counts_batches")
class LengthRoundedUp(Honest):
    """len() counts the rest even if it is dropped."""

    def __len__(self) -> int:
        return math.ceil(len(self.source) / self.request.batch_size)


@fails("test_len_counts_batches")
class NoLength(Honest):
    """The length that is promised is missing."""

    __len__ = None  # type: ignore[assignment]


@fails("test_drop_last")
class CarriesTheRestOver(Honest):
    """Begins an epoch with what drop_last left of the one before."""

    rest: tuple[int, ...] = ()

    def __iter__(self) -> Iterator[Batch]:
        self.epoch += 1
        places = [*self.rest, *self.order()] if self.request.drop_last else self.order()
        whole = self.batches(places)[: len(self)]
        self.rest = tuple(places[sum(map(len, whole)) :]) if self.request.drop_last else ()
        for chunk in whole:
            yield self.batch(chunk)


@fails("test_drop_last")
class CutsTheRestOffFirst(Honest):
    """Cuts the rest off the source before it draws the order, so that it is never seen."""

    def permutation(self) -> list[int]:
        count = len(self.source)
        kept = count - count % self.request.batch_size if self.request.drop_last else count
        return torch.randperm(kept, generator=self.generator).tolist()


@fails("test_every_sample_once")
class LosesOneOfLargeBatches(Honest):
    """Leaves a sample out of the last batch if batches are larger than a hundred."""

    def batches(self, places: list[int]) -> list[list[int]]:
        *others, last = super().batches(places) or [[]]
        short = last[:-1] if self.request.batch_size > 100 else last
        return [*others, short] if short else others


class Passing:
    """One pass over a loader, as an iterator with a state of its own."""

    over = False

    def __init__(self, loader: Honest) -> None:
        self.loader = loader
        self.going = Honest.__iter__(loader)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self.over:
            return self.after()
        try:
            return next(self.going)
        except StopIteration:
            self.over = True
            raise

    def after(self) -> Batch:
        """Return what comes when all has come."""
        raise StopIteration


@fails()
class KnowsItsEnd(Honest):
    """Has an iterator that remembers its end."""

    def __iter__(self) -> Iterator[Batch]:
        return Passing(self)


@fails("test_exhausted_iterator_stays_exhausted")
class BeginsAgainAfterItsEnd(Honest):
    """Has an iterator that is ready for the next epoch when it has ended."""

    def __iter__(self) -> Iterator[Batch]:
        class Restarting(Passing):
            def after(self) -> Batch:
                self.over, self.going = False, Honest.__iter__(self.loader)
                return next(self)

        return Restarting(self)


@fails("test_exhausted_iterator_stays_exhausted")
class ComplainsAfterItsEnd(Honest):
    """Has an iterator that is closed by its end, and says so."""

    def __iter__(self) -> Iterator[Batch]:
        class Closed(Passing):
            def after(self) -> Batch:
                raise RuntimeError("the iterator is closed")

        return Closed(self)


@fails("test_bad_arguments_are_refused")
class AnyBatchSize(Honest):
    """Takes a batch size that makes no sense for 1."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, replace(request, batch_size=max(1, request.batch_size)))


@fails("test_bad_arguments_are_refused", promises=WITH_WORKERS)
class AnyNumberOfWorkers(Honest):
    """Takes fewer workers than none for none."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, replace(request, num_workers=max(0, request.num_workers)))


@fails("test_bad_arguments_are_refused", promises=(NO_WORKERS | {Promise.SHARDING}) - {Promise.LENGTH})
class AnyRank(Honest):
    """Takes a rank that there is not for the one that comes next when they are counted round."""

    __len__ = None  # type: ignore[assignment]

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, replace(request, rank=request.rank % request.world_size))

    def order(self) -> list[int]:
        return super().order()[self.request.rank :: self.request.world_size]


@fails("test_drop_last", rows=["C33"])
class KeepsTheOnlyBatch(Honest):
    """Hands out a batch that is not full if it would be the only one."""

    def batches(self, places: list[int]) -> list[list[int]]:
        return super().batches(places) or [places]


@fails("test_len_counts_batches", rows=["C33"])
class LengthOfAtLeastOne(Honest):
    """len() says 1 where every sample is dropped."""

    def __len__(self) -> int:
        return max(1, super().__len__())


@fails("test_second_epoch_is_complete")
class RepeatsFromTheFifthEpoch(Honest):
    """From the fifth epoch on a sample comes in place of another."""

    def order(self) -> list[int]:
        order = super().order()
        return [*order[:-1], order[0]] if self.epoch >= 4 else order


class SplitsKeptTogether(Honest):
    """Keeps what it was given for every split, for as long as the process lives."""

    given: ClassVar[dict[str, Source]] = {}

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.given[source.name] = source


@fails("test_train_and_test_are_disjoint", rows=["C12"])
class SplitDrawnAnew(SplitsKeptTogether):
    """From the second epoch on, some samples of a split come from the other."""

    def sample(self, place: int) -> tuple[Tensor, int]:
        data, _, split = self.source.name.rpartition("/")
        other = self.given.get(f"{data}/{'test' if split == 'train' else 'train'}")
        if self.epoch == 0 or place or other is None:
            return super().sample(place)
        pixels, label = other[place]
        return self.image(pixels), label


CacheOfBothSplits = fails()(SplitsKeptTogether)
