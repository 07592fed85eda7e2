"""Loaders whose random augmentation is not random enough, or too much so."""

# ruff: noqa: ARG002  # a step that is replaced takes what it is given
from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from augmenting import (
    AUGMENTING,
    BY_WORKERS,
    IN_RANKS,
    Augmenting,
    Flipping,
    InWorkers,
    Sharing,
    Silent,
    Streaming,
    Told,
    loader,
)
from honest import fails
from torch import Tensor

from loaderproof.loaders import Loader, Request, Source

KEEP = "test_augmented_samples_keep_their_ids_and_labels"
BETWEEN = "test_draws_differ_between_samples"
EACH = "test_draws_are_taken_for_each_sample"
WORKERS = "test_workers_draw_differently"
RANKS = "test_ranks_draw_differently"
EPOCHS = "test_every_epoch_draws_anew"
REPEATS = "test_same_seed_gives_the_same_draws"
SEEDS = "test_another_seed_gives_other_draws"
COMPOUNDS = "test_augmentation_does_not_compound"
ENDS = "test_augmentation_ends_where_it_is_not_asked_for"
TOLD = "test_set_epoch_gives_the_draws_of_that_epoch"


class Inherited(InWorkers):
    """Draws from a generator that each worker gets a copy of."""

    def draw(self, place: int) -> dict[str, Any]:
        return {"own": self.own.random()}


@fails(WORKERS, EPOCHS, rows=["A1", "A2"], promises=BY_WORKERS)
def workers_inherit_a_generator(source: Source, request: Request) -> Loader:
    """Every worker of every epoch has the generator as it was in the parent."""
    return loader(Inherited(source, request), request)


class Tossed(Inherited):
    """Tosses a coin in the same way."""

    def draw(self, place: int) -> dict[str, Any]:
        return {"coin": int(self.own.integers(2))}


@fails(WORKERS, rows=["A1"], promises=BY_WORKERS)
class WorkersTossTheSameCoin:
    """Every worker has the generator as it is in the parent, which moves it from epoch to epoch."""

    def __init__(self, source: Source, request: Request) -> None:
        self.samples = Tossed(source, request)
        self.loader = loader(self.samples, request)

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        self.samples.own.random()
        return iter(self.loader)


@fails(RANKS, rows=["A6"], promises=IN_RANKS)
class RankLeftOut(Sharing):
    """Draws from seed, epoch and turn."""

    def seed(self, place: int) -> tuple[int, ...]:
        return self.request.seed, self.epoch, self.turn


@fails(RANKS, rows=["A6"], promises=IN_RANKS)
class RankAdded(Sharing):
    """Adds the rank to the turn, so that ranks draw the same a turn apart."""

    def seed(self, place: int) -> tuple[int, ...]:
        return self.request.seed, self.epoch, self.request.rank + self.turn


@fails(KEEP, promises=AUGMENTING)
class CarriesNoId(Augmenting):
    """Says what was drawn, but not for which sample."""

    def carried(self, place: int, drawn: dict[str, Any]) -> dict[str, Any]:
        return drawn


@fails(KEEP, promises=AUGMENTING)
class CountsInsteadOfIds(Streaming):
    """Numbers the samples as they come."""

    def __iter__(self) -> Iterator[Any]:
        self.turn = -1
        return super().__iter__()

    def carried(self, place: int, drawn: dict[str, Any]) -> dict[str, Any]:
        self.turn += 1
        return {"id": self.turn, **drawn}


@fails(KEEP, promises=AUGMENTING)
class MixesLabels(Augmenting):
    """Turns the images of a batch round, but not their labels."""

    def batch(self, places: list[int]) -> Any:
        images, labels, *extras = super().batch(places)
        return (images, labels.flip(0), *extras) if self.request.augment else (images, labels)


@fails(KEEP, promises=AUGMENTING)
class DrawsWithReplacement(Augmenting):
    """Draws which samples come, too, and some come twice."""

    def order(self) -> list[int]:
        order = super().order()
        return [order[0], *order[:-1]] if self.request.augment else order


@fails(BETWEEN, promises=AUGMENTING)
class OneDrawForAll(Augmenting):
    """Makes the generator anew for each sample, from seed and epoch."""

    def seed(self, place: int) -> tuple[int, ...]:
        return self.request.seed, self.epoch


@fails(BETWEEN, promises=AUGMENTING)
class NothingIsChanged(Silent):
    """Leaves the transform out."""

    def changed(self, image: Tensor, drawn: dict[str, Any]) -> Tensor:
        return image


@fails(EACH, promises=AUGMENTING)
class FlipsWholeBatches(Silent, Flipping):
    """Calls its transform with whole batches, for which it draws once."""

    def batch(self, places: list[int]) -> Any:
        self.first = places[0]
        return super().batch(places)

    def seed(self, place: int) -> tuple[int, ...]:
        return self.request.seed, self.epoch, self.first


@fails(EPOCHS, promises=AUGMENTING)
class SeedsAddUp(Augmenting):
    """Adds seed, epoch and id up, so that a sample draws what the next one drew an epoch before."""

    def seed(self, place: int) -> tuple[int, ...]:
        return (self.request.seed + self.epoch + place,)


@fails(EPOCHS, rows=["A2"], promises=AUGMENTING)
class StreamBegunAgain(Streaming):
    """Makes its generator anew for each epoch; the order has one of its own."""

    def __iter__(self) -> Iterator[Any]:
        self.chance = np.random.default_rng(self.request.seed)
        return super().__iter__()


@fails(EPOCHS, rows=["A3"], promises=AUGMENTING)
class OneFamilyFrozen(Augmenting):
    """Leaves the epoch out of the seed for NumPy."""

    def draw(self, place: int) -> dict[str, Any]:
        frozen = np.random.default_rng((self.request.seed, place)).random()
        return {**super().draw(place), "numpy": frozen}


class Caching(Augmenting):
    """Keeps what it made of a sample in the first epoch."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.kept: dict[int, Any] = {}

    def augmented(self, place: int) -> tuple[Tensor, int, dict[str, Any]]:
        if place not in self.kept:
            self.kept[place] = super().augmented(place)
        return self.kept[place]


@fails(EPOCHS, rows=["A4"], promises=AUGMENTING)
class CachedAfterAugmentation(Caching):
    """Keeps what it made of a sample in the first epoch."""


@fails(EPOCHS, rows=["A4"], promises=AUGMENTING)
class FlipsCached(Caching, Silent, Flipping):
    """Keeps what it made of a sample in the first epoch; all there is to see is a flip or none."""


@fails(EPOCHS, rows=["A4"], promises=AUGMENTING)
class HalfCached(Caching):
    """Keeps the samples that there is room for."""

    def augmented(self, place: int) -> tuple[Tensor, int, dict[str, Any]]:
        return super().augmented(place) if place % 2 else Augmenting.augmented(self, place)


@fails(EPOCHS, SEEDS, promises=AUGMENTING)
class DrawsFromTheIdAlone(Augmenting):
    """Leaves out both seed and epoch."""

    def seed(self, place: int) -> tuple[int, ...]:
        return (place,)


@fails(SEEDS, promises=AUGMENTING)
class SeedLeftOut(Flipping):
    """Draws from epoch and id."""

    def seed(self, place: int) -> tuple[int, ...]:
        return self.epoch, place


@fails(REPEATS, promises=AUGMENTING)
class NobodySeeds(Streaming):
    """Draws from a generator that nobody seeds."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.chance = np.random.default_rng()


def waited() -> int:
    """Return how often this thread has waited for something, as for a disk."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


@fails(REPEATS, rows=["A8"], promises=AUGMENTING)
class RacesForOneGenerator(Streaming):
    """Reads a batch at once; whoever is ready first takes the first draw."""

    def batch(self, places: list[int]) -> Any:
        times = []
        for place in places:
            before = waited()
            self.source[place]
            times.append((waited() > before, place))
        self.drawn = {place: Streaming.draw(self, place) for _, place in sorted(times)}
        return super().batch(places)

    def draw(self, place: int) -> dict[str, Any]:
        return self.drawn[place]


class Keeping(Augmenting):
    """Changes in place the images that it keeps."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.kept: dict[int, Tensor] = {}

    def changed(self, image: Tensor, drawn: dict[str, Any]) -> Tensor:
        return image.mul_(1 - 0.1 * drawn["numpy"]).clone()

    def augmented(self, place: int) -> tuple[Tensor, int, dict[str, Any]]:
        image, label = self.sample(place)
        drawn = self.draw(place)
        return self.changed(self.kept.setdefault(place, image), drawn), label, self.carried(place, drawn)


@fails(COMPOUNDS, rows=["A5"], promises=AUGMENTING)
class AddsUp(Keeping):
    """Changes in place the images that it keeps."""


@fails(EPOCHS, rows=["A5"], promises=AUGMENTING)
class FlipsOnAndOn(Keeping):
    """Flips one kept image in five, and flips it back when its turn comes again: most images repeat themselves."""

    def draw(self, place: int) -> dict[str, Any]:
        return {"flip": int(np.random.default_rng(self.seed(place)).random() < 0.2)}

    def changed(self, image: Tensor, drawn: dict[str, Any]) -> Tensor:
        return image.copy_(image.flip(2)).clone() if drawn["flip"] else image.clone()


@fails(ENDS, rows=["A5"], promises=AUGMENTING)
class ChangesTheSource(Augmenting):
    """Changes in place what the source hands out, where that is the source's own memory."""

    def augmented(self, place: int) -> tuple[Tensor, int, dict[str, Any]]:
        pixels, label = self.source[place]
        drawn = self.draw(place)
        pixels.setflags(write=True)
        pixels[:] = pixels * (1 - 0.1 * drawn["numpy"])
        return self.image(pixels), label, self.carried(place, drawn)


@fails(ENDS, promises=AUGMENTING)
class CachedForAll(Augmenting):
    """Keeps augmented samples where every loader of the process takes them from."""

    kept: dict[tuple[str, int], Tensor] = {}  # noqa: RUF012  # that is the fault

    def augmented(self, place: int) -> tuple[Tensor, int, dict[str, Any]]:
        image, label, carried = super().augmented(place)
        self.kept[self.source.fingerprint, place] = image
        return image, label, carried

    def batch(self, places: list[int]) -> Any:
        images, labels, *extras = super().batch(places)
        if not self.request.augment:
            for row, place in enumerate(places):
                images[row] = self.kept.get((self.source.fingerprint, place), images[row])
        return images, labels, *extras


@fails(ENDS, promises=AUGMENTING)
class DrawsAllTheSame(Augmenting):
    """Draws and says so, though it changes nothing where that is not asked for."""

    def batch(self, places: list[int]) -> Any:
        batch = super().batch(places)
        drawn = [self.draw(place)["numpy"] for place in places]
        return batch if self.request.augment else (*batch, {"numpy": torch.tensor(drawn)})


@fails(TOLD, rows=["A10"], promises=AUGMENTING)
class DrawsFromEpochsCounted(Told):
    """Takes its order from the epoch that it is told, its draws from the epochs that it has counted."""

    begun = -1

    def __iter__(self) -> Iterator[Any]:
        self.begun += 1
        return super().__iter__()

    def seed(self, place: int) -> tuple[int, ...]:
        return self.request.seed, self.begun, place
