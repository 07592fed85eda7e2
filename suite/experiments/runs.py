"""Watches a run of a loader, and takes its state on the way, in the loader's own process."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from loaderproof.suite.continuation import Cut, Draws, Places, Run, Saved
from loaderproof.suite.experiments import recorder, states
from loaderproof.suite.experiments.catalogue import Catalogue
from loaderproof.suite.experiments.workbench import Workbench, start_epoch
from loaderproof.suite.identities import Found
from loaderproof.suite.observation import Scenario

# Of the first epochs of a run the states are taken; the later ones show how it goes on.
CUT_EPOCHS = 2
# An epoch of more batches is one of somebody's own data, and every pass is dear.
_SHORT = 8
_LONG_EPOCHS = 3
# Stands for the moment after the end of an epoch.
AFTER = -1


def watch_run(bench: Workbench, scenario: Scenario, *, few: bool) -> Run:
    """Watch a run without an interruption, and take states on the way.

    Args:
        bench: of the loader.
        scenario: what it is asked for; of much data, only as many epochs as needed are watched.
        few: whether the states of two moments are enough.
    """
    run = Run([], [], [])
    epochs = min(scenario.epochs, _LONG_EPOCHS) if _is_long(bench, scenario) else scenario.epochs
    wanted = _wanted(bench, scenario, few=few)
    with bench.opened(scenario) as loader:
        if (0, 0) in wanted:
            run.saved.append(states.taken(loader, Cut(0, 0, moment="before")))
        for number in range(epochs):
            start_epoch(loader, number)
            taker = _Taker(loader, number, {count for epoch, count in wanted if epoch == number})
            places, draws = _watched(bench, scenario, taker.taking(iter(loader)))
            run.epochs.append(places)
            run.draws.append(draws)
            run.saved += taker.saved_of(len(places))
    return run


def is_dear(bench: Workbench, scenario: Scenario) -> bool:
    """Tell whether every pass takes its time: to start workers, or to read much data."""
    return scenario.request.num_workers > 0 or _is_long(bench, scenario)


def _is_long(bench: Workbench, scenario: Scenario) -> bool:
    return _batches_owed(bench, scenario) > _SHORT


def _batches_owed(bench: Workbench, scenario: Scenario) -> int:
    request = scenario.request
    return math.ceil(len(bench.source(scenario)) / (request.batch_size * request.world_size))


def _wanted(bench: Workbench, scenario: Scenario, *, few: bool) -> set[tuple[int, int]]:
    """Return after how many batches of which epoch states are taken."""
    batches = _batches_owed(bench, scenario)
    middle, last = batches // 2, batches - 1
    if few:
        return {(0, 1), (1, middle)}
    if _is_long(bench, scenario):
        return {(0, 0), (0, 1), (1, middle), (0, AFTER)}
    if is_dear(bench, scenario):
        first = {(0, count) for count in (0, 1, middle, last, batches, AFTER)}
        return first | {(1, count) for count in (middle, last, AFTER)}
    return {(epoch, count) for epoch in range(CUT_EPOCHS) for count in (*range(2 * batches), AFTER)}


class _Taker:
    """Takes states of a loader during one of its passes."""

    def __init__(self, loader: Any, epoch: int, wanted: set[int]) -> None:
        self._loader, self._epoch, self._wanted = loader, epoch, wanted
        self._saved: list[Saved] = []

    def taking(self, passing: Iterator[Any]) -> Iterator[Any]:
        """Yield the batches of a pass; take states before the first, after each, and after the end."""
        count = 0
        self._take(count, "during")
        for count, batch in enumerate(rest_of(passing), 1):
            self._take(count, "during")
            yield batch
        self._take(count, "after")

    def _take(self, count: int, moment: str) -> None:
        if (AFTER if moment == "after" else count) in self._wanted:
            self._saved.append(states.taken(self._loader, Cut(self._epoch, count, moment=moment)))

    def saved_of(self, batches: int) -> list[Saved]:
        """Return the states, when it is known how many batches there are."""
        return [
            replace(one, cut=replace(one.cut, complete=one.cut.batches == batches)) for one in self._saved
        ]


def _watched(bench: Workbench, scenario: Scenario, passing: Iterator[Any]) -> tuple[list[Places], Draws]:
    """Return the samples of each batch of a pass, and what was drawn for them."""
    batches: list[Places] = []
    drawn: Draws = {}
    for part, draws in _batches(bench, scenario, limited(bench, scenario, passing)):
        batches.append(part)
        for name, values in draws.items():
            drawn.setdefault(name, []).extend(values)
    return batches, drawn


def places_of(bench: Workbench, scenario: Scenario, batches: Iterable[Any]) -> tuple[Places, Draws]:
    """Return the samples of a pass, and what was drawn for them."""
    each, drawn = _watched(bench, scenario, iter(batches))
    return [place for part in each for place in part], drawn


def _batches(bench: Workbench, scenario: Scenario, batches: Iterable[Any]) -> Iterator[tuple[Places, Draws]]:
    catalogue = bench.catalogue(scenario)
    for images, labels, extras in recorder.batches(batches):
        found = _found(catalogue, images, extras)
        places = catalogue.settled(found.index, recorder.as_array(labels).reshape(-1).astype(np.int64))
        draws = {name: recorder.as_array(value).tolist() for name, value in extras.items() if name != "id"}
        yield places.tolist(), draws


def limited(bench: Workbench, scenario: Scenario, batches: Iterable[Any]) -> Iterator[Any]:
    """Return the batches of a pass, of an endless one only so many as show that."""
    return itertools.islice(batches, limit(bench, scenario))


def limit(bench: Workbench, scenario: Scenario) -> int:
    """Return how many batches show that a pass has no end."""
    return 2 * len(bench.source(scenario)) + 4


def rest_of(passing: Iterator[Any]) -> Iterator[Any]:
    """Yield what is left of a pass; an iterator need not be iterable itself."""
    while True:
        try:
            yield next(passing)
        except StopIteration:
            return


def _found(catalogue: Catalogue, images: Any, extras: recorder.Extras) -> Found:
    array = recorder.as_array(images)
    return (
        catalogue.named(array, recorder.as_array(extras["id"])) if "id" in extras else catalogue.find(array)
    )
