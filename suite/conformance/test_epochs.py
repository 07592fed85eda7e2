"""What comes in an epoch: everything, once, and then the end."""

from __future__ import annotations

import numpy as np
import pytest

from loaderproof.loaders import Promise
from loaderproof.suite.conformance.scenarios import (
    GREY,
    TWO,
    everything,
    plain,
    rest_dropped,
    shuffled,
    sizes,
)
from loaderproof.suite.judged import Judged, Place, samples
from loaderproof.suite.observation import Epoch, Observation

WATCH = "experiments:watch"


def test_every_pass_ends(subject: Judged) -> None:
    """Every epoch ends by itself."""
    for seen, epoch, place in subject.watch(everything(subject)):
        if not epoch.ended:
            subject.fail(
                place,
                expected=f"an end after {seen.count} samples",
                got=f"{len(epoch.index)} samples and more to come",
                hint="a repeat or cycle without a count, or a stop that waits for len()",
            )


def test_every_sample_once(subject: Judged) -> None:
    """Every sample of the source comes exactly once in the first epoch."""
    for seen, epoch, place in subject.watch(everything(subject)):
        # An epoch without an end is reported by the test of that.
        if epoch.number == 0 and epoch.ended:
            _expect_complete(subject, seen, epoch, place)


def test_second_epoch_is_complete(subject: Judged) -> None:
    """Every epoch after the first holds every sample exactly once, too."""
    for seen, epoch, place in subject.watch(everything(subject)):
        if epoch.number > 0 and epoch.ended and not _known(seen, epoch, seen.epochs[:1]):
            _expect_complete(subject, seen, epoch, place)


def test_new_pass_after_a_break_is_complete(subject: Judged) -> None:
    """After an epoch that was left early, the next one starts anew and holds everything."""
    for scenario in (plain(subject), shuffled(subject)):
        seen = subject.run("experiments:watch_after_break", scenario, taken=2)
        whole = subject.run(WATCH, scenario)
        for epoch in seen.epochs:
            if not _known(seen, epoch, whole.epochs):
                _expect_complete(subject, seen, epoch, Place(scenario, epoch.number))


def test_batch_sizes(subject: Judged) -> None:
    """All batches have the size that was asked for, but the last, which holds the rest."""
    for _, epoch, place in subject.watch(everything(subject)):
        size = place.scenario.request.batch_size
        got = _full_and_rest(epoch)
        came = sum(got)
        if epoch.ended and got != _sizes(came, size):
            subject.fail(
                place,
                expected=f"{came} samples in batches of {size}, what is left in the last: {_sizes(came, size)}",
                got=str(got),
                hint="each worker batches its own part, or the last batch is filled up or left out",
            )


@pytest.mark.promises(Promise.DROP_LAST)
def test_drop_last(subject: Judged) -> None:
    """With drop_last every batch is full, no sample comes twice, and each epoch leaves out others."""
    undropped = subject.run(WATCH, shuffled(subject))
    for scenario in (
        rest_dropped(subject),
        *(subject.scenario(data, batch_size=4, drop_last=True) for data in (GREY, TWO)),
    ):
        for seen, epoch, place in subject.watch([scenario]):
            # What a later epoch does without drop_last, too, is reported by the tests of that.
            other = undropped.epochs[min(epoch.number, len(undropped.epochs) - 1)]
            if epoch.ended and (epoch.number == 0 or _complete(undropped, other)):
                _expect_full_batches(subject, seen, epoch, place)
    _expect_others_left_out(subject, subject.run(WATCH, rest_dropped(subject)))


def _expect_full_batches(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    size, got = place.scenario.request.batch_size, _full_and_rest(epoch)
    repeated = np.flatnonzero(_amount(seen, epoch) > 1) if epoch.number else np.empty(0, int)
    if got != [size] * (seen.count // size) or repeated.size:
        subject.fail(
            place,
            expected=f"{seen.count // size} batches of {size}, no sample twice",
            got=f"batches of {got}" + (f"; repeated {samples(seen, repeated)}" if repeated.size else ""),
            hint="drop_last is not passed on, each worker drops a rest of its own, or a rest is carried over",
        )


def _expect_others_left_out(subject: Judged, seen: Observation) -> None:
    # A right loader leaves out the same 2 of 23 samples in 4 epochs with probability 253**-3, 6e-8.
    orders = {tuple(epoch.index.tolist()) for epoch in seen.epochs}
    left_out = {tuple(np.flatnonzero(_amount(seen, epoch) == 0).tolist()) for epoch in seen.epochs}
    promised = {Promise.SHUFFLE, Promise.RESHUFFLING} <= subject.case.description.promises
    if promised and len(orders) == len(seen.epochs) > 1 and len(left_out) == 1 and left_out != {()}:
        subject.fail(
            Place(seen.scenario),
            expected="other samples left out in each epoch, since each has another order",
            got=f"in all {len(orders)} epochs the same: {samples(seen, next(iter(left_out)))}",
            hint="the rest is cut off before the order is drawn, so that its samples are never seen",
        )


@pytest.mark.promises(Promise.LENGTH)
def test_len_counts_batches(subject: Judged) -> None:
    """The loader has a length, and it is the number of batches in an epoch."""
    scenarios = sizes(subject)
    if Promise.DROP_LAST in subject.case.description.promises:
        scenarios.append(rest_dropped(subject))
    for seen, epoch, place in subject.watch(scenarios):
        # Epochs without an end, and later ones that are shorter, are reported by the tests of that.
        if epoch.number == 0 and epoch.ended and seen.length != len(epoch.batches):
            subject.fail(
                place,
                expected=f"len() == {len(epoch.batches)}, as many batches as came",
                got="no len()" if seen.length is None else f"len() == {seen.length} for {seen.count} samples",
                hint="len() counts samples, or rounds the last batch the other way",
            )


def _expect_complete(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    if _complete(seen, epoch):
        return
    amount, foreign = _amount(seen, epoch), int((epoch.index < 0).sum())
    missing, repeated = np.flatnonzero(amount == 0), np.flatnonzero(amount > 1)
    found = [f"{len(epoch.index)} samples"]
    found += [f"missing {samples(seen, missing)}"] if missing.size else []
    found += [f"repeated {samples(seen, repeated)}"] if repeated.size else []
    found += [f"{foreign} that are not in the source"] if foreign else []
    subject.fail(
        place,
        expected=f"each of {seen.count} samples once",
        got="; ".join(found),
        hint="a rest that is dropped or filled up, a queue that is not emptied, workers or epochs that overlap",
    )


def _known(seen: Observation, epoch: Epoch, others: list[Epoch]) -> bool:
    """Tell whether another epoch, which is judged elsewhere, lacks and repeats as many samples."""
    times = np.sort(_amount(seen, epoch))
    return any(
        len(epoch.index) == len(other.index) and np.array_equal(times, np.sort(_amount(seen, other)))
        for other in others
    )


def _complete(seen: Observation, epoch: Epoch) -> bool:
    return len(epoch.index) == seen.count and bool(np.all(_amount(seen, epoch) == 1))


def _amount(seen: Observation, epoch: Epoch) -> np.ndarray:
    """Return how often each sample of the source came."""
    return np.bincount(epoch.index[epoch.index >= 0], minlength=seen.count)


def _full_and_rest(epoch: Epoch) -> list[int]:
    """Return the sizes of the batches; an empty one is reported by the test of shapes."""
    return [batch.size for batch in epoch.batches if batch.size]


def _sizes(samples: int, size: int) -> list[int]:
    return [min(size, samples - start) for start in range(0, samples, size)]
