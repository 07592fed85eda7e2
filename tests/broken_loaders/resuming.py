"""Loaders that do not go on from their state as they should."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from honest import fails
from resumable import (
    AUGMENTED,
    BUFFERED,
    RESUMING,
    SHARDED,
    WITH_WORKERS,
    Augmented,
    BoundToItsCrew,
    BoundToItsWorld,
    ByWorker,
    GeneratorSaved,
    Loading,
    OwnGenerator,
    Ranked,
    Resumable,
    State,
    Streaming,
)
from torch import Tensor

from loaderproof.loaders import Promise, Request, Source

REST = "test_resumes_the_rest_of_the_epoch"
END = "test_resumes_at_the_end_of_an_epoch"
LATER = "test_epochs_after_a_resumed_one_are_complete"
TWICE = "test_resumes_twice_in_a_row"
RANKS = "test_resumes_on_every_rank"
OTHER_WORKERS = "test_state_fits_another_number_of_workers_or_is_refused"
OTHER_WORLD = "test_state_fits_another_world_size_or_is_refused"
USED = "test_resumes_in_a_used_loader_or_refuses"
DRAWS = "test_random_draws_go_on_after_resuming"
ANY_TIME = "test_state_can_be_taken_at_any_time"
PLAIN = "test_state_is_plain_data"
STAYS = "test_state_stays_as_it_was_taken"
UNDISTURBED = "test_taking_the_state_disturbs_nothing"
STARTS_NOTHING = "test_asking_for_the_state_starts_nothing"


@fails(REST, rows=["I1"], promises=RESUMING)
class ForgetsThePermutation(OwnGenerator):
    """Saves the position, and loads it into another permutation."""


@fails(REST, rows=["I1"], promises=RESUMING - {Promise.SEEDED_ORDER})
class DrawsAnotherPermutation(Resumable):
    """Saves the position, and shuffles with a generator that nobody seeds."""

    def permutation(self) -> list[int]:
        return np.random.default_rng().permutation(len(self.source)).tolist()


@fails(REST, rows=["I16"], promises=RESUMING)
class ForgetsTheEpoch(Resumable):
    """Saves the position alone."""

    def state_dict(self) -> State:
        return {"batch": self.handed}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict({**state, "epoch": 0})


@fails(REST, rows=["I2"], promises=RESUMING, variants=BUFFERED)
class ForgetsItsBuffer(Streaming):
    """Saves how far it has read, and not what its shuffle buffer holds."""

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict({**state, "held": []})


@fails(LATER, rows=["I3"], promises=RESUMING)
class SkipsForEver(Resumable):
    """Skips in every epoch what had come before the interruption."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.skip = 0

    def begin(self) -> None:
        super().begin()
        self.handed = max(self.handed, self.skip)

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.skip = self.handed % len(self)


@fails(LATER, END, promises=RESUMING)
class CountsFromWhereItLoaded(Resumable):
    """Goes back to epoch 1 after the epoch that was loaded."""

    def begin(self) -> None:
        if not self.loaded and getattr(self, "resumed", False):
            self.epoch, self.resumed = 0, False
        super().begin()

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.resumed = state["epoch"] > 0


@fails(RANKS, rows=["I5"], promises=SHARDED)
class CorrectsByTheWorldSize(BoundToItsWorld):
    """Takes away from the position what other ranks had loaded ahead."""

    def state_dict(self) -> State:
        state = super().state_dict()
        return {**state, "batch": max(0, state["batch"] - (self.request.world_size - 1))}


@fails(END, rows=["I6"], promises=RESUMING)
class EndsAtTheBeginning(Resumable):
    """Saves the end of an epoch as its beginning."""

    def state_dict(self) -> State:
        return {"epoch": self.epoch, "batch": self.handed % len(self)}


@fails(END, rows=["I6"], promises=RESUMING)
class LosesAnEpoch(Resumable):
    """Counts the epoch at its end, and again when it is loaded."""

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        if self.handed == len(self):
            self.epoch, self.handed = self.epoch + 2, 0


@fails(TWICE, rows=["I8"], promises=WITH_WORKERS)
class FillsInWorkersLate(BoundToItsCrew):
    """Saves after it has resumed only the positions of those workers that have had their turn."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.seen: dict[str, int] | None = None

    def state_dict(self) -> State:
        state = super().state_dict()
        if self.seen is None:
            return state
        moved = {name: at for name, at in state["workers"].items() if at != self.seen.get(name)}
        return {**state, "workers": {**self.nobody(), **moved}}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.seen = dict(self.handed_by)


@fails(TWICE, promises=RESUMING)
class CountsFromTheCut(Resumable):
    """Counts after it has resumed from where that was."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.cut = 0

    def begin(self) -> None:
        self.cut = self.cut if self.loaded else 0
        super().begin()

    def state_dict(self) -> State:
        return {"epoch": self.epoch, "batch": self.handed - self.cut}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.cut = self.handed


@fails(ANY_TIME, rows=["I9"], promises=RESUMING)
class NoStateBeforeTheFirstBatch(Resumable):
    """Has no state before there was a batch."""

    def __iter__(self) -> Iterator[Any]:
        for batch in super().__iter__():
            self.state = super().state_dict()
            yield batch

    def state_dict(self) -> State:
        return dict(self.state)


@fails(ANY_TIME, promises=RESUMING)
class NoStateAtTheEnd(Resumable):
    """Has the state of its iterator, which is gone at the end."""

    def state_dict(self) -> State:
        if self.handed == len(self):
            msg = "no iterator"
            raise RuntimeError(msg)
        return super().state_dict()


@fails(REST, rows=["I10"], promises=RESUMING)
class IgnoresTheState(Resumable):
    """Accepts a state and does nothing with it."""

    def load_state_dict(self, state: State) -> None:
        pass


@fails(OTHER_WORLD, rows=["I11"], promises=SHARDED)
class SkipsBatchesOfAnotherWorld(Ranked):
    """Skips as many batches as were handed out, whatever the number of ranks was."""


@fails(OTHER_WORKERS, rows=["I11"], promises=WITH_WORKERS)
class DropsPositionsOfOtherWorkers(ByWorker):
    """Takes from the state the positions of the workers that it has."""

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.handed_by = {name: at for name, at in self.handed_by.items() if name in self.nobody()}


@fails(REST, rows=["I15"], promises=WITH_WORKERS)
class NeedsWorkers(ByWorker):
    """Can load a state only if it has workers."""

    def load_state_dict(self, state: State) -> None:
        if self.request.num_workers == 0 or len(state["workers"]) != self.crew:
            msg = f"a state of {len(state['workers'])} workers for {self.request.num_workers}"
            raise ValueError(msg)
        super().load_state_dict(state)


@fails(STAYS, rows=["I17"], promises=RESUMING)
class LiveState(Resumable):
    """Hands out the dict in which it keeps its position."""

    def __init__(self, source: Source, request: Request) -> None:
        self.state: State = {}
        super().__init__(source, request)

    def state_dict(self) -> State:
        return self.state

    @property
    def handed(self) -> int:
        """Batches handed out."""
        return self.state["batch"]

    @handed.setter
    def handed(self, value: int) -> None:
        self.state.update(epoch=self.epoch, batch=value)

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)


@fails(STAYS, rows=["I17"], promises=RESUMING)
class StateOfEachBatch(Resumable):
    """Makes a new dict for each batch, hands it out, and reads its position from it."""

    def __iter__(self) -> Iterator[Any]:
        self.begin()
        self.state = self.fresh()
        for places in self.batches(self.order())[self.handed :]:
            self.handed = self.state["batch"] + 1
            self.state = self.fresh()
            yield self.batch(places)

    def fresh(self) -> State:
        """Return a state of now."""
        return {"epoch": self.epoch, "batch": self.handed}

    def state_dict(self) -> State:
        return self.fresh() if self.loaded else self.state


@fails(STAYS, rows=["I17"], promises=WITH_WORKERS)
class LivePositions(BoundToItsCrew):
    """Hands out a new dict that holds its own one of the workers' positions."""

    def state_dict(self) -> State:
        return {"epoch": self.epoch, "workers": self.handed_by}


@fails(STAYS, rows=["I17"], promises=WITH_WORKERS)
class KeepsWhatItLoads(BoundToItsCrew):
    """Goes on counting in what it was given to load."""

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.handed_by = state["workers"]


@fails(PLAIN, promises=RESUMING)
class TensorInTheState(GeneratorSaved):
    """Saves the generator's state as the tensor that it is."""

    def state_dict(self) -> State:
        return {**super().state_dict(), "generator": self.was.clone()}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict({**state, "generator": state["generator"].tolist()})


@fails(PLAIN, promises=RESUMING)
class NumbersAsKeys(Resumable):
    """Saves a position for each shard, by number."""

    def state_dict(self) -> State:
        return {"epoch": self.epoch, "shards": {0: self.handed}}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict({"epoch": state["epoch"], "batch": state["shards"][0]})


@fails(REST, promises=WITH_WORKERS)
class CountsWhatIsLoadedAhead(Loading):
    """Counts the batches that its workers have been given."""

    AHEAD = 2

    def state_dict(self) -> State:
        ahead = self.AHEAD if self.handed else 0
        return {"epoch": self.epoch, "batch": min(self.handed + ahead, len(self))}


@fails(UNDISTURBED, promises=RESUMING)
class DrawsForTheState(GeneratorSaved):
    """Puts a number that it draws into each state."""

    def state_dict(self) -> State:
        return {**super().state_dict(), "name": int(torch.randint(1000, (1,), generator=self.generator))}


@fails(STARTS_NOTHING, promises=RESUMING)
class ThreadForTheState(Resumable):
    """Starts a thread to find out where it is."""

    def state_dict(self) -> State:
        if self.loaded:
            threading.Timer(0.5, super().state_dict).start()
        return super().state_dict()


@fails(STARTS_NOTHING, promises=RESUMING)
class ReadsForTheState(Resumable):
    """Reads the next batch before it says where it is."""

    def state_dict(self) -> State:
        for places in self.batches(self.order())[self.handed : self.handed + 1]:
            self.batch(places)
        return super().state_dict()


@fails(USED, promises=RESUMING)
class KeepsItsPermutation(Resumable):
    """Draws the permutation of an epoch once, and not again when a state is loaded."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.drawn: list[int] = []

    def begin(self) -> None:
        self.drawn = self.drawn if self.loaded else []
        super().begin()

    def permutation(self) -> list[int]:
        self.drawn = self.drawn or super().permutation()
        return self.drawn


@fails(DRAWS, rows=["A10"], promises=AUGMENTED)
class DrawsAnew(Augmented):
    """Draws from a generator that starts anew with each loader."""

    def draw(self, places: list[int]) -> Tensor:
        return torch.rand(len(places), generator=self.generator)
