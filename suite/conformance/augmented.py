"""Augmented epochs of one loader, and how the draws of one repeat those of another."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from loaderproof.loaders import Promise
from loaderproof.suite import echo
from loaderproof.suite.conformance.scenarios import MANY
from loaderproof.suite.draws import PIXELS, Drawn, Pass, Stream
from loaderproof.suite.judged import Judged
from loaderproof.suite.observation import Scenario

DRAWN = "randomness:drawn"
# Two samples a batch: draws that batches share are 150 in an epoch.
BATCH = 2
# Reading is slow here, now and then.
FEW = "probe:90:9x14x1"
# Means of pixels that differ by less are equal but for rounding.
ROUNDING = 1e-5
# Of 150 pairs of right draws all are pairs of equals, and five of them are not of the commonest value,
# with probability 5.6e-11 at the most, however often each value is drawn.
UNCOMMON = 5
# Values that come once in each of two epochs, in orders that know nothing of each other: k or more are
# moved by one and the same distance with probability 1/k! at the most, 4.2e-19, for each of 1200
# distances, of ids or of turns. Partners within a batch of two, drawn anew in each epoch, move a
# quarter of all values by one; so half of them are asked for.
MOVED = 20
_Echo = Callable[[Stream, Stream, Stream], float]
_WAYS: dict[str, _Echo] = {"sample by sample": echo.by_id, "in the order in which they come": echo.in_order}


def augmented(subject: Judged, data: str = MANY, epochs: int = 3, **asked: object) -> Scenario:
    """Return epochs with augmentation, shuffled where that is promised."""
    shuffle = Promise.SHUFFLE in subject.case.description.promises
    more = {"batch_size": BATCH, "shuffle": shuffle, "seed": subject.seed, "augment": True, **asked}
    return subject.scenario(data, epochs=epochs, **more)


def shared(*runs: Drawn) -> list[str]:
    """Return the families that all of some runs show."""
    return [family for family in runs[0].families if all(family in run.families for run in runs[1:])]


def repeated(seen: Drawn, earlier: int, later: int, apart: Drawn, family: str) -> str | None:
    """Return how an epoch repeats the draws of an earlier one, or None if it does not."""
    one, other = (seen.passes[epoch].stream(family) for epoch in (earlier, later))
    return repeating(one, other, apart.passes[later].stream(family))


def repeating(one: Stream, other: Stream, apart: Stream) -> str | None:
    """Return how a stream repeats another, or None if it does no more than one that is drawn apart."""
    return next((way for way, test in _WAYS.items() if test(one, other, apart) < echo.RARE), None)


def shares_in_batches(one: Stream) -> bool:
    """Return whether all samples of a batch share one draw, while batches differ more than by chance."""
    if not one.by_batch:
        return False
    _, first, sizes = np.unique(one.batch, return_index=True, return_counts=True)
    _, times = np.unique(one.values[first[sizes > 1]], return_counts=True)
    return bool(times.sum() - times.max() >= UNCOMMON)


def moved(one: Stream, other: Stream) -> str | None:
    """Return how a stream has most values of an earlier one, all as far from their place there; or None.

    Args:
        one: the earlier stream.
        other: the one that might have its values at other places.
    """
    (values, first), (again, second) = _once(one), _once(other)
    _, mine, theirs = np.intersect1d(values, again, assume_unique=True, return_indices=True)
    before, after = first[mine], second[theirs]
    steps = {"ids": one.ids[before] - other.ids[after], "turns": before - after}
    for what, step in steps.items():
        far, times = np.unique(step[step != 0], return_counts=True)
        if times.max(initial=0) > max(MOVED, len(other) // 2):
            most = times.argmax()
            return f"{times[most]} of {len(other)} values, {far[most]:+d} in {what}"
    return None


def with_apart(subject: Judged) -> tuple[Drawn, Drawn]:
    """Return the draws of the run's seed, and those of another."""
    seeds = subject.seed, subject.seed + 1
    one, other = (subject.run(DRAWN, augmented(subject, seed=seed)) for seed in seeds)
    return one, other


def same_samples(one: Pass, other: Pass) -> tuple[np.ndarray, np.ndarray]:
    """Return how far the same samples are from the source in two epochs."""
    _, *places = np.intersect1d(one.places, other.places, return_indices=True)
    return one.away[places[0]], other.away[places[1]]


def first_difference(one: Drawn, other: Drawn) -> tuple[str, int, str] | None:
    """Return the family, the epoch and the words for the first draw that differs, sample by sample."""
    if not (one.carries_ids and other.carries_ids):
        return None
    for first, second in zip(one.passes, other.passes, strict=False):
        common, mine, theirs = np.intersect1d(first.places, second.places, return_indices=True)
        for family in one.families:
            if family == PIXELS:
                apart = np.abs(first.away[mine] - second.away[theirs]).max(axis=1) > ROUNDING
            else:
                apart = first.drawn[family][mine] != second.drawn[family][theirs]
            if np.any(apart):
                return family, first.number, f"others for {int(apart.sum())} of {len(common)} samples"
    return None


def shown(stream: Stream) -> str:
    """Return the first draws of a stream, for a report."""
    hashed = stream.values.dtype == np.uint64
    shown = (f"{value:016x}" if hashed else f"{value:.6g}" for value in stream.values[:5].tolist())
    return ("hashes " if hashed else "") + ", ".join(shown) + ", ..."


def between_workers(one: Stream, apart: Stream, alone: Stream, workers: int) -> str | None:
    """Return how workers repeat each other's draws in one epoch, or None if they do not.

    Args:
        one: the draws of all workers.
        apart: with another seed.
        alone: without workers; what repeats itself there does so for another reason.
        workers: how many there are.
    """
    way = _dealt_twice(one, apart, workers)
    return None if way and _dealt_twice(alone, apart, workers) else way


def _once(one: Stream) -> tuple[np.ndarray, np.ndarray]:
    """Return the values that come only once, and their places."""
    values, first, times = np.unique(one.values, return_index=True, return_counts=True)
    return values[times == 1], first[times == 1]


def _dealt_twice(one: Stream, apart: Stream, workers: int) -> str | None:
    if echo.within(one, apart) < echo.RARE:
        distinct = len(np.unique(one.values))
        return f"only {distinct} different ones among {len(one)} samples, far fewer than by chance"
    for mine, other in zip(echo.dealt(one, workers), echo.dealt(apart, workers), strict=True):
        for first, second in itertools.combinations(range(workers), 2):
            streams = one.part(mine[first]), one.part(mine[second]), apart.part(other[second])
            if echo.in_order(*streams) < echo.RARE:
                return f"worker {second} draws what worker {first} draws"
    return None


def between_ranks(one: Stream, other: Stream, apart: Stream, workers: int) -> str | None:
    """Return how one rank repeats the draws of another, or None if it does not."""
    if echo.in_order(one, other, apart) < echo.RARE:
        return "the same, in the order in which they come"
    parts = [next(echo.dealt(stream, workers)) for stream in (one, other, apart)]
    for mine, theirs in itertools.product(range(workers), repeat=2):
        streams = one.part(parts[0][mine]), other.part(parts[1][theirs]), apart.part(parts[2][theirs])
        if echo.in_order(*streams) < echo.RARE:
            return f"worker {theirs} draws what worker {mine} of rank 0 draws"
    return "the same, in some other order" if echo.as_set(one, other, apart) < echo.RARE else None
