"""The scenarios that the rules are tried in; all over small probes, simple ones first."""

from __future__ import annotations

from dataclasses import replace

from loaderproof.loaders import Promise
from loaderproof.suite.judged import Judged
from loaderproof.suite.observation import Scenario

# 23 is prime: it leaves a rest for every batch size, number of workers and number of ranks.
COLOUR, GREY = "probe:23:12x20x3", "probe:24:9x14x1"
MANY = "probe:300:9x14x1"
ONE, TWO = "probe:1:12x20x3", "probe:2:12x20x3"
# Ten classes, sorted, are what a narrow shuffle fails to mix.
SORTED, SORTED_BATCH = "probe:1000:4x7x1:10", 32


def sizes(subject: Judged) -> list[Scenario]:
    """Return batches that leave a rest, divide, hold one, exceed the data; and the smallest data."""
    over = (COLOUR, 4), (GREY, 4), (COLOUR, 1), (GREY, 64), (ONE, 4), (TWO, 1), (MANY, 128)
    return [subject.scenario(data, batch_size=size) for data, size in over]


def everything(subject: Judged) -> list[Scenario]:
    """Return all sizes in order, and one in a random order."""
    return [*sizes(subject), shuffled(subject)]


def plain(subject: Judged) -> Scenario:
    """Return the simplest scenario."""
    return subject.scenario(COLOUR, batch_size=4)


def shuffled(subject: Judged, seed: int | None = None) -> Scenario:
    """Return three epochs in a random order, with the seed of the run or another."""
    seed = subject.seed if seed is None else seed
    return subject.scenario(COLOUR, epochs=3, batch_size=4, shuffle=True, seed=seed)


def contents(subject: Judged) -> list[Scenario]:
    """Return everything, and what loaders that drop the rest make of it."""
    drops = Promise.DROP_LAST in subject.case.description.promises
    return [*everything(subject), *([rest_dropped(subject)] if drops else [])]


def rest_dropped(subject: Judged) -> Scenario:
    """Return epochs of which a rest is dropped, shuffled where that is promised.

    Two workers that each drop a rest of their own drop more than a batch here.
    """
    shuffle = Promise.SHUFFLE in subject.case.description.promises
    return subject.scenario(
        COLOUR, epochs=4, batch_size=7, drop_last=True, shuffle=shuffle, seed=subject.seed
    )


def without_workers(scenario: Scenario) -> Scenario:
    """Return the same scenario for a loader without workers."""
    return replace(scenario, request=replace(scenario.request, num_workers=0))
