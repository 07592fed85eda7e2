"""In which order samples come."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from loaderproof.loaders import Promise
from loaderproof.suite import mixing
from loaderproof.suite.conformance.scenarios import SORTED, SORTED_BATCH, shuffled, sizes
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.observation import Epoch

WATCH = "experiments:watch"
# Share of the samples that say how well all are mixed.
ENOUGH = 0.9


@pytest.mark.promises(Promise.SOURCE_ORDER)
def test_unshuffled_order_is_source_order(subject: Judged) -> None:
    """Without shuffling every epoch comes in the order of the source."""
    for seen, epoch, place in subject.watch(sizes(subject)):
        places = _first_times(epoch)
        order = epoch.index[places]
        back = np.flatnonzero(np.diff(order) < 0)
        if back.size:
            first = int(back[0]) + 1
            subject.fail(
                replace(place, batch=epoch.batch_of(int(places[first]))),
                expected=f"samples in the order of the source, 0 to {seen.count - 1}",
                got=f"sample #{order[first]} after #{order[first - 1]}; order {_shown(order)}",
                hint="shuffling that cannot be switched off, workers or files read in turn, names sorted as text",
            )


@pytest.mark.promises(Promise.SHUFFLE)
def test_shuffled_order_differs_from_source_order(subject: Judged) -> None:
    """Asked to shuffle, the loader delivers another order than the source's."""
    # A right loader fails with probability 1/23!, about 4e-23.
    scenario = shuffled(subject)
    for _, epoch, place in subject.watch([scenario]):
        if epoch.number == 0 and np.all(np.diff(epoch.index) > 0):
            subject.fail(
                place,
                expected="a random order",
                got=f"the order of the source: {_shown(epoch.index)}",
                hint="shuffle is not passed on, or set after the order was made",
            )


@pytest.mark.promises(Promise.SHUFFLE, Promise.RESHUFFLING)
def test_every_epoch_has_its_own_order(subject: Judged) -> None:
    """Asked to shuffle, the loader delivers each epoch in a new order and in new batches."""
    # A right loader fails with probability 3/23!, about 1e-22.
    seen = subject.run(WATCH, shuffled(subject))
    for earlier, later in itertools.combinations(range(len(seen.epochs)), 2):
        first, second = (_batches(epoch) for epoch in (seen.epochs[earlier], seen.epochs[later]))
        if _shuffles(seen.epochs[later]) and set(map(frozenset, first)) == set(map(frozenset, second)):
            same = "order" if first == second else "batches in another order"
            subject.fail(
                Place(seen.scenario, later),
                expected=f"another order than in epoch {earlier}",
                got=f"the same {same}: {_shown(seen.epochs[later].index)}",
                hint="the generator is made anew for each epoch, set_epoch does not arrive, or batches are cached",
            )


@pytest.mark.promises(Promise.SHUFFLE, Promise.SEEDED_ORDER)
def test_same_seed_gives_the_same_orders(subject: Judged) -> None:
    """Two loaders with one seed deliver the same epochs in the same orders."""
    scenario = shuffled(subject)
    first, again = subject.run(WATCH, scenario), subject.run("experiments:watch_again", scenario)
    for one, other in zip(first.epochs, again.epochs, strict=False):
        if _bag(one) == _bag(other) and not np.array_equal(one.index, other.index):
            subject.fail(
                Place(scenario, one.number),
                expected=f"the order of the first loader: {_shown(one.index)}",
                got=_shown(other.index),
                hint="the seed is not passed on, or workers or threads race for their turn",
            )


@pytest.mark.promises(Promise.SHUFFLE, Promise.SEEDED_ORDER)
def test_another_seed_gives_another_order(subject: Judged) -> None:
    """Two loaders with different seeds deliver different orders."""
    # A right loader fails with probability 1/23!, about 4e-23.
    one = subject.run(WATCH, shuffled(subject)).epochs[0]
    # The last is the first again for whoever keeps 16 bits of a seed.
    for seed in (subject.seed + 1, subject.seed + 2**16):
        other = subject.run(WATCH, shuffled(subject, seed))
        if _shuffles(one) and np.array_equal(one.index, other.epochs[0].index):
            subject.fail(
                Place(other.scenario, 0),
                expected=f"another order than with seed={subject.seed}",
                got=f"the same order: {_shown(other.epochs[0].index)}",
                hint="the seed is a constant, is not passed on, or only a part of it is kept",
            )


@pytest.mark.promises(Promise.SHUFFLE)
def test_shuffle_is_as_wide_as_promised(subject: Judged) -> None:
    """A shuffled epoch mixes sorted data as well as a shuffle buffer of the promised size does."""
    scenario = subject.scenario(SORTED, epochs=1, batch_size=SORTED_BATCH, shuffle=True, seed=subject.seed)
    for seen, epoch, place in subject.watch([scenario]):
        buffer = subject.case.setup.shuffle_buffer or seen.count
        order = epoch.index[_first_times(epoch)]
        if not _shuffles(epoch) or len(order) < ENOUGH * seen.count:
            continue  # other tests report it
        found = mixing.measure(order, seen.labels[order], SORTED_BATCH)
        owed = mixing.owed(seen.labels, SORTED_BATCH, buffer)
        if not owed.allows(found):
            subject.fail(
                place,
                expected=str(owed),
                got=str(found),
                hint=f"a buffer narrower than {buffer}, or whole files shuffled instead of samples",
            )


def _first_times(epoch: Epoch) -> np.ndarray:
    """Return where in an epoch each sample came first; what came again is reported by other tests."""
    known, first = np.unique(epoch.index, return_index=True)
    return np.sort(first[known >= 0])


def _shuffles(epoch: Epoch) -> bool:
    return bool(np.any(np.diff(epoch.index) < 0))


def _batches(epoch: Epoch) -> list[list[int]]:
    return [
        part.tolist()
        for part in np.split(epoch.index, np.cumsum([batch.size for batch in epoch.batches])[:-1])
    ]


def _bag(epoch: Epoch) -> list[int]:
    return sorted(epoch.index.tolist())


def _shown(order: np.ndarray) -> str:
    return ", ".join(f"#{place}" for place in order[:10]) + (", ..." if len(order) > 10 else "")
