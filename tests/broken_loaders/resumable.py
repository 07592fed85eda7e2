"""Right loaders that go on from their state, in the many ways there are, and what broken ones are made of."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from honest import NO_WORKERS, Honest, Samples, fails
from torch import Tensor
from torch.utils.data import DataLoader

from loaderproof.loaders import Promise, Request, Source, Variant

RESUMING = NO_WORKERS | {Promise.RESUMING}
SHARDED = RESUMING | {Promise.SHARDING}
WITH_WORKERS = RESUMING | {Promise.WORKERS}
AUGMENTED = RESUMING | {Promise.AUGMENTATION}
SLOTS = 8
BUFFERED = {"": Variant(shuffle_buffer=SLOTS)}
State = dict[str, Any]


class Resumable(Honest):
    """Knows which epoch it is in and how many of its batches it has handed out."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.epoch, self.handed, self.loaded = 0, 0, True

    def __iter__(self) -> Iterator[Any]:
        self.begin()
        for places in self.batches(self.order())[self.handed :]:
            self.handed += 1
            yield self.batch(places)

    def begin(self) -> None:
        """Begin the next epoch, or go on in the one that was loaded."""
        if not self.loaded:
            self.epoch, self.handed = self.epoch + 1, 0
        self.loaded = False

    def permutation(self) -> list[int]:
        rng = np.random.default_rng((self.request.seed, self.epoch))
        return rng.permutation(len(self.source)).tolist()

    def state_dict(self) -> State:
        """Return plain data that says where the loader is."""
        return {"epoch": self.epoch, "batch": self.handed}

    def load_state_dict(self, state: State) -> None:
        """Take over where another loader was."""
        self.epoch, self.handed, self.loaded = state["epoch"], state["batch"], True


@fails(promises=RESUMING)
class EmptyPass(Resumable):
    """Goes on from the end of an epoch with an empty pass."""


@fails(promises=RESUMING)
class NextAtOnce(Resumable):
    """Goes on from the end of an epoch with the next one."""

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        if self.handed == len(self):
            self.epoch, self.handed = self.epoch + 1, 0


@fails(promises=RESUMING)
class HookBeginsAnew(Resumable):
    """Begins an epoch anew when it is told its number."""

    def set_epoch(self, epoch: int) -> None:
        """Take over which epoch comes."""
        self.epoch, self.handed, self.loaded = epoch, 0, True


@fails(promises=RESUMING)
class HookKeepsThePlace(Resumable):
    """Saves no epoch, as it is told the number of each."""

    def begin(self) -> None:
        self.handed = 0 if not self.loaded else self.handed
        self.loaded = False

    def set_epoch(self, epoch: int) -> None:
        """Take over which epoch comes."""
        self.epoch = epoch

    def state_dict(self) -> State:
        return {"batch": self.handed}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict({"epoch": self.epoch, **state})


class OwnGenerator(Resumable):
    """Shuffles with a generator that goes on from epoch to epoch."""

    def begin(self) -> None:
        super().begin()
        self.was = self.generator.get_state()

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.was = self.generator.get_state()

    def permutation(self) -> list[int]:
        return torch.randperm(len(self.source), generator=self.generator).tolist()


class GeneratorSaved(OwnGenerator):
    """Saves the generator's state of before the epoch."""

    def state_dict(self) -> State:
        return {**super().state_dict(), "generator": self.was.tolist()}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.was = torch.tensor(state["generator"], dtype=torch.uint8)
        self.generator.set_state(self.was)


@fails(promises=RESUMING)
class SavesItsGenerator(GeneratorSaved):
    """Saves the generator's state of before the epoch."""


@fails(promises=RESUMING - {Promise.SEEDED_ORDER})
class NobodySeeds(Resumable):
    """Shuffles as it likes, and saves what is left of the epoch, which comes in another order again."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.left = super().order()

    def __iter__(self) -> Iterator[Any]:
        self.begin()
        left, size = self.left, self.request.batch_size
        while left:
            places, left = left[:size], left[size:]
            self.left = left
            if len(places) < self.request.batch_size and self.request.drop_last:
                break
            yield self.batch(places)

    def begin(self) -> None:
        self.left = super().order() if not self.loaded else self.left
        if self.request.shuffle:
            self.left = np.random.default_rng().permutation(self.left).tolist()
        self.loaded = False

    def permutation(self) -> list[int]:
        return np.random.default_rng().permutation(len(self.source)).tolist()

    def state_dict(self) -> State:
        return {"left": list(self.left)}

    def load_state_dict(self, state: State) -> None:
        self.left, self.loaded = list(state["left"]), True


class Stream:
    """Reads places in order through a shuffle buffer.

    Args:
        count: how many places there are.
        slots: of the buffer.
        seed: of what is chosen.
    """

    def __init__(self, count: int, slots: int, seed: tuple[int, ...]) -> None:
        self.count, self.slots = count, slots
        self.rng = np.random.default_rng(seed)
        self.read, self.held = 0, []

    def places(self, number: int) -> list[int]:
        """Return so many places, or what is left."""
        given: list[int] = []
        while len(given) < number:
            more = min(self.slots - len(self.held), self.count - self.read)
            self.held += range(self.read, self.read + more)
            self.read += more
            if not self.held:
                break
            given.append(self.held.pop(int(self.rng.integers(len(self.held)))))
        return given


class Streaming(Resumable):
    """Shuffles with a buffer."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.stream = self.of_epoch()

    def of_epoch(self) -> Stream:
        """Return the stream of an epoch."""
        slots = SLOTS if self.request.shuffle else 1
        return Stream(len(self.source), slots, (self.request.seed, self.epoch))

    def begin(self) -> None:
        loaded = self.loaded
        super().begin()
        self.stream = self.stream if loaded else self.of_epoch()

    def __iter__(self) -> Iterator[Any]:
        self.begin()
        stream, size = self.stream, self.request.batch_size
        while places := stream.places(size):
            if len(places) < size and self.request.drop_last:
                break
            yield self.batch(places)

    def state_dict(self) -> State:
        rng = copy.deepcopy(self.stream.rng.bit_generator.state)
        return {"epoch": self.epoch, "read": self.stream.read, "held": list(self.stream.held), "rng": rng}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict({**state, "batch": 0})
        self.stream = self.of_epoch()
        self.stream.read, self.stream.held = state["read"], list(state["held"])
        self.stream.rng.bit_generator.state = state["rng"]


@fails(promises=RESUMING, variants=BUFFERED)
class SavesItsBuffer(Streaming):
    """Saves what its shuffle buffer holds."""


class Ranked(Resumable):
    """Deals each batch of all ranks out among them."""

    def state_dict(self) -> State:
        return {**super().state_dict(), "world_size": self.request.world_size}

    def __len__(self) -> int:
        return len(self.batches(self.mine(list(range(len(self.source))))))

    def mine(self, places: list[int]) -> list[int]:
        """Return this rank's part."""
        return places[self.request.rank :: self.request.world_size]

    def order(self) -> list[int]:
        return self.mine(super().order())


class BoundToItsWorld(Ranked):
    """Refuses a state that was taken with another number of ranks."""

    def load_state_dict(self, state: State) -> None:
        if state["world_size"] != self.request.world_size:
            msg = (
                f"the state is of a world of {state['world_size']}, this is one of {self.request.world_size}"
            )
            raise ValueError(msg)
        super().load_state_dict(state)


@fails(promises=SHARDED)
class RefusesAnotherWorld(BoundToItsWorld):
    """Refuses a state that was taken with another number of ranks."""


@fails(promises=SHARDED)
class CutsTheRestAnew(Ranked):
    """Counts what all ranks have had, and deals out the rest among those that there are now."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.had = 0

    def begin(self) -> None:
        self.had = self.had if self.loaded else 0
        super().begin()

    def order(self) -> list[int]:
        return self.mine(Honest.order(self)[self.had :])

    def state_dict(self) -> State:
        had = self.had + self.handed * self.request.batch_size * self.request.world_size
        return {"epoch": self.epoch, "had": min(had, len(self.source))}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict({**state, "batch": 0})
        self.had = state["had"]


class Loading(Resumable):
    """Has its batches loaded by the workers of a DataLoader."""

    def __iter__(self) -> Iterator[Any]:
        self.begin()
        for batch in self.loading():
            self.handed += 1
            yield batch

    def loading(self) -> DataLoader:
        """Return what loads the rest of an epoch."""
        return DataLoader(
            Samples(self),  # type: ignore[arg-type]
            batch_sampler=self.batches(self.order())[self.handed :],
            num_workers=self.request.num_workers,
            generator=torch.Generator().manual_seed(0),
        )


@fails(promises=WITH_WORKERS)
class LoadedByWorkers(Loading):
    """Counts what it hands out, whoever loads it."""


class ByWorker(Resumable):
    """Has workers that take turns, and a position for each of them."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.crew = max(1, request.num_workers)
        self.handed_by = self.nobody()

    def nobody(self) -> dict[str, int]:
        """Return a position of 0 for each worker."""
        return {str(worker): 0 for worker in range(self.crew)}

    def begin(self) -> None:
        self.handed_by = self.handed_by if self.loaded else self.nobody()
        super().begin()

    def __iter__(self) -> Iterator[Any]:
        self.begin()
        batches, handed_by = self.batches(self.order()), self.handed_by
        parts = [batches[worker :: self.crew] for worker in range(self.crew)]
        for turn in range(sum(handed_by.values()), len(batches)):
            worker = turn % self.crew
            at = handed_by.get(str(worker), 0)
            handed_by[str(worker)] = at + 1
            yield self.batch(parts[worker][at])

    def state_dict(self) -> State:
        return {"epoch": self.epoch, "workers": dict(self.handed_by)}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict({**state, "batch": 0})
        self.handed_by = dict(state["workers"])


class BoundToItsCrew(ByWorker):
    """Refuses a state of another number of workers."""

    def load_state_dict(self, state: State) -> None:
        if len(state["workers"]) != self.crew:
            msg = f"the state is of {len(state['workers'])} workers, there are {self.crew}"
            raise ValueError(msg)
        super().load_state_dict(state)


@fails(promises=WITH_WORKERS)
class RefusesOtherWorkers(BoundToItsCrew):
    """Refuses a state of another number of workers."""


@fails(promises=RESUMING)
class RefusesOnceUsed(Resumable):
    """Refuses a state once it has been iterated."""

    def load_state_dict(self, state: State) -> None:
        if not self.loaded or self.handed:
            msg = "this loader has been iterated; open a new one to load a state"
            raise RuntimeError(msg)
        super().load_state_dict(state)


class Augmented(Resumable):
    """Adds to each sample what it draws for it, if it is asked to."""

    def batch(self, places: list[int]) -> Any:
        images, labels = super().batch(places)
        if not self.request.augment:
            return images, labels
        draws = self.draw(places)
        return (
            images * (1 - draws[:, None, None, None] / 4),
            labels,
            {"id": torch.tensor(places), "dim": draws},
        )

    def draw(self, places: list[int]) -> Tensor:
        """Return what is drawn for each sample."""
        numbers = [np.random.default_rng((self.request.seed, self.epoch, place)).random() for place in places]
        return torch.tensor(numbers, dtype=torch.float32)


@fails(promises=AUGMENTED)
class DrawsByEpoch(Augmented):
    """Draws for each sample from the seed, the epoch and the sample."""
