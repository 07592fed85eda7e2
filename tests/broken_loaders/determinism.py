"""Loaders whose order depends on more than seed and epoch."""

from __future__ import annotations

import copy
import resource
from collections.abc import Iterator
from typing import Any

import numpy as np
from honest import WITH_WORKERS, Honest, fails

from loaderproof.loaders import Request, Source

TIME = "test_order_does_not_depend_on_time"
TOLD = "test_set_epoch_gives_the_order_of_that_epoch"
ANOTHER_SEED = "test_another_seed_gives_another_order"


class AsTheyGetReady(Honest):
    """Reads some samples at once, and hands out first what is ready first."""

    at_once = 4

    def permutation(self) -> list[int]:
        order, size = super().permutation(), self.at_once
        windows = (order[start : start + size] for start in range(0, len(order), size))
        return [place for window in windows for place in self.ready(window)]

    def ready(self, window: list[int]) -> list[int]:
        """Return places as their samples get ready: last those that had to be waited for, such as for a disk."""
        late = []
        for place in window:
            before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
            self.source[place]
            if resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw > before:
                late.append(place)
        return [place for place in window if place not in late] + late[::-1]


@fails(TIME)
class FirstReadyFirstOut(AsTheyGetReady):
    """Hands out what is ready first."""


@fails(TIME, rows=["J1"], promises=WITH_WORKERS)
class RacesOnlyInACrowd(AsTheyGetReady):
    """Hands out what is ready first, but only where there are more workers than samples."""

    at_once = 64

    def ready(self, window: list[int]) -> list[int]:
        return super().ready(window) if self.request.num_workers > len(self.source) else window


@fails()
class WaitsForItsTurn(AsTheyGetReady):
    """Reads some samples at once, and hands them out in the order in which they were asked for."""

    def ready(self, window: list[int]) -> list[int]:
        super().ready(window)
        return window


class Told(Honest):
    """Takes the order from the seed and from the epoch that it is told."""

    told = 0

    def set_epoch(self, epoch: int) -> None:
        """Take over which epoch comes."""
        self.told = epoch

    def permutation(self) -> list[int]:
        return np.random.default_rng((self.request.seed, self.told)).permutation(len(self.source)).tolist()


@fails()
class GoesToTheEpoch(Told):
    """Gives any epoch that it is told."""


@fails(TOLD, rows=["B9"])
class ToldTheParentOnly(Told):
    """The copy that a worker got counts its epochs, and what the parent is told does not reach it."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.worker = copy.copy(self)
        self.worker.told = -1

    def __iter__(self) -> Iterator[Any]:
        self.worker.told += 1
        return Honest.__iter__(self.worker)


@fails(TOLD)
class TakesTheFirstEpochOnly(Told):
    """Begins with the epoch that it is told first, and counts on from there."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.first: int | None = None

    def set_epoch(self, epoch: int) -> None:
        self.first = epoch if self.first is None else self.first

    def __iter__(self) -> Iterator[Any]:
        self.told = (self.first or 0) + self.epoch + 1
        return super().__iter__()


@fails(ANOTHER_SEED, rows=["J4"], promises=WITH_WORKERS)
class SeedReachesWorkersOnly(Honest):
    """Without workers it shuffles as if the seed were 0."""

    def __init__(self, source: Source, request: Request) -> None:
        super().__init__(source, request)
        self.generator.manual_seed(request.seed if request.num_workers else 0)
