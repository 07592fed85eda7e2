"""The scenarios that the rules are tried in; all over small probes, simple ones first."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol, cast

import pytest

from loaderproof.loaders import Promise, Request
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.observation import Epoch, Observation, Scenario

WATCH = "watching:watch"
AFTER_BREAK = "watching:watch_after_break"
Check = Callable[[Judged, Observation, Epoch, Place], None]

# 23 is prime: it leaves a rest for every batch size, number of workers and number of ranks.
COLOUR, GREY = "probe:23:12x20x3", "probe:24:9x14x1"
MANY = "probe:300:9x14x1"
ONE, TWO = "probe:1:12x20x3", "probe:2:12x20x3"
# Its sides are equal, so that no shape tells them apart; its images are neither black nor white anywhere.
SQUARE = "probe:24:12x12x3:1000:40-215"
# Ten classes, sorted, are what a narrow shuffle fails to mix.
SORTED, SORTED_BATCH = "probe:1000:4x7x1:10", 32


def any_request(_: Request) -> bool:
    """Tell that a rule holds whatever is asked for."""
    return True


def whole(request: Request) -> bool:
    """Tell whether every sample is asked for."""
    return request.world_size == 1 and not request.drop_last


def whole_by_workers(request: Request) -> bool:
    """Tell whether workers are asked for every sample."""
    return request.num_workers > 0 and whole(request)


def dropping(request: Request) -> bool:
    """Tell whether a rest is to be left out of all the data."""
    return request.world_size == 1 and request.drop_last


def in_order(request: Request) -> bool:
    """Tell whether the order of the source is asked for; what fills up the end of a rank may begin it anew."""
    return request.world_size == 1 and not request.shuffle


def at_random(request: Request) -> bool:
    """Tell whether a random order is asked for."""
    return request.shuffle


class Rule(Protocol):
    """A test that makes one check on every epoch of some scenarios.

    Attributes:
        check: what it asserts of one epoch.
        fits: whether it may be asserted of an epoch of this request.
        experiment: what the epochs come from.
    """

    check: Check
    fits: Callable[[Request], bool]
    experiment: str
    __name__: str

    def __call__(self, subject: Judged) -> None:
        """Make the check in every scenario."""


def over(
    scenarios: Callable[[Judged], Iterable[Scenario]],
    fits: Callable[[Request], bool] = any_request,
    experiment: str = WATCH,
    **more: object,
) -> Callable[[Check], Rule]:
    """Make a test of what is asserted of one epoch.

    Args:
        scenarios: the ones that the test tries; all of them fit.
        fits: tells which other requests a search may try the check with.
        experiment: what the epochs come from.
        more: further arguments of the experiment.
    """

    def rule(check: Check) -> Rule:
        @functools.wraps(check)
        def test(subject: Judged) -> None:
            for seen, epoch, place in subject.watch(scenarios(subject), experiment, **more):
                check(subject, seen, epoch, place)

        # pytest reads the arguments of what is wrapped, if it can find it.
        del test.__wrapped__
        made = cast("Any", test)
        made.check, made.fits, made.experiment = check, fits, experiment
        return cast("Rule", made)

    return rule


def sizes(subject: Judged) -> list[Scenario]:
    """Return batches that leave a rest, divide, hold one, exceed the data; and the smallest data."""
    over = (COLOUR, 4), (GREY, 4), (COLOUR, 1), (GREY, 64), (ONE, 4), (TWO, 1), (MANY, 128)
    return [subject.scenario(data, batch_size=size) for data, size in over]


def everything(subject: Judged) -> list[Scenario]:
    """Return all sizes in order, and one in a random order."""
    return [*sizes(subject), shuffled(subject), long(subject)]


def plain(subject: Judged) -> Scenario:
    """Return the simplest scenario."""
    return subject.scenario(COLOUR, batch_size=4)


def shuffled(subject: Judged, seed: int | None = None) -> Scenario:
    """Return three epochs in a random order, with the seed of the run or another."""
    seed = subject.seed if seed is None else seed
    return subject.scenario(COLOUR, epochs=3, batch_size=4, shuffle=True, seed=seed)


def long(subject: Judged) -> Scenario:
    """Return more epochs than most loaders are tried with, in a random order."""
    return subject.scenario(GREY, epochs=6, batch_size=8, shuffle=True, seed=subject.seed)


def shuffled_once(subject: Judged) -> list[Scenario]:
    """Return the one scenario in a random order that is watched twice, and with other seeds."""
    return [shuffled(subject)]


def repeatedly(subject: Judged) -> list[Scenario]:
    """Return epochs in a random order: three in many batches, and many."""
    return [shuffled(subject), long(subject)]


def square(subject: Judged) -> Scenario:
    """Return one batch of square images that do not fill the range."""
    return subject.scenario(SQUARE, epochs=1, batch_size=24)


def contents(subject: Judged) -> list[Scenario]:
    """Return everything, square images, and what loaders that drop the rest make of it."""
    drops = Promise.DROP_LAST in subject.case.description.promises
    return [*everything(subject), square(subject), *([rest_dropped(subject)] if drops else [])]


def by_workers(subject: Judged) -> list[Scenario]:
    """Return all sizes, for loaders that load them with workers here."""
    if subject.case.workers == 0:
        pytest.skip("this is the case without workers")
    return sizes(subject)


def left_early(subject: Judged) -> list[Scenario]:
    """Return epochs in order and at random, to be left after a few batches."""
    return [plain(subject), shuffled(subject)]


def all_dropped(subject: Judged) -> Scenario:
    """Return fewer samples than fill a batch, of which all are dropped."""
    return subject.scenario(TWO, batch_size=4, drop_last=True)


def drops(subject: Judged) -> list[Scenario]:
    """Return rests to be dropped: some, none, and everything."""
    exact = subject.scenario(GREY, batch_size=4, drop_last=True)
    return [rest_dropped(subject), exact, all_dropped(subject)]


def refusals(subject: Judged) -> dict[str, Scenario]:
    """Return what no loader can make sense of, by what is wrong with it."""
    promises = subject.case.description.promises
    asked: dict[str, dict[str, int]] = {
        "batch_size=0": {"batch_size": 0},
        "batch_size=-1": {"batch_size": -1},
        **({"num_workers=-1": {"num_workers": -1}} if Promise.WORKERS in promises else {}),
        **({"rank=2 of 2": {"rank": 2, "world_size": 2}} if Promise.SHARDING in promises else {}),
    }
    return {
        name: subject.scenario(COLOUR, epochs=1, **{"batch_size": 4, **fields})
        for name, fields in asked.items()
    }


def lengths(subject: Judged) -> list[Scenario]:
    """Return all sizes, and rests to be dropped by loaders that can."""
    promised = Promise.DROP_LAST in subject.case.description.promises
    return [*sizes(subject), *([rest_dropped(subject), all_dropped(subject)] if promised else [])]


def rest_dropped(subject: Judged) -> Scenario:
    """Return epochs of which a rest is dropped, shuffled where that is promised.

    Two workers that each drop a rest of their own drop more than a batch here.
    """
    shuffle = Promise.SHUFFLE in subject.case.description.promises
    return subject.scenario(
        COLOUR, epochs=5, batch_size=7, drop_last=True, shuffle=shuffle, seed=subject.seed
    )


def undropped(scenario: Scenario) -> Scenario:
    """Return the same scenario for a loader that drops no rest."""
    return replace(scenario, request=replace(scenario.request, drop_last=False))


def without_workers(scenario: Scenario) -> Scenario:
    """Return the same scenario for a loader without workers."""
    return replace(scenario, request=replace(scenario.request, num_workers=0))
