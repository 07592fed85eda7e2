"""Loaders that are right in every scenario of the other tests; a search finds the requests that they fail."""

from __future__ import annotations

from collections.abc import Callable

from honest import NO_WORKERS, WITH_WORKERS, Honest, fails

from loaderproof.loaders import Loader, Promise, Request, Source

SEARCH = "test_every_request_keeps_the_rules"


def finds(smallest: str) -> Callable[[Callable[[Source, Request], Loader]], Callable[..., Loader]]:
    """Say to which request a search must come."""

    def declare(opened: Callable[[Source, Request], Loader]) -> Callable[..., Loader]:
        opened.smallest = smallest  # type: ignore[attr-defined]
        return opened

    return declare


@finds("samples=1 batch_size=2 drop_last=True")
@fails(SEARCH, rows=["D2"])
class RestOfOneKept(Honest):
    """Keeps a rest of one sample, though it was to be dropped."""

    def batches(self, places: list[int]) -> list[list[int]]:
        size, kept = self.request.batch_size, super().batches(places)
        single = self.request.drop_last and size not in {1, 4, 7} and len(places) % size == 1
        return [*kept, places[-1:]] if single else kept


@finds("samples=33 batch_size=1")
@fails(SEARCH)
class LosesOneOfMany(Honest):
    """Loses a sample of 33 and more, up to a number where its buffer is larger."""

    def order(self) -> list[int]:
        order = super().order()
        return order[:-1] if 33 <= len(order) <= 64 else order


@finds("samples=1 batch_size=1 epochs=4")
@fails(SEARCH)
class FourthEpochShort(Honest):
    """Has lost a sample by the fourth epoch, unless batches are of an even size."""

    def order(self) -> list[int]:
        order = super().order()
        odd = self.request.batch_size % 2 and self.request.batch_size != 7
        return order[1:] if self.epoch == 3 and odd else order


@finds("samples=1 batch_size=1 shuffle=True seed=2147483648")
@fails(SEARCH)
class SeedWithASign(Honest):
    """Keeps its seed in 32 bits with a sign, and has no order for a negative one."""

    def permutation(self) -> list[int]:
        return super().permutation() if self.request.seed < 2**31 else []


@finds("samples=1 batch_size=2 workers=2")
@fails(SEARCH, promises=WITH_WORKERS)
class EmptyShare(Honest):
    """Gives up if a worker has no sample, which the smallest data of the other tests do not bring about."""

    def order(self) -> list[int]:
        alone = self.request.num_workers > len(self.source) and self.request.batch_size not in {1, 4}
        return [] if alone else super().order()


@finds("samples=1 batch_size=1 epochs=2 break_after=1")
@fails(SEARCH, rows=["C29"])
class KeepsItsPlace(Honest):
    """Goes on where a pass over single samples was left."""

    left = 0

    def __iter__(self):
        single, start = self.request.batch_size == 1, self.left
        for number, batch in enumerate(super().__iter__()):
            if number >= start:
                self.left = number + 1 if single else 0
                yield batch
        self.left = 0


class Dealt(Honest):
    """Deals out any number of samples to any number of ranks, and takes each epoch's order from the seed."""

    def __len__(self) -> int:
        return len(self.batches(self.share(list(range(len(self.source))))))

    def share(self, places: list[int]) -> list[int]:
        """Return those places that are this rank's."""
        return places[self.request.rank :: self.request.world_size]

    def order(self) -> list[int]:
        return self.share(super().order())


RightForEveryRequest = fails(promises=WITH_WORKERS | {Promise.SHARDING})(Dealt)


@finds("samples=3 batch_size=1 shuffle=True world_size=3")
@fails(SEARCH, rows=["C17"], promises=NO_WORKERS | {Promise.SHARDING})
class ThirdRankGoesBackwards(Dealt):
    """The last of three ranks draws another order than the others, if there are very few samples."""

    def share(self, places: list[int]) -> list[int]:
        third = self.request.rank == 2 and self.request.shuffle and len(places) < 6
        return super().share(places[::-1] if third else places)
