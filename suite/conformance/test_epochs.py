"""What comes in an epoch: everything, once, and then the end."""

from __future__ import annotations

import numpy as np
import pytest

from loaderproof.loaders import Promise
from loaderproof.suite import chance
from loaderproof.suite.conformance.scenarios import (
    AFTER_BREAK,
    WATCH,
    dropping,
    drops,
    everything,
    left_early,
    lengths,
    over,
    undropped,
    whole,
)
from loaderproof.suite.judged import Judged, Place, samples
from loaderproof.suite.observation import Epoch, Observation


@over(everything)
def test_every_pass_ends(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    """Every epoch ends by itself.

    Why: a training loop over epochs never comes to its second, and no evaluation ever ends.

    Reports: webdataset/webdataset#379

    Causes: a repeat or cycle without a count, a stop that waits for a length that is not known.

    Remedy: one pass, one epoch: leave the repeating to the training loop, or count it.
    """
    if not epoch.ended:
        subject.fail(
            place,
            expected=f"an end after {seen.count} samples",
            got=f"{len(epoch.index)} samples and more to come",
            hint="a repeat or cycle without a count, or a stop that waits for len()",
        )


@over(everything, whole)
def test_every_sample_once(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    """Every sample of the source comes exactly once in the first epoch.

    Why: samples that never come are data that was paid for and not used; samples that come twice
    weigh twice. In an evaluation both make another figure out of the same model.

    Reports: pytorch/pytorch#25162, pytorch/pytorch#33413, google/grain#1129, meta-pytorch/data#899,
    ray-project/ray#18266, webdataset/webdataset#158, NVIDIA/DALI#3488, huggingface/datasets#3423,
    tensorflow/tensorflow PR#22010

    Causes: a rest that is dropped or filled up, a queue that is not emptied when the source ends,
    workers that each read everything, drawing with replacement, an index that is one short.

    Remedy: hand out the last batch as it is, empty the queue before the end, split the samples
    between workers, and draw a permutation.
    """
    # An epoch without an end is reported by the test of that.
    if epoch.number == 0 and epoch.ended:
        _expect_complete(subject, seen, epoch, place)


@over(everything, whole)
def test_second_epoch_is_complete(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    """Every epoch after the first holds every sample exactly once, too.

    Why: the first epoch is the one that everybody looks at. A second that is empty stops the training
    without an error; one that is short or doubled goes unnoticed.

    Reports: tensorflow/datasets#2270, facebookresearch/spdl PR#1359, meta-pytorch/torchrec#2327,
    ray-project/ray PR#65044

    Causes: `__iter__` returns a generator that is made once, a look ahead takes the first batch of
    the next epoch, a queue or a counter is not reset.

    Remedy: make all that belongs to an epoch in `__iter__`.
    """
    if epoch.number > 0 and epoch.ended and not _known(seen, epoch, seen.epochs[:1]):
        _expect_complete(subject, seen, epoch, place)


@over(left_early, whole, AFTER_BREAK, taken=2)
def test_new_pass_after_a_break_is_complete(
    subject: Judged, seen: Observation, epoch: Epoch, place: Place
) -> None:
    """After an epoch that was left early, the next one starts anew and holds everything.

    Why: sanity checks, steps per epoch and interrupted cells all leave an epoch early. What follows
    is then short, or does not come at all.

    Reports: meta-pytorch/data#550, facebookresearch/spdl PR#1433, TensorSpeech/TensorFlowASR#264,
    tensorflow/tensorflow#50952, meta-pytorch/data#1198

    Causes: a cursor that all passes share, a clean-up at the end of a generator that shuts the loader
    down, a cache that is taken for complete when it is closed.

    Remedy: keep the cursor in the iterator, tell an epoch's end from its being left, and mark a cache
    complete after the last sample only.
    """
    if not _known(seen, epoch, subject.run(WATCH, place.scenario).epochs):
        _expect_complete(subject, seen, epoch, place)


@over(everything)
def test_batch_sizes(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    """All batches have the size that was asked for, but the last, which holds the rest.

    Why: the size of a batch decides how the network learns and how fast it goes; a schedule over
    steps is wrong if there are more of them.

    Reports: pytorch/pytorch#44108, NVIDIA/DALI#3488

    Causes: each worker makes batches of its own share, the last batch is filled up, the rest comes
    first.

    Remedy: batch after the shares of the workers are joined, and hand out the rest as it is, last.
    """
    del seen
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
@over(drops, dropping)
def test_drop_last(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    """With drop_last every batch is full, no sample comes twice, and each epoch leaves out others.

    Why: batch statistics and compiled networks want full batches. Each worker that drops a rest of
    its own costs more samples than one batch, and a rest that is cut off first is never seen.

    Reports: pytorch/pytorch#33413, google/grain#1129, facebookresearch/detectron2 PR#5035,
    RasmussenLab/vamb PR#425

    Causes: drop_last is not passed on, each worker drops a rest of its own, the rest is carried into
    the next epoch or cut off before the order is drawn.

    Remedy: pass drop_last to whatever makes the batches, after the shares of workers are joined and
    the order is drawn. With fewer samples than a batch, no batch comes.
    """
    if epoch.ended and not _drops_rightly(seen, epoch, place) and _sound_without(subject, epoch, place):
        _report_drop(subject, seen, epoch, place)
    if epoch is seen.epochs[-1]:
        _expect_others_left_out(subject, seen)


def _drops_rightly(seen: Observation, epoch: Epoch, place: Place) -> bool:
    size = place.scenario.request.batch_size
    return _full_and_rest(epoch) == [size] * (seen.count // size) and not _twice(seen, epoch).size


def _twice(seen: Observation, epoch: Epoch) -> np.ndarray:
    """Return what came twice in a later epoch; of the first, other tests report it."""
    return np.flatnonzero(_amount(seen, epoch) > seen.owed) if epoch.number else np.empty(0, int)


def _sound_without(subject: Judged, epoch: Epoch, place: Place) -> bool:
    """Tell whether an epoch is right without drop_last, too; if it is a later one, other tests report it."""
    if epoch.number == 0:
        return True
    seen = subject.run(WATCH, undropped(place.scenario))
    return epoch.number < len(seen.epochs) and _complete(seen, seen.epochs[epoch.number])


def _report_drop(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    size, repeated = place.scenario.request.batch_size, _twice(seen, epoch)
    got = f"batches of {_full_and_rest(epoch)}" if epoch.batches else "no batches"
    subject.fail(
        place,
        expected=f"{seen.count // size} batches of {size}, no sample twice",
        got=got + (f"; repeated {samples(seen, repeated)}" if repeated.size else ""),
        hint="drop_last is not passed on, each worker drops a rest of its own, or a rest is carried over",
    )


def _expect_others_left_out(subject: Judged, seen: Observation) -> None:
    orders = {tuple(epoch.index.tolist()) for epoch in seen.epochs}
    left_out = {tuple(np.flatnonzero(_amount(seen, epoch) < seen.owed).tolist()) for epoch in seen.epochs}
    promised = {Promise.SHUFFLE, Promise.RESHUFFLING} <= subject.case.description.promises
    if not promised or len(left_out) > 1 or left_out == {()} or not len(orders) == len(seen.epochs) > 1:
        return
    (always,) = left_out
    # A right loader does it in the scenario of the test, 5 epochs over 23 samples without 2, with
    # probability 253**-4, 2.4e-10. A narrow buffer leaves out mostly what comes last.
    ways = chance.remainders(seen.count, len(always), len(seen.epochs))
    if ways >= chance.UNLIKELY and subject.mixes_all(seen.count):
        subject.fail(
            Place(seen.scenario),
            expected="other samples left out in each epoch, since each has another order",
            got=f"in all {len(orders)} epochs the same: {samples(seen, always)}",
            hint="the rest is cut off before the order is drawn, so that its samples are never seen",
        )


@pytest.mark.promises(Promise.LENGTH)
@over(lengths)
def test_len_counts_batches(subject: Judged, seen: Observation, epoch: Epoch, place: Place) -> None:
    """The loader has a length, and it is the number of batches in an epoch.

    Why: progress bars, learning-rate schedules and loops over `len(loader)` take it at its word; one
    that is too long ends in an exception or in steps that never come.

    Reports: pytorch/pytorch#40972, facebookresearch/detectron2 PR#5035, RasmussenLab/vamb PR#425

    Causes: it counts samples, rounds the last batch the other way, or forgets that drop_last leaves
    nothing of fewer samples than a batch.

    Remedy: `n // batch_size` with drop_last, `-(-n // batch_size)` without; or no `__len__` at all,
    and no promise of it.
    """
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
    missing, repeated = np.flatnonzero(amount < seen.owed), np.flatnonzero(amount > seen.owed)
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
    return len(epoch.index) == seen.count and np.array_equal(_amount(seen, epoch), seen.owed)


def _amount(seen: Observation, epoch: Epoch) -> np.ndarray:
    """Return how often each sample of the source came."""
    return np.bincount(epoch.index[epoch.index >= 0], minlength=seen.count)


def _full_and_rest(epoch: Epoch) -> list[int]:
    """Return the sizes of the batches; an empty one is reported by the test of shapes."""
    return [batch.size for batch in epoch.batches if batch.size]


def _sizes(samples: int, size: int) -> list[int]:
    return [min(size, samples - start) for start in range(0, samples, size)]
