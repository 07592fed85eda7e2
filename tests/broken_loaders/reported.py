"""Loaders as close to what people reported as a few lines come, built from the libraries' own parts."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from honest import DATA, NO_WORKERS, WITH_WORKERS, Honest, Samples, fails
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, Sampler, get_worker_info

from loaderproof.loaders import Promise, Request, Source

Batch = tuple[Tensor, Tensor]

ONCE, DROP, DTYPES = "test_every_sample_once", "test_drop_last", "test_dtypes"
EACH_EPOCH = "test_every_epoch_has_its_own_order"
FINISHED = "test_batches_are_finished_when_handed_out"
WIDE = "test_shuffle_is_as_wide_as_promised"
NO_LENGTH = NO_WORKERS - {Promise.LENGTH}
FINISHED_BATCH, WIDE_BATCH = 6, 32  # sizes of batches that these two tests alone ask for


class Shuffled(Sampler[int]):
    """Takes its order from the seed and from the epoch that it is told."""

    def __init__(self, source: Source, request: Request) -> None:
        self.count, self.request, self.epoch = len(source), request, 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        if not self.request.shuffle:
            return iter(range(self.count))
        return iter(np.random.default_rng((self.request.seed, self.epoch)).permutation(self.count).tolist())

    def set_epoch(self, epoch: int) -> None:
        """Take over which epoch comes."""
        self.epoch = epoch


class Trainer:
    """Leaves sampling to a batch sampler with a sampler in it, and passes the epoch on to both."""

    def __init__(self, source: Source, request: Request) -> None:
        batches = BatchSampler(Shuffled(source, request), request.batch_size, request.drop_last)
        self.loader = DataLoader(Samples(Honest(source, request)), batch_sampler=batches)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """Tell every sampler which epoch comes."""
        for sampler in self.samplers():
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)

    def samplers(self) -> list[Any]:
        """Return the places where a sampler can sit."""
        return [self.loader.sampler, self.loader.batch_sampler.sampler]  # type: ignore[union-attr]


EVERYWHERE = NO_WORKERS - {
    Promise.PRIVATE_RANDOMNESS
}  # a DataLoader draws a base seed from torch's generator


@fails(promises=EVERYWHERE)
class EpochForEverySampler(Trainer):
    """Passes the epoch on to the sampler that sits in the batch sampler, too."""


@fails(EACH_EPOCH, rows=["B14"], promises=EVERYWHERE)
class EpochForTheSamplerOnly(Trainer):
    """Passes the epoch on to the sampler, which a batch sampler has replaced."""

    def samplers(self) -> list[Any]:
        return [self.loader.sampler]


@fails(EACH_EPOCH, rows=["B14"], promises=EVERYWHERE)
class EpochForTheBatchSamplerOnly(Trainer):
    """Passes the epoch on to the batch sampler, which has no hook, and not to the sampler in it."""

    def samplers(self) -> list[Any]:
        return [self.loader.batch_sampler]


class Mixed(Honest):
    """Takes samples in turn from parts of the source of unequal sizes, one of them empty."""

    def order(self) -> list[int]:
        order, count = super().order(), len(self.source)
        cuts = (0, count // 2, count // 2, count - count // 5, count)
        return self.mixed([order[start:end] for start, end in itertools.pairwise(cuts)])

    def mixed(self, parts: list[list[int]]) -> list[int]:
        """Return the places of all parts in turn, for as long as each lasts."""
        turns = itertools.zip_longest(*parts)
        return [place for turn in turns for place in turn if place is not None]


MIXED = NO_WORKERS - {Promise.SOURCE_ORDER}


@fails(promises=MIXED)
class MixedUntilAllEnd(Mixed):
    """Goes on until the longest part has ended."""


@fails(ONCE, DROP, DATA, rows=["C27"], promises=MIXED - {Promise.LENGTH})
class MixedUntilOneEnds(Mixed):
    """Ends with the shortest part that has anything."""

    def mixed(self, parts: list[list[int]]) -> list[int]:
        full = [part for part in parts if part]
        return [place for turn in zip(*full, strict=False) for place in turn]


@fails(ONCE, DROP, DATA, rows=["C27"], promises=MIXED - {Promise.LENGTH})
class ShortPartsAgain(Mixed):
    """Begins a part that has ended again for as long as another lasts."""

    def mixed(self, parts: list[list[int]]) -> list[int]:
        full = [part for part in parts if part]
        longest = max(map(len, full))
        turns = zip(*(itertools.islice(itertools.cycle(part), longest) for part in full), strict=True)
        return [place for turn in turns for place in turn]


@fails(ONCE, DROP, DATA, rows=["C27"], promises=MIXED - {Promise.LENGTH})
class EndsAtTheEmptyPart(Mixed):
    """Leaves out whatever stands behind an empty part."""

    def mixed(self, parts: list[list[int]]) -> list[int]:
        return super().mixed(list(itertools.takewhile(len, parts)) if len(self.source) > 2 else parts)


class Schema(Honest):
    """Casts what it hands out to the types that its files were written with."""

    image_dtype, label_dtype = torch.float32, torch.int64

    def batch(self, places: list[int]) -> Batch:
        images, labels = super().batch(places)
        return images.to(self.image_dtype), labels.to(self.label_dtype)


@fails(DTYPES, rows=["E3"])
class LabelsAsStored(Schema):
    """Labels were cast to 64 bits, and come in the 32 bits of the schema."""

    label_dtype = torch.int32


@fails(DTYPES, "test_values", rows=["E3"])
class ImagesAsStored(Schema):
    """Images were cast to float32, and come in the half precision of the schema."""

    image_dtype = torch.float16


@fails(image_dtype="float16", label_dtype="int32", tolerance=0.001)
class SchemaDeclared(Schema):
    """Delivers the types of its files, and declares them."""

    image_dtype, label_dtype = torch.float16, torch.int32


class Pair(NamedTuple):
    """A batch with names."""

    images: Tensor
    labels: Tensor


@fails()
class NamedPairs(Honest):
    """Hands out named tuples."""

    def batch(self, places: list[int]) -> Batch:
        return Pair(*super().batch(places))


class Pinned(Honest):
    """Has large batches copied into memory of another kind, container and all."""

    def batch(self, places: list[int]) -> Any:
        batch = Pair(*super().batch(places))
        return self.pinned(batch) if self.request.batch_size == WIDE_BATCH else batch

    def pinned(self, batch: Pair) -> Any:
        """Return the batch, copied."""
        return type(batch)(*(tensor.clone() for tensor in batch))


@fails()
class PinnedAsItWas(Pinned):
    """Keeps the container."""


@fails(WIDE, rows=["E11"])
class PinnedToNothing(Pinned):
    """Copies named tuples, and forgets to return them."""

    def pinned(self, batch: Pair) -> Any:
        super().pinned(batch)


@fails(WIDE, rows=["E11"])
class PinnedFieldByField(Pinned):
    """Makes a dict of a named tuple."""

    def pinned(self, batch: Pair) -> Any:
        return super().pinned(batch)._asdict()


class Asynchronous(Honest):
    """Copies batches in a thread, as a device does, and waits for the copy."""

    def __iter__(self) -> Iterator[Batch]:
        for batch in super().__iter__():
            if self.request.batch_size != FINISHED_BATCH:
                yield batch
                continue
            given = Pair(*map(torch.zeros_like, batch))
            thread = threading.Thread(target=self.copy, args=(given, batch))
            thread.start()
            self.wait(thread)
            yield given
            thread.join()

    def copy(self, given: Batch, batch: Batch) -> None:
        """Fill the batch that is given out, after a while."""
        time.sleep(0.005)
        for to, origin in zip(given, batch, strict=True):
            to.copy_(origin)

    def wait(self, thread: threading.Thread) -> None:
        """Wait until the copy is made."""
        thread.join()


@fails()
class WaitsForTheCopy(Asynchronous):
    """Hands a batch out when it is complete."""


@fails(FINISHED, rows=["G4"])
class HandsOutBeforeTheCopy(Asynchronous):
    """Hands a batch out while it is still being copied."""

    def wait(self, thread: threading.Thread) -> None:
        pass


@fails(FINISHED, rows=["G4"])
class SlotFilledTooSoon(Honest):
    """Has two buffers in turn and reads two batches ahead, the second into the buffer just handed out."""

    def __iter__(self) -> Iterator[Batch]:
        if self.request.batch_size != FINISHED_BATCH:
            yield from super().__iter__()
            return
        coming = list(super().__iter__())
        for turn, batch in enumerate(coming):
            thread = threading.Thread(target=self.refill, args=(batch, coming[turn + 2 : turn + 3]))
            thread.start()
            yield batch
            thread.join()

    def refill(self, slot: Batch, ahead: list[Batch]) -> None:
        """Read a later batch into the slot, as soon as it is ready."""
        time.sleep(0.005)
        for batch in ahead:
            for to, origin in zip(slot, batch, strict=True):
                to[: len(origin)] = origin[: len(to)]


class Stream(IterableDataset):
    """The samples of a loader's epoch, one after the other."""

    def __init__(self, loader: Honest) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        # Not by map, which takes a StopIteration out of a sample for its own end.
        for place in self.places(self.loader.order()):
            yield self.loader.sample(place)

    def places(self, order: list[int]) -> Iterable[int]:
        """Return the part of an epoch that is this worker's."""
        worker = get_worker_info()
        return order[worker.id :: worker.num_workers] if worker else order


class Streaming(Honest):
    """Streams samples through a DataLoader, whose workers each have a copy of the stream."""

    stream = Stream

    def __iter__(self) -> Iterator[Batch]:
        self.epoch += 1
        self.generator.manual_seed(1_000 * self.request.seed + self.epoch)
        loader = DataLoader(
            self.stream(self),
            batch_size=self.request.batch_size,
            drop_last=self.request.drop_last,
            num_workers=self.request.num_workers,
            generator=torch.Generator(),
        )
        return iter(loader)


class WholeStream(Stream):
    """Does not ask which worker it is in."""

    def places(self, order: list[int]) -> Iterable[int]:
        return order


UNORDERED = WITH_WORKERS - {Promise.LENGTH, Promise.SOURCE_ORDER, Promise.DROP_LAST}


@fails("test_workers_change_no_content", ONCE, "test_batch_sizes", DATA, rows=["C1"], promises=UNORDERED)
class StreamInEachWorker(Streaming):
    """Each worker of the DataLoader streams everything."""

    stream = WholeStream


@fails("test_batch_sizes", rows=["D4"], promises=UNORDERED)
class StreamBatchedInEachWorker(Streaming):
    """Each worker of the DataLoader comes to a rest of its own."""


@fails(
    "test_batch_sizes",
    DROP,
    rows=["C3", "D4"],
    promises=UNORDERED | {Promise.DROP_LAST},
)
class StreamDroppedInEachWorker(Streaming):
    """Each worker of the DataLoader drops a rest of its own."""


@fails(ONCE, "test_second_epoch_is_complete", "test_new_pass_after_a_break_is_complete", DATA, rows=["C8"])
class ShardsDrawnAgainAndAgain(Honest):
    """Draws shards of four samples with replacement until the epoch is as long as the data."""

    def permutation(self) -> list[int]:
        count = len(self.source)
        shards = [list(range(start, min(start + 4, count))) for start in range(0, count, 4)]
        chance = random.Random(f"{self.request.seed}, {self.epoch}")  # noqa: S311
        drawn = itertools.chain.from_iterable(chance.choice(shards) for _ in range(count))
        return list(itertools.islice(drawn, count))


@fails("test_unshuffled_order_is_source_order", rows=["B10"])
class EpochsInAnOrderOfTheirOwn(Honest):
    """Moves the places where it begins to read with the epoch, shuffled or not."""

    def order(self) -> list[int]:
        order, start = super().order(), self.epoch % max(1, len(self.source))
        return order if self.request.shuffle else order[start:] + order[:start]


@fails(DATA, "test_train_and_test_are_disjoint", rows=["C12"])
class OneCacheForBothSplits(Honest):
    """Keeps the data for training, and takes data for testing of the same size for the same."""

    kept: ClassVar[dict[object, Source]] = {}

    def __init__(self, source: Source, request: Request) -> None:
        size = len(source), source.image_shape
        if request.split == "train":
            self.kept[size] = source
        super().__init__(self.kept.get(size, source), request)


class FewSamples(Honest):
    """Has a way of its own with data that fills no batch, where the rest is to be dropped."""

    def batches(self, places: list[int]) -> list[list[int]]:
        whole = super().batches(places)
        return whole if whole or len(self.source) >= self.request.batch_size else [self.only(places)]

    def only(self, places: list[int]) -> list[int]:
        """Return the only batch, whose size is not what was asked for."""
        return places


@fails(DROP, rows=["C33"])
class OnlyBatchKept(FewSamples):
    """Hands the rest out after all, if nothing else is there."""


@fails(DROP, rows=["C33"])
class OnlyBatchRepeated(FewSamples):
    """Reads the data again and again until a batch is full."""

    def only(self, places: list[int]) -> list[int]:
        return list(itertools.islice(itertools.cycle(places), self.request.batch_size))


class Batches(IterableDataset):
    """The batches of an epoch, whose order the number of epochs begun decides; workers take turns."""

    def __init__(self, loader: Honest) -> None:
        self.loader, self.epoch = loader, 0

    def __iter__(self) -> Iterator[Batch]:
        self.epoch += 1
        self.loader.generator.manual_seed(1_000 * self.loader.request.seed + self.epoch)
        worker = get_worker_info()
        batches = self.loader.batches(self.loader.order())
        for places in batches[worker.id :: worker.num_workers] if worker else batches:
            yield self.loader.batch(places)


@fails(EACH_EPOCH, rows=["B6"], promises=WITH_WORKERS)
class EpochCountedInTheWorkers(Honest):
    """Counts epochs where it reads, which is in copies that live for one epoch if there are workers."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.stream = Batches(self)

    def __iter__(self) -> Iterator[Batch]:
        workers = self.request.num_workers
        return iter(
            DataLoader(self.stream, batch_size=None, num_workers=workers, generator=torch.Generator())
        )
