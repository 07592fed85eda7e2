"""In which order samples come."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from loaderproof.loaders import Promise
from loaderproof.suite import chance, mixing
from loaderproof.suite.conformance.scenarios import (
    MANY,
    SORTED,
    SORTED_BATCH,
    WATCH,
    at_random,
    in_order,
    over,
    repeatedly,
    shuffled,
    shuffled_once,
    sizes,
)
from loaderproof.suite.judged import Judged, Place
from loaderproof.suite.observation import Epoch, Observation, Scenario

# Share of the samples that say how well all are mixed.
ENOUGH = 0.9
# So many samples have the same follower in two random orders with a probability below 1/30!, which is 4e-33,
# however many samples there are: 30 given pairs of neighbours do with (n-30)!/n!, and there are C(n-1, 30) choices.
FOLLOWERS = 30


def _often(subject: Judged) -> Scenario:
    """Return so many samples in so many random orders that hardly anything is alike in them by chance."""
    return subject.scenario(MANY, epochs=6, batch_size=50, shuffle=True, seed=subject.seed)


def _repeatedly(subject: Judged) -> list[Scenario]:
    return [*repeatedly(subject), _often(subject)]


@pytest.mark.promises(Promise.SOURCE_ORDER)
@over(sizes, in_order)
def test_unshuffled_order_is_source_order(
    subject: Judged, seen: Observation, epoch: Epoch, place: Place
) -> None:
    """Without shuffling every epoch comes in the order of the source.

    Why: predictions are joined with their samples by their place. In another order each gets the
    prediction of another sample.

    Reports: dmlc/dgl#5068, mosaicml/streaming#749, Lightning-AI/pytorch-lightning#21447

    Causes: shuffling that cannot be switched off, workers or files that are read one after the other,
    file names sorted as text.

    Remedy: take batches from the workers in turn, pad numbers in file names with zeros or sort by
    number, and pass `shuffle` on.
    """
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
@over(shuffled_once, at_random)
def test_shuffled_order_differs_from_source_order(
    subject: Judged, seen: Observation, epoch: Epoch, place: Place
) -> None:
    """Asked to shuffle, the loader delivers another order than the source's.

    Why: sources lie sorted by class or by time. Batches of one class each teach a network little but
    the class that came last.

    Reports: pytorch/pytorch#31771, webdataset/webdataset#62

    Causes: shuffle is not passed on, or the order of the first epoch is made before it is set.

    Remedy: pass `request.shuffle` to the sampler, or draw a permutation in `__iter__`.
    """
    # The other epochs are judged by the test of that.
    order = epoch.index[_first_times(epoch)]
    if epoch.number == 0 and np.all(np.diff(order) > 0) and _by_no_chance(subject, seen, epoch):
        subject.fail(
            place,
            expected="a random order",
            got=f"the order of the source: {_shown(epoch.index)}",
            hint="shuffle is not passed on, or set after the order was made",
        )


@pytest.mark.promises(Promise.SHUFFLE, Promise.RESHUFFLING)
@over(_repeatedly, at_random)
def test_every_epoch_has_its_own_order(
    subject: Judged, seen: Observation, epoch: Epoch, place: Place
) -> None:
    """Asked to shuffle, the loader delivers each epoch in a new order and in new batches.

    Why: with one order for all epochs the network sees the same batches again and again, which costs
    accuracy and makes averages over epochs worthless.

    Reports: pytorch/pytorch#31771, tensorflow/tensorflow#27680, sql-machine-learning/sqlflow#2143,
    webdataset/webdataset#172, huggingface/datasets#6673, Lightning-AI/pytorch-lightning#13316

    Causes: the generator is seeded anew for each epoch, the epoch is counted in a copy that a worker
    got, set_epoch does not arrive at the sampler, batches are cached.

    Remedy: seed once and draw on, or seed with the seed and the epoch; forward set_epoch to every
    sampler; shuffle after the cache and before batching.
    """
    for other in (one for one in seen.epochs if one.number < epoch.number):
        same = _shuffles(epoch) and _likeness(subject, seen, other, epoch)
        if same:
            subject.fail(
                place,
                expected=f"another order than in epoch {other.number}",
                got=f"the same {same}: {_shown(epoch.index)}",
                hint="the generator is made anew for each epoch, set_epoch does not arrive, or batches are cached",
            )


def _likeness(subject: Judged, seen: Observation, one: Epoch, other: Epoch) -> str:
    """Return what two epochs have in common that chance does not give them."""
    if np.array_equal(one.index, other.index):
        return "order" if _by_no_chance(subject, seen, one) else ""
    first, second = _batches(one), _batches(other)
    by_no_chance = subject.mixes_all(seen.count) and chance.groupings(map(len, first)) >= chance.RARE
    if by_no_chance and set(map(frozenset, first)) == set(map(frozenset, second)):
        return "batches in another order"
    return ""


def _by_no_chance(subject: Judged, seen: Observation, epoch: Epoch) -> bool:
    """Tell whether a right loader gives this very order so seldom that nobody will see it."""
    came = len(epoch.index)
    if came < seen.count and not subject.mixes_all(seen.count):
        return False
    return chance.orders(came, subject.case.setup.shuffle_buffer) >= chance.RARE


@pytest.mark.promises(Promise.SHUFFLE, Promise.SEEDED_ORDER)
@over(shuffled_once, at_random)
def test_same_seed_gives_the_same_orders(
    subject: Judged, seen: Observation, epoch: Epoch, place: Place
) -> None:
    """Two loaders with one seed deliver the same epochs in the same orders.

    Why: without it no run can be repeated, no failure found again, and two models differ for reasons
    that nobody can name.

    Reports: meta-pytorch/torchtune#168, tensorflow/tensorflow PR#34180

    Causes: the seed is not passed on, or only to the workers or for the first epoch; samples are
    taken in the order in which threads or workers happen to be ready.

    Remedy: draw the order in one place with a generator that the seed decides, and take results in
    the order in which they were asked for.
    """
    del seen
    again = subject.run("watching:watch_again", place.scenario).epochs
    other = next((one for one in again if one.number == epoch.number), epoch)
    if _bag(epoch) == _bag(other) and not np.array_equal(epoch.index, other.index):
        subject.fail(
            place,
            expected=f"the order of the first loader: {_shown(epoch.index)}",
            got=_shown(other.index),
            hint="the seed is not passed on, or workers or threads race for their turn",
        )


@pytest.mark.promises(Promise.SHUFFLE, Promise.SEEDED_ORDER)
def test_another_seed_gives_another_order(subject: Judged) -> None:
    """Two loaders with different seeds deliver different orders.

    Why: whoever repeats a run with five seeds wants five runs. With a seed that does not arrive the
    spread over seeds is none, and the result looks more certain than it is.

    Causes: the seed is a constant, is not passed on, or only some of its bits are kept.

    Remedy: `generator.manual_seed(request.seed)`, or `numpy.random.default_rng(request.seed)`.
    """
    # A right loader fails with probability 2/23!, about 8e-23.
    one = subject.run(WATCH, shuffled(subject)).epochs[0]
    # The last is the first again for whoever keeps 16 bits of a seed.
    for seed in (subject.seed + 1, subject.seed + 2**16):
        other = subject.run(WATCH, shuffled(subject, seed))
        if (
            _shuffles(one)
            and np.array_equal(one.index, other.epochs[0].index)
            and _by_no_chance(subject, other, one)
        ):
            subject.fail(
                Place(other.scenario, 0),
                expected=f"another order than with seed={subject.seed}",
                got=f"the same order: {_shown(other.epochs[0].index)}",
                hint="the seed is a constant, is not passed on, or only a part of it is kept",
            )


@pytest.mark.promises(Promise.SHUFFLE)
def test_shuffle_is_as_wide_as_promised(subject: Judged) -> None:
    """A shuffled epoch mixes sorted data as well as a shuffle buffer of the promised size does.

    Why: a narrow buffer over data that lie sorted gives batches of one or two classes. The loss looks
    well within each, and the accuracy is that of the last classes seen.

    Reports: webdataset/webdataset#62, tensorflow/tensorflow#36626, huggingface/datasets#8015

    Causes: a buffer that is narrower than was promised, whole files that are shuffled in place of
    samples, an order that only starts elsewhere.

    Remedy: shuffle all indices where the data allow it; else shuffle the data once when they are
    written, and declare the buffer with `Variant(shuffle_buffer=...)`.
    """
    narrow = _narrow(subject)
    if narrow:
        place, owed, found = narrow
        width = subject.case.setup.shuffle_buffer or "all samples"
        subject.fail(
            place,
            expected=str(owed),
            got=str(found),
            hint=f"a buffer narrower than {width}, or whole files shuffled instead of samples",
        )


def _narrow(subject: Judged) -> tuple[Place, mixing.Owed, mixing.Mixing] | None:
    """Return where sorted data are mixed too little, what was owed there and what was found."""
    scenario = subject.scenario(SORTED, epochs=1, batch_size=SORTED_BATCH, shuffle=True, seed=subject.seed)
    for seen, epoch, place in subject.watch([scenario]):
        buffer = subject.case.setup.shuffle_buffer or seen.count
        order = epoch.index[_first_times(epoch)]
        if not _shuffles(epoch) or not _nearly_whole(seen, epoch):
            continue  # other tests report it
        found = mixing.measure(order, seen.labels[order], SORTED_BATCH)
        owed = mixing.owed(seen.labels, SORTED_BATCH, buffer)
        if not owed.allows(found):
            return place, owed, found
    return None


@pytest.mark.promises(Promise.SHUFFLE, Promise.RESHUFFLING)
def test_epochs_share_no_pattern(subject: Judged) -> None:
    """The orders of two epochs have nothing in common: neither neighbours nor a sample that keeps its place.

    Loaders with a shuffle buffer that is smaller than the data are not judged.

    Why: samples that follow one another in every epoch share most of their batches, and one that always
    comes first is always learnt from first. Averages over epochs are then worth less than they look.

    Causes: one permutation that is rotated, reversed or cut elsewhere in each epoch, groups of samples that
    are moved as a whole, a range of places that leaves out the first or the last.

    Remedy: draw a new permutation of all places for each epoch, from the seed and the epoch.
    """
    seen = subject.run(WATCH, _often(subject))
    if not subject.mixes_all(seen.count):
        pytest.skip(
            "its shuffle buffer holds only a part of the data, so that neighbours stay near each other"
        )
    epochs = [epoch for epoch in seen.epochs if _shuffles(epoch) and _nearly_whole(seen, epoch)]
    pairs = list(itertools.combinations(epochs, 2))
    if any(_likeness(subject, seen, *pair) for pair in pairs) or _narrow(subject):
        return  # other tests report it
    for one, other in pairs:
        shared = sorted(_followers(one) & _followers(other))
        if len(shared) >= FOLLOWERS:
            subject.fail(
                Place(seen.scenario, other.number),
                expected=f"about one sample with the same follower as in epoch {one.number}, as chance has it",
                got=f"{len(shared)}: {', '.join(f'#{first} before #{then}' for first, then in shared[:4])}, ...",
                hint="one permutation that is rotated or cut anew, or groups that are moved as a whole",
            )
    fixed = _fixed(epochs)
    # By chance there is one with a probability of at most count**(2 - epochs): 1.2e-10 for 300 samples and 6 epochs.
    if fixed.size and seen.count ** (len(epochs) - 2) >= chance.UNLIKELY:
        subject.fail(
            Place(seen.scenario),
            expected=f"no sample with the same place in all {len(epochs)} epochs",
            got=", ".join(f"#{epochs[0].index[where]} at place {where}" for where in fixed[:4].tolist()),
            hint="the range of places that are shuffled leaves out the first or the last",
        )


def _followers(epoch: Epoch) -> set[tuple[int, int]]:
    """Return each sample with the one that comes next."""
    return set(itertools.pairwise(epoch.index[_first_times(epoch)].tolist()))


def _fixed(epochs: Iterable[Epoch]) -> np.ndarray:
    """Return at which places all epochs have the same sample."""
    rows = np.array(list(zip(*(epoch.index.tolist() for epoch in epochs), strict=False)), np.int64)
    return np.flatnonzero([row[0] >= 0 and np.all(row == row[0]) for row in rows])


def _first_times(epoch: Epoch) -> np.ndarray:
    """Return where in an epoch each sample came first; what came again is reported by other tests."""
    known, first = np.unique(epoch.index, return_index=True)
    return np.sort(first[known >= 0])


def _nearly_whole(seen: Observation, epoch: Epoch) -> bool:
    return len(_first_times(epoch)) >= ENOUGH * seen.count


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
