"""Loaders that share an epoch out among ranks: right ones, and one for each way to get it wrong."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from honest import NO_WORKERS, Honest, Samples, fails
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from loaderproof.loaders import Loader, Promise, Request, Source, Uneven, Variant

Batch = tuple[Tensor, Tensor]

RANKS = NO_WORKERS | {Promise.SHARDING}
THE_END = "test_every_rank_reaches_the_end"
DATA = "test_ranks_cover_the_data_together"


class Ranked(Honest):
    """Takes every n-th sample of an order that all ranks share."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.rank, self.world = request.rank, request.world_size

    def __len__(self) -> int:
        return len(self.batches(self.part(list(range(len(self.source))))))

    def order(self) -> list[int]:
        return self.part(super().order())

    def part(self, places: list[int]) -> list[int]:
        """Return what is this rank's of an epoch."""
        return places[self.rank :: self.world]


@fails(promises=RANKS)
class Exact(Ranked):
    """Takes every n-th sample."""


@fails(promises=RANKS)
class Contiguous(Ranked):
    """Takes one piece of the epoch; pieces differ by one sample at the most."""

    def part(self, places: list[int]) -> list[int]:
        bounds = [len(places) * rank // self.world for rank in (self.rank, self.rank + 1)]
        return places[slice(*bounds)]


class Equal(Ranked):
    """Gives every rank equally many."""

    def part(self, places: list[int]) -> list[int]:
        return super().part((places * self.world)[: self.count(len(places)) * self.world])

    def count(self, samples: int) -> int:
        """Return the number of samples of a rank."""
        return math.ceil(samples / self.world)


@fails(promises=RANKS, uneven=Uneven.PADDED)
class Padded(Equal):
    """Begins again with the first samples until all ranks have equally many."""


@fails(promises=RANKS, uneven=Uneven.DROPPED)
class Dropped(Equal):
    """Leaves out the last samples so that all ranks have equally many."""

    def count(self, samples: int) -> int:
        return samples // self.world


class Distributed(DataLoader[Any]):
    """A DataLoader with a DistributedSampler, which is told each epoch."""

    def set_epoch(self, epoch: int) -> None:
        """Pass on which epoch comes."""
        self.sampler.set_epoch(epoch)  # type: ignore[attr-defined]


@fails(promises=RANKS | {Promise.WORKERS}, uneven=Uneven.PADDED)
def distributed_sampler(source: Source, request: Request) -> Loader:
    """Leaves everything to torch; the sampler pads."""
    samples = Samples(Honest(source, request))
    sampler: DistributedSampler[Any] = DistributedSampler(
        samples,  # type: ignore[arg-type]
        num_replicas=request.world_size,
        rank=request.rank,
        shuffle=request.shuffle,
        seed=request.seed,
    )
    return Distributed(
        samples,  # type: ignore[arg-type]
        batch_size=request.batch_size,
        sampler=sampler,
        drop_last=request.drop_last,
        num_workers=request.num_workers,
        generator=torch.Generator().manual_seed(request.seed),
    )


@fails(promises=RANKS)
class AsksTheGroup(Ranked):
    """Takes its rank from the process group, if there is one, as many libraries do."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        if dist.is_initialized():
            self.rank, self.world = dist.get_rank(), dist.get_world_size()


@fails(promises=RANKS)
class AsksTheEnvironment(Ranked):
    """Takes its rank from where torchrun puts it, if it is there."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.rank = int(os.environ.get("RANK", self.rank))
        self.world = int(os.environ.get("WORLD_SIZE", self.world))


@fails(promises=RANKS)
class AgreesOnASeed(Ranked):
    """Has rank 0 tell the others at the start of each epoch what the order is drawn from."""

    def permutation(self) -> list[int]:
        seed = torch.tensor([self.request.seed + 1_000 * self.epoch])
        if dist.is_initialized():
            dist.broadcast(seed, 0)
        return torch.randperm(len(self.source), generator=torch.Generator().manual_seed(seed.item())).tolist()


@fails(promises=RANKS)
class RefusesTooFew(Ranked):
    """Refuses, on every rank, to share out fewer samples than there are ranks."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        if len(source) < self.world:
            msg = f"{len(source)} samples for {self.world} ranks"
            raise ValueError(msg)


@fails(promises=RANKS, variants={"": Variant(shuffle_buffer=300)})
class ShufflesItsPart(Ranked):
    """Splits first and shuffles each part by itself, through a buffer as it declares."""

    def order(self) -> list[int]:
        part = self.part(list(range(len(self.source))))
        mixed = torch.randperm(len(part), generator=self.generator).tolist()
        return [part[place] for place in mixed] if self.request.shuffle else part


@fails("test_shuffling_moves_samples_between_ranks", rows=["B7"], promises=RANKS)
class SplitsThenShuffles(Ranked):
    """Splits first and shuffles each part by itself, so that a rank sees one part for ever."""

    def order(self) -> list[int]:
        part = self.part(list(range(len(self.source))))
        mixed = torch.randperm(len(part), generator=self.generator).tolist()
        return [part[place] for place in mixed] if self.request.shuffle else part


@fails("test_ranks_are_disjoint", rows=["C2"], promises=RANKS)
class PadsSilently(Equal):
    """Begins again with the first samples, though it declares exact shares."""


@fails("test_ranks_are_complete_together", rows=["C3"], promises=RANKS)
class DropsSilently(Equal):
    """Leaves out the last samples, though it declares exact shares."""

    def count(self, samples: int) -> int:
        return samples // self.world


@fails("test_ranks_are_disjoint", DATA, promises=RANKS)
class EveryRankReadsAll(Ranked):
    """Does not know of ranks."""

    def part(self, places: list[int]) -> list[int]:
        return places


@fails("test_ranks_are_disjoint", DATA, rows=["C16"], promises=RANKS)
class MixesTheParent(Ranked):
    """Mixes two halves of the source, of which one was not split."""

    def part(self, places: list[int]) -> list[int]:
        half = len(places) // 2
        return super().part(places[:half]) + (places[half:])


@fails("test_ranks_shuffle_with_one_seed", DATA, rows=["C17"], promises=RANKS)
class RankInTheSeed(Ranked):
    """Adds the rank to the seed of the order that is split."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.generator.manual_seed(request.seed + request.rank)


@fails("test_ranks_shuffle_with_one_seed", DATA, rows=["C17"], promises=RANKS - {Promise.SEEDED_ORDER})
class NoSeed(Ranked):
    """Draws the order from nowhere, on each rank by itself."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.generator.seed()


@fails("test_ranks_shuffle_with_one_seed", promises=RANKS)
class EpochReachesRankZero(Ranked):
    """Takes the order from seed and epoch, of which only rank 0 hears."""

    def set_epoch(self, epoch: int) -> None:
        """Remember which epoch comes."""
        if self.rank == 0:
            self.generator.manual_seed(self.request.seed + 1_000 * epoch)

    def __iter__(self) -> Iterator[Batch]:
        if self.rank:
            self.generator.manual_seed(self.request.seed)
        return super().__iter__()


@fails("test_ranks_have_equal_shares", rows=["C18"], promises=RANKS)
class DealsShards(Ranked):
    """Deals out shards of unequal size, in the order of the source."""

    def part(self, places: list[int]) -> list[int]:
        bounds = [
            len(places) * (rank * rank) // (self.world * self.world) for rank in (self.rank, self.rank + 1)
        ]
        return places[slice(*bounds)]


@fails("test_ranks_have_equal_shares", rows=["C18"], promises=RANKS, uneven=Uneven.DROPPED)
class BatchesUnequal(Ranked):
    """Has one sample more on some ranks, though it declares equally many."""


@fails("test_ranks_keep_the_order_of_the_source", rows=["B12"], promises=RANKS)
class WrapperShuffles(Ranked):
    """Is shuffled by a wrapper as soon as there are several ranks."""

    def order(self) -> list[int]:
        if self.world > 1 and not self.request.shuffle:
            return self.part(torch.randperm(len(self.source), generator=torch.Generator()).tolist())
        return super().order()


@fails("test_ranks_keep_the_order_of_the_source", rows=["B12"], promises=RANKS)
class WrapperShufflesAndSorts(Ranked):
    """Shares out another part in each epoch, though nobody asked to shuffle, each in order."""

    def order(self) -> list[int]:
        if self.world > 1 and not self.request.shuffle:
            return sorted(self.part(self.permutation()))
        return super().order()


class Greedy(Ranked):
    """Takes what nobody has taken, in the order in which ranks ask."""

    def order(self) -> list[int]:
        return list(self.taken()) if dist.is_initialized() else super().order()

    def taken(self) -> Iterator[int]:
        """Yield the samples that this rank was first to ask for."""
        store = dist.distributed_c10d._get_default_store()
        places = Honest.order(self)
        # Loaders over the same data in one group do not share a queue: one is over before the next begins.
        queue = f"queue{self.epoch}-{store.add(f'opened-{self.epoch}-{self.rank}', 1)}"
        while (number := store.add(queue, 1) - 1) < len(places):
            yield places[number]


@fails("test_split_does_not_depend_on_who_asks_first", rows=["J3"], promises=RANKS - {Promise.LENGTH})
class FirstComeFirstServed(Greedy):
    """Gives each sample to the rank that asks first."""


@fails("test_split_does_not_depend_on_who_asks_first", rows=["J3"], promises=RANKS)
class SeatsByArrival(Ranked):
    """Numbers the ranks in the order in which they come; shares are equal all the same."""

    def order(self) -> list[int]:
        if dist.is_initialized():
            store = dist.distributed_c10d._get_default_store()
            opened = store.add(f"opened-{self.request.rank}", 1)
            self.rank = store.add(f"arrived-{opened}", 1) - 1
        return super().order()


@fails("test_ranks_are_complete_together", DATA, promises=RANKS)
class OneRankTooMany(Ranked):
    """Splits for one rank more than there are."""

    def part(self, places: list[int]) -> list[int]:
        return places[self.rank :: self.world + (self.world > 1)]


@fails("test_ranks_are_complete_together", DATA, promises=RANKS)
class LastBatchLost(Ranked):
    """Loses the last batch of the last rank."""

    def __iter__(self) -> Iterator[Batch]:
        batches: Iterable[Batch] = list(super().__iter__())
        lost = self.world > 1 and self.rank == self.world - 1
        return iter(list(batches)[:-1] if lost else batches)


@fails("test_len_counts_the_batches_of_a_rank", rows=["D2"], promises=RANKS)
class LengthOfTheWhole(Ranked):
    """Says how many batches all ranks have together."""

    def __len__(self) -> int:
        return len(self.batches(list(range(len(self.source)))))


@fails("test_len_counts_the_batches_of_a_rank", rows=["D2"], promises=RANKS)
class LengthDivided(Ranked):
    """Divides the number of all batches by the number of ranks and rounds down."""

    def __len__(self) -> int:
        return len(self.batches(list(range(len(self.source))))) // self.world


@fails("test_ranks_drop_less_than_a_batch", rows=["C3"], promises=RANKS)
class DropsTwice(Ranked):
    """With several ranks, drops the rest of the whole and one batch more for each rank."""

    def batches(self, places: list[int]) -> list[list[int]]:
        full = super().batches(places)
        return full[:-1] if self.request.drop_last and self.world > 1 else full


@fails("test_ranks_drop_less_than_a_batch", rows=["C3"], promises=RANKS)
class KeepsTheRest(Ranked):
    """Forgets drop_last as soon as there are several ranks."""

    def batches(self, places: list[int]) -> list[list[int]]:
        size = self.request.batch_size
        if self.world == 1:
            return super().batches(places)
        return [places[start : start + size] for start in range(0, len(places), size)]


class Together(Equal):
    """Has something happen on one rank, at its second batch of a shuffled epoch."""

    def __iter__(self) -> Iterator[Batch]:
        for number, batch in enumerate(super().__iter__()):
            if number == 1 and self.world == 2 and self.rank == 1:
                self.happen()
            yield batch

    def happen(self) -> None:
        """Do it."""
        raise NotImplementedError


@fails(THE_END, promises=RANKS, uneven=Uneven.PADDED)
class RankRaises(Together):
    """Raises on one rank."""

    def happen(self) -> None:
        raise OSError("the share of rank 1 is not there")


@fails(THE_END, promises=RANKS, uneven=Uneven.PADDED)
class RankDies(Together):
    """Ends the process of one rank."""

    def happen(self) -> None:
        sys.stderr.write("no more memory on rank 1\n")
        sys.stderr.flush()
        os._exit(3)


@fails(THE_END, promises=RANKS, uneven=Uneven.PADDED)
class RankHangs(Together):
    """Waits on one rank for what never comes."""

    def happen(self) -> None:
        threading.Event().wait()


@fails(THE_END, rows=["C18"], promises=RANKS, uneven=Uneven.PADDED)
class WaitsAtEveryBatch(Equal):
    """Has all ranks wait for each other at every batch, also for those that left the epoch."""

    def __iter__(self) -> Iterator[Batch]:
        for batch in super().__iter__():
            if dist.is_initialized():
                dist.barrier()
            yield batch


@fails(THE_END, promises=RANKS)
class RefusesAnEmptyShare(Ranked):
    """Raises on the rank that has no sample, while the others go on."""

    def __iter__(self) -> Iterator[Batch]:
        if not self.part(list(range(len(self.source)))):
            raise ValueError("num_samples should be a positive integer value, but got num_samples=0")
        return super().__iter__()
