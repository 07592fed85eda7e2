"""Right loaders that augment at random, and what broken ones are made of."""

# ruff: noqa: ARG002, S311  # a step that is replaced takes what it is given; draws are no secrets
from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from honest import NO_WORKERS, WITH_WORKERS, Honest, Samples, fails
from torch import Tensor
from torch.utils.data import DataLoader, get_worker_info

from loaderproof.loaders import Loader, Promise, Request, Source

AUGMENTING = NO_WORKERS | {Promise.AUGMENTATION}
IN_RANKS = AUGMENTING | {Promise.SHARDING}
BY_WORKERS = WITH_WORKERS | {Promise.AUGMENTATION}


class Augmenting(Honest):
    """Makes images brighter or darker, with a generator for each sample made from seed, epoch and id."""

    def batch(self, places: list[int]) -> Any:
        """Return the samples at some places, with ids and draws where they are augmented."""
        if not self.request.augment:
            return super().batch(places)
        images, labels, extras = zip(*map(self.augmented, places), strict=True)
        carried = {name: torch.tensor([one[name] for one in extras]) for name in extras[0]}
        return torch.stack(images), torch.tensor(labels), carried

    def augmented(self, place: int) -> tuple[Tensor, int, dict[str, Any]]:
        """Return one augmented sample and what goes with it."""
        image, label = self.sample(place)
        drawn = self.draw(place)
        return self.changed(image, drawn), label, self.carried(place, drawn)

    def carried(self, place: int, drawn: dict[str, Any]) -> dict[str, Any]:
        """Return the id and what was drawn."""
        return {"id": place, **drawn}

    def draw(self, place: int) -> dict[str, Any]:
        """Return what is drawn for a sample, from each family of generators."""
        seed = self.seed(place)
        python, array = random.Random(repr(seed)), np.random.default_rng(seed)
        tensor = torch.Generator().manual_seed(int(array.integers(2**63)))
        return {
            "random": python.random(),
            "numpy": array.random(),
            "torch": torch.rand((), generator=tensor).item(),
        }

    def seed(self, place: int) -> tuple[int, ...]:
        """Return what a sample's draws are made from."""
        return self.request.seed, self.epoch, place

    def changed(self, image: Tensor, drawn: dict[str, Any]) -> Tensor:
        """Return a changed image."""
        return (image + 0.1 * sum(drawn.values())).clamp(max=1)


class Told(Augmenting):
    """Takes order and draws from the epoch that it is told."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.epoch = 0

    def __iter__(self) -> Iterator[Any]:
        for places in self.batches(self.order()):
            yield self.batch(places)

    def set_epoch(self, epoch: int) -> None:
        """Take over which epoch comes."""
        self.epoch = epoch

    def permutation(self) -> list[int]:
        return np.random.default_rng((self.request.seed, self.epoch)).permutation(len(self.source)).tolist()


class Sharing(Told):
    """Has a part of the samples for each rank, and counts them as they come."""

    def __len__(self) -> int:
        return len(self.batches(self.order()))

    def __iter__(self) -> Iterator[Any]:
        self.turn = 0
        yield from super().__iter__()

    def order(self) -> list[int]:
        return super().order()[self.request.rank :: self.request.world_size]

    def draw(self, place: int) -> dict[str, Any]:
        self.turn += 1
        return super().draw(place)


@fails(promises=AUGMENTING)
class DrawsForEachSample(Augmenting):
    """Draws from seed, epoch and id."""


@fails(promises=AUGMENTING)
class DrawsForTheEpochItIsTold(Told):
    """Draws from seed, id and the epoch that it is told."""


class Silent(Augmenting):
    """Does not say what was drawn."""

    def carried(self, place: int, drawn: dict[str, Any]) -> dict[str, Any]:
        return {"id": place}


@fails(promises=IN_RANKS)
class DrawsForEachRank(Sharing):
    """Draws from seed, epoch, rank and turn."""

    def seed(self, place: int) -> tuple[int, ...]:
        return self.request.seed, self.epoch, self.request.rank, self.turn


@fails(promises=AUGMENTING)
class CarriesAnIdOnly(Silent):
    """Does not say what was drawn."""


class Flipping(Augmenting):
    """Flips every second sample or so, in either of two directions."""

    def draw(self, place: int) -> dict[str, Any]:
        across, along = np.random.default_rng(self.seed(place)).integers(2, size=2)
        return {"across": int(across), "along": int(along)}

    def changed(self, image: Tensor, drawn: dict[str, Any]) -> Tensor:
        return image.flip([side for side, name in ((2, "across"), (1, "along")) if drawn[name]])


@fails(promises=AUGMENTING)
class Flips(Flipping):
    """Flips, and says so."""


@fails(promises=AUGMENTING)
class FlipsUntold(Silent, Flipping):
    """Flips, and carries an id only."""


@fails(promises=AUGMENTING)
class ErasesSeldom(Augmenting):
    """Changes one sample in twenty, and says NaN of the others."""

    def draw(self, place: int) -> dict[str, Any]:
        chance = np.random.default_rng(self.seed(place))
        return {"erased": chance.random() if chance.random() < 0.05 else float("nan")}

    def changed(self, image: Tensor, drawn: dict[str, Any]) -> Tensor:
        return image if np.isnan(drawn["erased"]) else image * drawn["erased"]


@fails(promises=AUGMENTING)
class OneDrawForABatch(Augmenting):
    """Makes all images of a batch darker by one number."""

    def batch(self, places: list[int]) -> Any:
        self.first = places[0]
        return super().batch(places)

    def seed(self, place: int) -> tuple[int, ...]:
        return self.request.seed, self.epoch, self.first


@fails(promises=AUGMENTING)
class StrongerInEachEpoch(Augmenting):
    """Changes more in each epoch, and labels decide how much."""

    def augmented(self, place: int) -> tuple[Tensor, int, dict[str, Any]]:
        image, label = self.sample(place)
        drawn = self.draw(place)
        strength = 0.05 * (self.epoch + 1) * (1 + label % 2)
        return (image + strength * drawn["numpy"]).clamp(max=1), label, self.carried(place, drawn)


class Streaming(Augmenting):
    """Takes all draws of all epochs from one generator in turn."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.chance = np.random.default_rng(request.seed)

    def draw(self, place: int) -> dict[str, Any]:
        return {"numpy": self.chance.random(), "angle": int(self.chance.integers(360))}

    def changed(self, image: Tensor, drawn: dict[str, Any]) -> Tensor:
        return image * drawn["numpy"]


@fails(promises=AUGMENTING)
class OneStream(Streaming):
    """Takes all draws of all epochs from one generator in turn."""


class InWorkers:
    """The samples of a loader as a data set, augmented from the generators that each worker has."""

    def __init__(self, source: Source, request: Request) -> None:
        self.samples = Samples(Honest(source, request))
        self.augment = request.augment
        self.own = np.random.default_rng(request.seed)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, place: int) -> Any:
        image, label = self.samples[place]
        if not self.augment:
            return image, label
        drawn = self.draw(place)
        return image * (0.2 + 0.1 * sum(drawn.values())), label, {"id": place, **drawn}

    def draw(self, place: int) -> dict[str, Any]:
        """Return a draw of each family; nothing seeds the global generators without workers."""
        if get_worker_info() is None:
            return dict(zip(("random", "numpy", "torch"), self.own.random(3).tolist(), strict=True))
        return {
            "random": random.random(),
            "numpy": np.random.rand(),  # noqa: NPY002
            "torch": torch.rand(()).item(),
        }


def seed_worker(worker: int) -> None:
    """Seed all families in a worker, as the documentation of PyTorch has it."""
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002


def loader(samples: Any, request: Request, **more: Any) -> Loader:
    """Return a DataLoader with a generator of its own."""
    return DataLoader(
        samples,
        batch_size=request.batch_size,
        shuffle=request.shuffle,
        drop_last=request.drop_last,
        num_workers=request.num_workers,
        generator=torch.Generator().manual_seed(request.seed),
        **more,
    )


@fails(promises=BY_WORKERS)
def workers_seeded(source: Source, request: Request) -> Loader:
    """Seeds all families in each worker."""
    return loader(InWorkers(source, request), request, worker_init_fn=seed_worker)


@fails("test_passes_do_not_disturb_each_other", promises=BY_WORKERS)
def workers_that_live_on(source: Source, request: Request) -> Loader:
    """Seeds all families in each worker, once for all epochs; a second pass takes the workers of the first."""
    living = {"persistent_workers": True} if request.num_workers else {}
    return loader(InWorkers(source, request), request, worker_init_fn=seed_worker, **living)
